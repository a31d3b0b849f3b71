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
from .cuts import MAX_PRICES, Cut, Price

MAX_NODES = 1_000_000
MAX_CUTS = 10_000
Prices = Annotated[tuple[Price, ...], validated_in_batches(MAX_PRICES), Field(max_length=MAX_PRICES)]
"""Prices of the types of requests, then of the rows of the programme in their order; all are at least 0.

At leaves those of two rows for each total of devices follow, then those of the cuts that have prices.
"""


class Branching(Model):
    """An inner node: its first half has at most so many copies of a configuration, given by its index.

    Indices after those of the configurations stand for the models of device, where devices are counted; then
    `at_most` is a number of devices in use.
    """

    configuration: Count
    at_most: Count


class Leaf(Model):
    """A box of the root with prices.

    Attributes
    ----------
    infeasible
        Whether the prices prove that the leaf has no plan, without any costs.
    """

    prices: Prices
    infeasible: Flag = False


Nodes = Annotated[
    tuple[Branching | Leaf, ...], Field(min_length=1, max_length=MAX_NODES), validated_in_batches(MAX_NODES)
]


class Tree(Model):
    """The proof of a bound.

    Attributes
    ----------
    prices
        Those at the root, without cuts, by whose reduced costs configurations are left out that no better
        plan has.
    nodes
        The nodes in preorder.
    cuts, priced
        Cutting planes, and those of them that have prices at leaves, after those of the rows; by their
        indices among types, rows, two rows for each total of devices, and cuts.
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
    data: Any, configurations: int, totals: int, prices: tuple[int, int]
) -> MixCertificate | str:
    """Return the parsed certificate of an instance with so many configurations, or its first format error.

    Parameters
    ----------
    totals
        Number of models whose devices are counted.
    prices
        Numbers of types of requests and rows together in the first and in the second tree.
    """
    given = parsed_certificate(MixCertificate, data)
    if isinstance(given, str):
        return given
    for name, tree, count in zip(("first", "second"), (given.first, given.second), prices, strict=True):
        for fault in () if tree is None else _faults(tree, configurations, totals, count):
            return f"{name}.{fault}"
    return given


def _faults(tree: Tree, configurations: int, totals: int, prices: int) -> Iterator[str]:
    """Yield faults in the form of a tree with so many types and rows."""
    if len(tree.prices) != prices:
        yield f"prices: are {len(tree.prices)}; there are {prices} types and rows"
    prices += 2 * totals
    for index, cut in enumerate(tree.cuts):
        if len(cut.places) != len(cut.prices) or len(cut.places) != len(set(cut.places)):
            yield f"cuts.{index}: has other places than prices"
        if max(cut.places, default=0) >= prices + index:
            yield f"cuts.{index}.places: has {max(cut.places)}; there are {prices + index} before it"
    for row in tree.priced:
        if not prices <= row < prices + len(tree.cuts):
            yield f"priced: has {row}, which is no cut"
    prices, open_nodes = prices + len(tree.priced), 1
    for index, node in enumerate(tree.nodes):
        place = f"nodes.{index}"
        if not open_nodes:
            yield f"{place}: is beyond the end of the tree"
        open_nodes += 1 if isinstance(node, Branching) else -1
        if isinstance(node, Leaf) and len(node.prices) != prices:
            yield f"{place}.prices: are {len(node.prices)}; there are {prices} types, rows and cuts"
        if isinstance(node, Branching) and node.configuration >= configurations + totals:
            what = f"there are {configurations} and {totals} totals"
            yield f"{place}.configuration: is {node.configuration}; {what}"
    if open_nodes:
        yield f"nodes: {open_nodes} leaves are missing"
