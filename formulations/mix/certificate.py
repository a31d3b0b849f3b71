"""The form of mix certificates: branching trees with dual prices at their leaves.

A tree is a list of its nodes in preorder. A branching divides the plans into those with at most so many
copies of a configuration, whose nodes follow first, and those with more. So the leaves cover all plans, and
no list can leave any out. `check/`, which this module does not import, derives what the trees prove.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from ...instances.common.fields import Count, Flag, Model, validated_in_batches
from ..common.formulation import parsed_certificate
from .cuts import Cut

MAX_PRICE = 1e100
"""Upper limit of prices, so that no product of figures overflows."""
MAX_NODES = 1_000_000
MAX_CUTS = 10_000
MAX_ENTRIES = 50_000_000
"""Largest table of rows and cuts, which the check makes where there are cuts."""
Prices = Annotated[
    tuple[Annotated[float, Field(ge=0, le=MAX_PRICE)], ...],
    validated_in_batches(10_000),
    Field(max_length=10_000),
]
"""Prices of the rows of the programme in their order, then of the types of requests; all are at least 0."""


class TreeNode(Model):
    """A branching, or a leaf with prices.

    Attributes
    ----------
    configuration, at_most
        Of a branching: the index of the configuration in the instance, and the number of copies.
    prices
        Of a leaf.
    infeasible
        Whether the prices prove that the leaf has no plan, without any costs.
    """

    configuration: Count | None = None
    at_most: Count | None = None
    prices: Prices | None = None
    infeasible: Flag = False


Nodes = Annotated[
    tuple[TreeNode, ...], Field(min_length=1, max_length=MAX_NODES), validated_in_batches(MAX_NODES)
]


class Tree(Model):
    """The proof of a bound.

    Attributes
    ----------
    prices
        Those at the root, by whose reduced costs configurations are left out that no better plan has.
    nodes
        The nodes in preorder.
    cuts, priced
        Cutting planes, and those of them that have prices, by their indices among rows and cuts.
    """

    prices: Prices
    nodes: Nodes
    cuts: Annotated[tuple[Cut, ...], Field(max_length=MAX_CUTS)] = ()
    priced: Annotated[tuple[Count, ...], Field(max_length=MAX_CUTS)] = ()


class MixCertificate(Model):
    """The proofs of the bounds on both objectives.

    Attributes
    ----------
    first
        Of the first objective.
    second
        That no plan of the same first objective is better in the second one; there may be none.
    """

    first: Tree
    second: Tree | None = None


def read_certificate(
    data: Any, configurations: int, rows: tuple[int, int], types: int
) -> MixCertificate | str:
    """Return the parsed certificate, or its first format error.

    Parameters
    ----------
    configurations, types
        How many the instance has; of types of jobs none.
    rows
        Numbers of rows of the programme in the first and in the second tree.
    """
    given = parsed_certificate(MixCertificate, data)
    if isinstance(given, str):
        return given
    for name, tree, count in zip(("first", "second"), (given.first, given.second), rows, strict=True):
        faults = (
            ()
            if tree is None
            else (
                *_cut_faults(tree, configurations, count),
                *_node_faults(tree, configurations, count + types),
            )
        )
        for fault in faults:
            return f"{name}.{fault}"
    return given


def _cut_faults(tree: Tree, configurations: int, rows: int) -> Iterator[str]:
    """Yield faults in the form of the cuts of a tree."""
    if tree.cuts and (rows + len(tree.cuts)) * configurations > MAX_ENTRIES:
        yield f"cuts: are too many, {len(tree.cuts)}, for {configurations} configurations and {rows} rows"
    for index, cut in enumerate(tree.cuts):
        if len(cut.rows) != len(cut.numerators):
            yield f"cuts.{index}: has {len(cut.rows)} rows and {len(cut.numerators)} numerators"
        if max(cut.rows, default=0) >= rows + index:
            yield f"cuts.{index}.rows: has {max(cut.rows)}; there are {rows + index} rows before it"
    for row in tree.priced:
        if not rows <= row < rows + len(tree.cuts):
            yield f"priced: has {row}, which is no cut"


def _node_faults(tree: Tree, configurations: int, prices: int) -> Iterator[str]:
    """Yield faults in the form of the nodes of a tree, which have so many prices besides those of cuts."""
    prices += len(tree.priced)
    if len(tree.prices) != prices:
        yield f"prices: are {len(tree.prices)}; there are {prices} rows and types"
    open_nodes = 1
    for index, node in enumerate(tree.nodes):
        place = f"nodes.{index}"
        if not open_nodes:
            yield f"{place}: is beyond the end of the tree"
        if node.prices is not None:
            open_nodes -= 1
            if len(node.prices) != prices:
                yield f"{place}.prices: are {len(node.prices)}; there are {prices} rows and types"
        elif node.configuration is None or node.at_most is None:
            yield f"{place}: is neither a branching nor a leaf with prices"
        elif node.configuration >= configurations:
            yield f"{place}.configuration: is {node.configuration}; there are {configurations}"
        else:
            open_nodes += 1
    if open_nodes:
        yield f"nodes: {open_nodes} leaves are missing"
