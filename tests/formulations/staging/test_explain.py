"""What counting shows of layers that cannot be planned: one line for all alike."""

from __future__ import annotations

from typing import Any

from staging_instances import half_serial

from clusterplan.formulations.common.objective import Diagnosis
from clusterplan.formulations.staging.explain import layers_out_of_reach, named
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.instances.staging.instance import Layer, StagingInstance

LAYER = {"compute_s": {"t": 1.0}, "compute_parallel": 0.5}


def chain(*held: float, room: float | None = 3.0, **fields: Any) -> StagingInstance:
    """Return layers that hold so many GiB, on two units of one type."""
    layers = [{"name": f"l{index}", "memory_gib": gib, **LAYER} for index, gib in enumerate(held)]
    types = [{"name": "t", "price_usd_per_hour": 1, "limit": 2, "memory_gib": room}]
    return half_serial(layers=layers, types=types, **fields)


def found(instance: StagingInstance) -> Diagnosis | None:
    """Return what counting shows."""
    return StagingFormulation(instance).elementary_infeasibility()


def test_named() -> None:
    """Five, and how many more."""
    layers = [Layer(name=f"l{index}", **LAYER) for index in range(7)]
    assert named(layers[:2]) == "'l0', 'l1'"
    assert named(layers) == "'l0', 'l1', 'l2', 'l3', 'l4' and 2 more"


def test_nothing_to_explain() -> None:
    """Layers that fit, and are fast enough."""
    instance = chain(1, 2)
    assert layers_out_of_reach(instance, [(1.0, "t"), (1.0, "t")], 1.0) is None


def test_a_layer_that_fits_nowhere() -> None:
    """With what it needs, and what the roomiest type for it has."""
    one = found(chain(1, 4))
    assert one is not None
    assert one.reasons == ("layer 'l1' fits no device: it needs 4 GiB, and a unit of t has 3",)
    types = [
        {"name": name, "price_usd_per_hour": 1, "memory_gib": room} for name, room in (("s", 2), ("t", 3))
    ]
    layer = {
        "name": "a",
        "compute_s": {"s": 1, "t": 1},
        "compute_parallel": 1,
        "memory_gib": {"s": 5, "t": 6},
    }
    by_type = found(half_serial(types=types, layers=[layer]))
    assert by_type is not None
    assert by_type.reasons == ("layer 'a' fits no device: it needs 6 GiB, and a unit of t has 3",)


def test_many_layers_are_one_line() -> None:
    """The farthest from fitting is the example; those that are too slow have a line of their own."""
    many = found(chain(*range(1, 30), throughput_floor_samples_per_s=2))
    assert many is not None
    first, second = many.reasons
    assert first == (
        "26 layers fit no device: 'l3', 'l4', 'l5', 'l6', 'l7' and 21 more; 'l28' needs 29 GiB, and a unit "
        "of t has 3"
    )
    assert second.startswith(
        "layer 'l0': at most 1.33333 samples/s, on all units of t; too slow as well: 'l1'"
    )


def test_the_slowest_layer_stands_for_the_others() -> None:
    """The reason of a single one is what it always was."""
    single = found(half_serial(throughput_floor_samples_per_s=2))
    assert single is not None
    assert single.reasons == ("layer 'a': at most 1.33333 samples/s, on all units of t",)
    assert single.remedies[0] == "no floor above 1.33333 samples/s can be reached"
