"""Why there is no offer."""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.instances.prediction.fill.predict import predict
from clusterplan.instances.prediction.fill.work import Work
from clusterplan.instances.prediction.training.offers import Wanted
from clusterplan.instances.prediction.training.refusals import OF_MEMORY, why_not


@pytest.mark.parametrize(
    ("more", "short", "advice"),
    [
        ({"limits": {"h100": 4}, "gpus": 8}, "limit of 4 GPUs, 8 needed", "raise --limit to 8"),
        ({"limits": {"h100": 4}, "pipeline": 8}, "limit of 4 GPUs, 8 needed", "fewer GPUs"),
        ({"tensor": 12}, "no server of 12 GPUs", "--tensor of at most 8"),
        ({"global_batch": 64, "gpus": 100}, "64 samples for 100 replicas", "larger --global-batch"),
        ({"batch": 100_000}, "does not fit", "smaller --batch"),
        ({"batch": 100_000, "limits": {"h100": 4}}, "does not fit", "smaller --batch"),
    ],
)
def test_the_reason_is_that_which_holds(more: dict[str, Any], short: str, advice: str) -> None:
    found = predict("gpt2", "h100", **{"batch": 8, **more})
    (row,) = found.rows()
    assert not row["fits"]
    assert row["why_not"] == short
    assert advice in found.answer()
    assert ("fits on none" in found.answer()) == (short == "does not fit")


def test_what_is_rented_in_whole_machines_may_be_too_much() -> None:
    found = predict("gpt2", "a100-80,l4", batch=8, gpus=4, limits={"a100-80": 4})
    whole, single = found.refusals
    assert whole is not None
    assert whole.short == "limit of 4 GPUs, 8 needed"
    assert single is None
    assert found.answer().startswith("Rent 4 × l4")


def test_without_a_group_that_shares_tensors_memory_is_the_reason() -> None:
    assert why_not([], Work(), Wanted()) is OF_MEMORY
    forecasts = predict("gpt2", "l4", batch=100_000).forecasts
    assert why_not(forecasts, Work(), Wanted()) is OF_MEMORY
