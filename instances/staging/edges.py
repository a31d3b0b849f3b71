"""The edges of a graph of layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from ..common.fields import Complaint, Model, Name, unknown_names

MOST_EDGES = 200_000
MOST_NAMED = 5
"""Layers of a cycle that are listed by name."""


class Edge(Model):
    """The layer `source` hands its output to the layer `target`."""

    source: Name
    target: Name


def edge_complaints(edges: Sequence[Edge], backward: Mapping[str, bool]) -> Iterator[Complaint]:
    """Yield what is wrong with edges.

    Parameters
    ----------
    backward
        Of each layer by name, whether it is of the backward pass.
    """
    unknown = False
    for index, edge in enumerate(edges):
        for key in ("source", "target"):
            for complaint in unknown_names([getattr(edge, key)], backward, "", "layer", "layers"):
                unknown = True
                yield f"edges[{index}].{key}", complaint[1]
    if unknown:
        return
    for index, edge in enumerate(edges):
        if backward[edge.source] and not backward[edge.target]:
            yield f"edges[{index}]", f"leads from backward layer {edge.source!r} to a forward one"
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for edge in edges:
        sorter.add(edge.target, edge.source)
    try:
        sorter.prepare()
    except CycleError as error:
        around = error.args[1][1:]
        named = ", ".join(map(repr, around[:MOST_NAMED]))
        more = f" and {len(around) - MOST_NAMED} more" if len(around) > MOST_NAMED else ""
        yield "edges", f"have a cycle through {named}{more}"
