"""The check's own reading of a graph agrees with that of the methods."""

from __future__ import annotations

import pytest
from staging_graphs import diamond, random_graph

from clusterplan.formulations.staging.check.graph_order import Order, ideals_below
from clusterplan.formulations.staging.graphs.formulation import GraphFormulation
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
