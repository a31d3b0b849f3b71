"""Replicated stages as types."""

from __future__ import annotations

from typing import Any

import pytest
from staging_graphs import diamond
from staging_instances import two_layers

from clusterplan.instances.staging.instance import StagingInstance
from clusterplan.instances.staging.replicas import with_replicas


def four_gpus(**fields: Any) -> StagingInstance:
    """Return the diamond on four GPUs, its layers with 6 bytes of weights and 8 of output."""
    layers = [
        layer.model_dump(exclude_none=True)
        | {"weight_bytes": 6.0, "output_bytes": 8.0, "compute_parallel": 1}
        for layer in diamond().layers
    ]
    return diamond(4, layers=layers, **fields)


def test_times_of_replicas() -> None:
    """Layer c takes 3 s alone; two replicas add 2 · 6/2 bytes, at 2 bytes/s, and share all of it."""
    made = with_replicas(four_gpus(), 2.0)
    assert [one.name for one in made.types] == ["1 x gpu", "2 x gpu", "3 x gpu", "4 x gpu"]
    assert [one.price_usd_per_hour for one in made.types] == [1, 2, 3, 4]
    assert (made.hourly_budget_usd, made.most_units_per_stage) == (4, 1)
    layer = made.layers[2]
    assert layer.compute_s["1 x gpu"] == 3
    assert layer.compute_s["2 x gpu"] == pytest.approx((3 + 3) / 2)
    assert layer.compute_s["3 x gpu"] == pytest.approx((3 + 4) / 3)
    assert layer.transfer_s == pytest.approx({f"{m} x gpu": 8 / m for m in range(1, 5)})


def test_what_is_not_shared() -> None:
    """A serial share stays; neither weights nor tensors need be moved."""
    layers = [layer.model_copy(update={"compute_parallel": {"gpu": 0.5}}) for layer in four_gpus().layers]
    made = with_replicas(four_gpus().model_copy(update={"layers": layers}), 2.0, 0.0, 0.0)
    assert made.layers[2].compute_s["3 x gpu"] == pytest.approx(1.5 + 0.5)
    assert made.layers[2].transfer_s == dict.fromkeys(made.layers[2].compute_s, 0.0)


def test_it_is_still_an_instance() -> None:
    """Its document can be read again."""
    made = with_replicas(four_gpus(), 2.0)
    assert StagingInstance.model_validate(made.model_dump(exclude_none=True)) == made


@pytest.mark.parametrize(
    "instance",
    [
        two_layers(),
        diamond(hourly_budget_usd=3),
        diamond(types=[{"name": "gpu", "price_usd_per_hour": 0, "limit": 2}]),
        diamond(types=[{"name": "gpu", "price_usd_per_hour": 1}]),
    ],
)
def test_other_instances_are_refused(instance: StagingInstance) -> None:
    """A chain, one with a budget, without prices, or without a limit."""
    with pytest.raises(ValueError, match="replicas need"):
        with_replicas(instance, 1.0)
