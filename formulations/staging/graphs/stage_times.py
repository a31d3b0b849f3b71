"""The time of one stage of a graph.

The tensor of a layer is cut by a set of classes if it touches a class in the set and one outside. D(S), the
seconds in which one unit sends and receives, sums the tensors that the stage S cuts, each once. Then
CT = S + A/k and DT = S' + (A' + D)/k as in a chain, and ET = max(CT, DT) where they overlap, CT + DT where
they add up.

Where stages relay, a tensor passes through all stages between the first and the last that it touches. A stage
from ideal I to ideal J receives what I cuts while it sends what J cuts: D = max{D(I), D(J)}, and ET is
max(CT, DT), which is what PipeDream's optimiser computes (Narayanan et al. 2019).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from ....instances.staging.instance import StagingInstance
from ..plan import Stage
from ..stage_times import Parts, layer_parts, parts_time_s
from .classes import Classes


def relays(instance: StagingInstance) -> bool:
    """Return whether stages hand on what crosses them, so that their times depend on their order."""
    return instance.stage_cost == "relay"


def tensor_seconds(instance: StagingInstance, index: int) -> list[float]:
    """Return the seconds in which one unit of each type sends or receives the output of a layer."""
    layer = instance.layers[index]
    link = instance.link_gbit_per_s
    usual = 0.0 if link is None else layer.output_bytes / (link * 1e9 / 8)
    given = layer.transfer_s or {}
    return [given.get(one.name, usual) for one in instance.types]


def with_rule(instance: StagingInstance, parts: Parts) -> Parts:
    """Return parts whose larger time is that of the stage; where times add up, all of it is computing."""
    serial, parallel, comm_serial, comm_parallel = parts
    if instance.stage_cost == "sum":
        return serial + comm_serial, parallel + comm_parallel, 0.0, 0.0
    return parts


def cut_seconds(
    instance: StagingInstance, classes: Classes, inside: Collection[int], name: str
) -> list[float]:
    """Return the seconds, on one unit of a type, of each tensor that a set of classes cuts."""
    position, own = [one.name for one in instance.types].index(name), set(inside)
    return [
        tensor_seconds(instance, tensor.layer)[position]
        for tensor in classes.tensors
        if tensor.classes & own and tensor.classes - own
    ]


def stage_parts(
    instance: StagingInstance, classes: Classes, layers: Iterable[int], name: str, before: Iterable[int] = ()
) -> Parts:
    """Return S, A, S' and A' + D of a stage on a type, ready for `parts_time_s`.

    Parameters
    ----------
    before
        The layers of all stages before it, which count only where stages relay.
    """
    own, of_layer = sorted(layers), classes.of_layer()
    inside = {of_layer[layer] for layer in own}
    if relays(instance):
        done = {of_layer[layer] for layer in before}
        both = [cut_seconds(instance, classes, ideal, name) for ideal in (done, done | inside)]
        cut = max(both, key=math.fsum)
    else:
        cut = cut_seconds(instance, classes, inside, name)
    columns = zip(*(layer_parts(instance.layers[layer], name) for layer in own), strict=True)
    serial, parallel, comm_serial, comm_parallel = map(math.fsum, columns)
    received = math.fsum([comm_parallel, *cut])
    return with_rule(instance, (serial, parallel, comm_serial, received))


def times_of_stages_s(instance: StagingInstance, classes: Classes, plan: Sequence[Stage]) -> list[float]:
    """Return ET of each stage of a plan [s per probe batch]."""
    done, times = set[int](), []
    for stage in plan:
        parts = stage_parts(instance, classes, stage.members, stage.type, done)
        times.append(parts_time_s(parts, stage.units))
        done.update(stage.members)
    return times
