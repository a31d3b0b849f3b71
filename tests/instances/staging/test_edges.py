"""Edges of a graph of layers: what is refused, and that chains keep their form."""

from __future__ import annotations

import pytest
from staging_graphs import diamond
from staging_instances import half_serial

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.staging.edges import Edge, edge_complaints

FORWARD = {"a": False, "b": False, "c": True}


def complaints(*pairs: str) -> list[tuple[str, str]]:
    return list(edge_complaints([Edge(source=pair[0], target=pair[1]) for pair in pairs], FORWARD))


def test_what_is_wrong_with_edges() -> None:
    """Unknown layers, cycles, and edges from the backward pass to the forward one."""
    assert complaints("ab", "bc") == []
    assert complaints("ax") == [("edges[0].target", "unknown layer 'x'; the layers are: a, b, c")]
    assert complaints("ab", "ca") == [("edges[1]", "leads from backward layer 'c' to a forward one")]
    (place, what), *_ = complaints("ab", "ba")
    assert (place, what.split()[:4]) == ("edges", ["have", "a", "cycle", "through"])


def test_a_chain_has_none_of_the_fields_of_graphs() -> None:
    """So its document, and its hash, are what they were before there were graphs."""
    chain = half_serial()
    assert not chain.is_graph
    assert not {"edges", "stage_cost", "most_units_per_stage"} & set(chain.document())
    assert not {"transfer_s", "colour", "backward"} & set(chain.document()["layers"][0])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"stage_rule": "maximal_runs"}, "stage_rule: is maximal_runs; stages of a graph have no neighbours"),
        ({"edges": None}, "stage_cost: is for graphs, and there are no edges"),
    ],
)
def test_rules_between_the_fields(fields: dict[str, object], expected: str) -> None:
    """Each fault has one line."""
    with pytest.raises(InstanceError, match=expected.replace("(", "[(]")):
        diamond(**fields)
