"""Classes of layers: colours, orphans of the backward pass, cycles, and tensors.

Ideals of an order.
"""

from __future__ import annotations

from typing import Any

from clusterplan.formulations.staging.graph_order import Classes, classes_of, ideals_of
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.staging.instance import StagingInstance


def classes(layers: str, edges: str) -> Classes:
    """Return the classes of layers such as ``a b:red -c:red``, of which those with a minus are backward."""
    rows: list[dict[str, Any]] = []
    for word in layers.split():
        name, _, colour = word.lstrip("-").partition(":")
        row: dict[str, Any] = {"name": name, "compute_s": {"t": 1}, "compute_parallel": 0}
        rows.append(
            row | ({"colour": colour} if colour else {}) | ({"backward": True} if word[0] == "-" else {})
        )
    made = parse_instance(
        {
            "schema_version": 1,
            "kind": "staging",
            "name": "g",
            "stage_rule": "free_cuts",
            "training": {"samples": 1},
            "probe_batch": 1,
            "types": [{"name": "t", "price_usd_per_hour": 1}],
            "layers": rows,
            "edges": [{"source": a, "target": b} for a, b in edges.split()],
        }
    )
    assert isinstance(made, StagingInstance)
    return classes_of(made)


def test_a_colour_is_one_class_and_forward_edges_order_them() -> None:
    """Edges of the backward pass set no order, and hand over tensors all the same."""
    found = classes("a:1 b:2 -B:2 -A:1", "ab bB BA")
    assert found.members == ((0, 3), (1, 2))
    assert found.arcs == {(0, 1)}
    assert [(tensor.layer, tensor.classes) for tensor in found.tensors] == [(0, {0, 1}), (2, {0, 1})]


def test_orphans_are_ordered_against_their_edges() -> None:
    """X has no forward layer: its backward edge to A puts it after A."""
    found = classes("a:1 -A:1 -X", "XA")
    assert found.members == ((0, 1), (2,))
    assert found.arcs == {(0, 1)}


def test_classes_in_a_cycle_are_one() -> None:
    """The colour of a and c surrounds b."""
    found = classes("a:1 b c:1 d", "ab bc cd")
    assert found.members == ((0, 1, 2), (3,))


def test_one_tensor_goes_to_many() -> None:
    """It touches the classes of its layer and of all that receive it, once."""
    (tensor,) = classes("a b c", "ab ac").tensors
    assert tensor.classes == {0, 1, 2}


DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


def test_a_diamond_has_six_ideals() -> None:
    """By rising size, each with the blocks that may come next."""
    found = ideals_of(4, DIAMOND)
    assert found.complete
    assert found.sets == (0, 0b1, 0b11, 0b101, 0b111, 0b1111)
    links = [
        (index, int(found.block[e]), int(found.target[e]))
        for index in range(6)
        for e in range(found.start[index], found.start[index + 1])
    ]
    assert links == [(0, 0, 1), (1, 1, 2), (1, 2, 3), (2, 2, 4), (3, 1, 4), (4, 3, 5)]


def test_too_many_ideals_leave_those_of_one_order() -> None:
    """Ten blocks without order have 1024."""
    assert len(ideals_of(10, [])) == 1024
    few = ideals_of(10, [], most=1000)
    assert not few.complete
    assert few.sets == tuple((1 << size) - 1 for size in range(11))
    assert len(few.start) == len(few) + 1


def test_broad_orders_are_given_up_at_once() -> None:
    """Any set of blocks that may come next makes an ideal: of 2,000 without order there are 2^2000."""
    assert len(ideals_of(9, [], most=512)) == 512
    assert not ideals_of(2000, []).complete
