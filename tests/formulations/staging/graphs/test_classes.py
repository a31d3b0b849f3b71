"""Classes of layers: colours, orphans of the backward pass, cycles, and tensors."""

from __future__ import annotations

from typing import Any

from clusterplan.formulations.staging.graphs.classes import Classes, classes_of
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
