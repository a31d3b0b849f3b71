"""The check's own reading of a graph agrees with that of the methods."""

from __future__ import annotations

import itertools

import pytest
from staging_graphs import diamond, random_graph

from clusterplan.formulations.staging.check.graph_order import Order, ideals_below
from clusterplan.formulations.staging.graph_formulation import GraphFormulation
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.staging.instance import StagingInstance


def test_a_diamond() -> None:
    """Six ideals, found from all groups downwards, and seven links."""
    below = ideals_below(Order(diamond()))
    assert below.groups == [0, 1, 2, 3]
    assert sorted(below.sets) == [0, 0b1, 0b11, 0b101, 0b111, 0b1111]
    assert len(below.links) == 6


@pytest.mark.parametrize("seed", range(40))
def test_as_many_groups_and_ideals_as_the_methods(seed: int) -> None:
    """On random graphs, layers without time included."""
    instance = parse_instance(random_graph(seed))
    assert isinstance(instance, StagingInstance)
    formulation, order = GraphFormulation(instance), Order(instance)
    assert len(order.groups) == len(formulation.blocks)
    assert len(ideals_below(order).sets) == len(formulation.ideals)


def chain(seconds: dict[str, dict[str, float]], **compute: float) -> StagingInstance:
    """Return layers after each other on two types, whose outputs take so many seconds on each."""
    layers = [
        {"name": name, "compute_s": dict.fromkeys(("one", "two"), compute.get(name, 0.0)), "transfer_s": own}
        for name, own in seconds.items()
    ]
    names = list(seconds)
    return diamond(
        types=[{"name": name, "price_usd_per_hour": 1.0, "limit": 2} for name in ("one", "two")],
        layers=layers,
        edges=[{"source": a, "target": b} for a, b in itertools.pairwise(names)],
    )


@pytest.mark.parametrize(("out_of_x", "groups"), [({"one": 2, "two": 1}, 3), ({"one": 1, "two": 3}, 2)])
def test_a_layer_without_time_joins_where_no_type_pays_more(out_of_x: dict[str, float], groups: int) -> None:
    """One that pays more on either type with either neighbour stays alone."""
    order = Order(chain({"a": {"one": 1, "two": 3}, "x": out_of_x, "b": {}}, a=1.0, b=1.0))
    assert len(order.groups) == groups


def test_layers_without_time_that_only_touch_each_other_join_any_stage() -> None:
    """What they send to each other inside a stage costs nothing."""
    instance = chain({"x": {"one": 1, "two": 1}, "y": {}, "real": {}}, real=1.0)
    alone = instance.model_copy(update={"edges": instance.edges[:1]})
    assert len(Order(alone).groups) == 1


def test_a_layer_keeps_the_tensors_of_those_that_joined_it() -> None:
    """X joins y, which saves 5 s and costs 3; both then join a, which saves 3 and costs 2, and not b."""
    seconds = {name: {"one": s, "two": s} for name, s in (("a", 3), ("x", 5), ("y", 2))}
    order = Order(chain({**seconds, "b": {}}, a=1.0, b=1.0))
    assert sorted(sorted(group.layers) for group in order.groups.values()) == [[0, 1, 2], [3]]
