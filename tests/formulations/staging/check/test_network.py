"""Networks of stages."""

from __future__ import annotations

import numpy as np

from clusterplan.formulations.staging.check.network import Arcs, Network


def network(types: int) -> Network:
    """Return three arcs through two layers."""
    first, after, kind = np.array([0, 1, 0]), np.array([2, 2, 1]), np.array([0, 1, 0])
    return Network(Arcs(first, after, kind, np.array([3.0, 2.0, 1.0]), np.ones((1, 3))), 2, types, np.ones(1))


def test_arcs_are_sorted_selected_and_turned() -> None:
    made = network(2).sorted()
    assert len(made) == 3
    assert made.arcs.cost.tolist() == [1.0, 3.0, 2.0]
    apart = made.only(np.array([1])).compact()
    assert (apart.layers, apart.arcs.first.tolist(), apart.arcs.after.tolist()) == (1, [0], [1])
    turned = made.mirrored()
    assert turned.arcs.first.tolist() == [1, 0, 0]
    assert turned.arcs.after.tolist() == [2, 2, 1]
    assert made.only(np.array([2])).arcs.cost.tolist() == [2.0]
    assert made.free().arcs.cost.tolist() == [0.0, 0.0, 0.0]


def test_types_matter_only_where_neighbours_differ() -> None:
    assert network(2).kind.tolist() == [0, 1, 0]
    assert network(0).kind.tolist() == [0, 0, 0]
