"""Branch and bound over counts of configurations and of devices, which keeps its tree as a proof.

The box with the least bound is divided first, so that all that are left when it reaches the target are
leaves of the proof. It is divided at the count whose two halves raise the bound most (strong branching;
Achterberg, Koch, Martin, "Branching rules revisited", Operations Research Letters 33, 2005).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...formulations.mix.program import MixProgram, with_totals
from ...instances.common.arrays import Floats, Ints
from ...instances.common.fields import Fields
from ...instances.mix.instance import MAX_COPIES
from ..backends.base import BackendError
from ..common.base import Clock
from .relaxation import Relaxation, Relaxed
from .separation import FREE, Separation

MAX_LEAVES = 20_000
"""Leaves at which the search stops."""
SEPARATION_SHARE = 0.5
"""Share of the remaining time for cutting planes."""
CANDIDATES, TOTALS = 8, 4
"""Counts of copies, and of devices, that are tried for a branching."""
INTEGRAL, FINEST = 1e-7, 1e-11
"""Distance from a whole number within which a count is one, at first and if the check does not accept it."""
EQUAL = 1e-9
"""Relative difference of bounds within which other prices may take their place."""
LEAST_GAIN = 1e-9
"""Gain of a half, in parts of the bound, that counts in place of none."""


@dataclass
class Goal:
    """What a search looks for.

    Attributes
    ----------
    cutoff
        Plans that cost more do not matter; infinite where none is known.
    target
        The bound at which the search ends.
    """

    cutoff: float = math.inf
    target: float = math.inf


@dataclass(eq=False)
class _Node:
    """A box of counts and totals of devices, shape (n,) each; a leaf as long as it has no children."""

    low: Floats
    high: Floats
    relaxed: Relaxed
    branching: tuple[int, int] = (0, 0)
    children: tuple[_Node, ...] = ()


@dataclass
class Proof:
    """A branching tree.

    Attributes
    ----------
    prices
        Those of the relaxation of all plans.
    kept
        Index of each configuration that is left after those were excluded that no plan within the cutoff has,
        then those of the totals of devices.
    cuts
        The cutting planes, as a certificate has them.
    stopped
        Whether the number of leaves stopped the search.
    failure
        How HiGHS stopped it, if it did.
    """

    root: _Node
    prices: Floats
    kept: Ints
    cuts: Fields
    stopped: bool
    failure: str | None

    def leaves(self) -> list[_Node]:
        """Return the leaves of the tree."""
        return [node for node in self._preorder() if not node.children]

    @property
    def bound(self) -> float:
        """A bound on the cost of all plans within the cutoff; infinite if there is none."""
        return min(node.relaxed.bound for node in self.leaves())

    def _preorder(self) -> list[_Node]:
        nodes, stack = [], [self.root]
        while stack:
            node = stack.pop()
            nodes.append(node)
            stack += node.children[::-1]
        return nodes

    def tree(self) -> Fields:
        """Return the tree as a certificate has it."""
        nodes = [self._as_data(node) for node in self._preorder()]
        return {"prices": self.prices.tolist(), "nodes": nodes, **self.cuts}

    def _as_data(self, node: _Node) -> Fields:
        if node.children:
            k, at_most = node.branching
            return {"configuration": int(self.kept[k]), "at_most": at_most}
        leaf: Fields = {"prices": node.relaxed.prices.tolist()}
        return {**leaf, "infeasible": True} if node.relaxed.infeasible else leaf


class BranchAndBound:
    """The search for one objective.

    Parameters
    ----------
    program
        With the objective as its cost.
    goal_of
        Returns the goal; its cutoff and target fall with what is found.
    """

    def __init__(self, program: MixProgram, goal_of: Callable[[], Goal], clock: Clock) -> None:
        self.goal, self._goal_of, self.clock = goal_of(), goal_of, clock
        low = np.zeros(len(program.cost))
        # Limits of counts that follow from the rows would have a part of the prices of these.
        free = np.where(program.most > 0, FREE, 0.0)
        relaxation = Relaxation(program, clock)
        first = relaxation.solve(low, free)
        self._first = replace(first, bound=program.bound(first.prices, low, program.most))
        if not first.infeasible and (more := relaxation.prices_of_more(low, free)) is not None:
            bound = program.bound(more, low, program.most)
            if bound >= self._first.bound - EQUAL * abs(self._first.bound):
                self._first = replace(first, bound=bound, prices=more)
        limited = replace(program, most=self._limited(program))
        self._inside = limited.most > 0
        self._inside[:1] = True  # HiGHS knows nothing of rows without any columns
        self._totals = len(program.devices)
        self._separation = Separation(with_totals(limited.of(self._inside)))
        self._separation.run(self.goal.target, clock.share(SEPARATION_SHARE))
        self._relaxation = Relaxation(self._separation.program, clock)
        cuts = len(self._separation.program.rows) - len(program.rows)
        self._root = replace(self._first, prices=np.append(self._first.prices, np.zeros(cuts)))

    def _limited(self, program: MixProgram) -> Floats:
        """Return the most copies of each configuration in plans within the cutoff, by its reduced cost."""
        room = self.goal.cutoff - self._first.bound
        if not math.isfinite(room):
            return program.most
        reduced = program.reduced_costs(self._first.prices)
        # What is excluded here the check has to exclude too, with the prices at hand.
        room = max(room, 0.0) + 1e-9 * abs(self.goal.cutoff) + 1e-12
        copies = np.floor(room / np.maximum(reduced, room / MAX_COPIES))
        return np.where(reduced > 0, np.minimum(program.most, copies), program.most)

    def run(self, found: Callable[[Ints], None]) -> Proof:
        """Return the proof, complete or as far as the time and the number of leaves allow.

        Parameters
        ----------
        found
            Called with the whole counts of all configurations wherever a relaxation has some.
        """
        high = self._relaxation.program.most
        low = np.zeros_like(high)
        root = _Node(low, high, self._relaxed(self._root, low, high))
        failure = None
        try:
            leaves = self._divide_all(root, found)
        except BackendError as error:  # the tree is a proof as far as it was made
            leaves, failure = 0, str(error)  # what stopped it is not their number
        kept = np.flatnonzero(np.append(self._inside, np.ones(self._totals, dtype=bool)))
        cuts = self._separation.as_data()
        return Proof(root, self._first.prices, kept, cuts, leaves >= MAX_LEAVES, failure)

    def _divide_all(self, root: _Node, found: Callable[[Ints], None]) -> int:
        """Divide boxes until the least bound reaches the target; return the number of leaves."""
        open_, number, leaves = [(root.relaxed.bound, 0, root)], itertools.count(1), 1
        while open_ and not self._stopped(leaves):
            bound, _, node = heapq.heappop(open_)
            # As long as a half does not reach the target the other one waits: bases stay alike.
            while bound < self.goal.target and not self._stopped(leaves) and self._divide(node, found):
                leaves += 1
                node, other = sorted(node.children, key=lambda half: half.relaxed.bound)
                bound = node.relaxed.bound
                heapq.heappush(open_, (other.relaxed.bound, next(number), other))
        return leaves

    def _stopped(self, leaves: int) -> bool:
        """Return whether the time or the number of leaves ends the search."""
        return leaves >= MAX_LEAVES or self.clock.expired

    def _divide(self, node: _Node, found: Callable[[Ints], None]) -> bool:
        """Divide the box of a node at the best of some counts; return whether there is any to divide at."""
        below, open_ = self._parts(node, INTEGRAL)
        if not len(open_):
            whole = np.zeros(len(self._inside), dtype=np.int64)
            whole[self._inside] = below[: len(below) - self._totals]
            found(whole)
            self.goal = self._goal_of()
            # Where the check does not accept them, they are not quite whole.
            below, open_ = self._parts(node, FINEST)
            if node.relaxed.bound >= self.goal.target or not len(open_):
                return False
        part = node.relaxed.counts - below
        weight = np.minimum(part, 1 - part) * (np.abs(self._relaxation.program.cost) + LEAST_GAIN)
        best = -1.0
        ranked = open_[np.argsort(-weight[open_], kind="stable")]
        totals = ranked >= len(below) - self._totals  # they have no cost of their own
        for k in [*ranked[~totals][:CANDIDATES].tolist(), *ranked[totals][:TOTALS].tolist()]:
            halves = self._halves(node, k, float(below[k]))
            gain = self._gain(node, halves)
            if gain > best:
                best, node.branching, node.children = gain, (k, int(below[k])), halves
        return True

    @staticmethod
    def _parts(node: _Node, tolerance: float) -> tuple[Floats, Ints]:
        """Return the whole numbers at or below the counts of a node, and where these are not whole.

        Totals beyond what a branching can state are left out.
        """
        below = np.floor(node.relaxed.counts + tolerance)
        return below, np.flatnonzero((node.relaxed.counts - below > tolerance) & (below <= MAX_COPIES))

    def _gain(self, node: _Node, halves: Sequence[_Node]) -> float:
        """Return the product of the gains of two halves, each up to the target."""
        bound = node.relaxed.bound
        least = LEAST_GAIN * max(abs(bound), 1e-9)
        return math.prod(max(min(half.relaxed.bound, self.goal.target) - bound, least) for half in halves)

    def _halves(self, node: _Node, k: int, at_most: float) -> tuple[_Node, ...]:
        """Return the nodes with at most so many copies of k, and with more."""
        low, high = node.low.copy(), node.high.copy()
        high[k], low[k] = at_most, at_most + 1
        return tuple(
            _Node(*box, self._relaxed(node.relaxed, *box)) for box in ((node.low, high), (low, node.high))
        )

    def _relaxed(self, before: Relaxed, low: Floats, high: Floats) -> Relaxed:
        """Return the relaxation of a box, with its own prices or those of a larger box, which prove more."""
        relaxed = self._relaxation.solve(low, high)
        if relaxed.bound >= before.bound:
            return relaxed
        bound = self._relaxation.program.bound(before.prices, low, high)
        return Relaxed(bound, relaxed.counts, before.prices) if bound > relaxed.bound else relaxed
