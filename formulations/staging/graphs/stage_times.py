"""The time of one stage of a graph, from its set of layers alone.

D(S), the seconds in which one unit sends and receives, sums the tensors that the stage S cuts: those that
touch a class in S and one outside, each once. Then CT = S + A/k and DT = S' + (A' + D)/k as in a chain, and
ET = max(CT, DT) where they overlap, CT + DT where they add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ....instances.staging.instance import StagingInstance
from ..stage_times import Parts, layer_parts
from .classes import Classes


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


def stage_parts(instance: StagingInstance, classes: Classes, layers: Iterable[int], name: str) -> Parts:
    """Return S, A, S' and A' + D of a stage on a type, ready for `parts_time_s`."""
    own, of_layer = sorted(layers), classes.of_layer()
    inside = {of_layer[layer] for layer in own}
    position = [one.name for one in instance.types].index(name)
    cut = [
        tensor_seconds(instance, tensor.layer)[position]
        for tensor in classes.tensors
        if tensor.classes & inside and tensor.classes - inside
    ]
    columns = zip(*(layer_parts(instance.layers[layer], name) for layer in own), strict=True)
    serial, parallel, comm_serial, comm_parallel = map(math.fsum, columns)
    received = math.fsum([comm_parallel, *cut])
    return with_rule(instance, (serial, parallel, comm_serial, received))
