"""The bounds that the branching trees of a certificate prove, in whole numbers.

Let π ≥ 0 be prices of the types of requests and τ ≥ 0 prices of the rows A y ≤ b. For every plan y with
shares x, since Σ_k μ_ki x_ki ≥ λ_i and Σ_i x_ki ≤ y_k,

    c·y ≥ c·y + τ·(A y − b) + Σ_i π_i (λ_i − Σ_k μ_ki x_ki)
        ≥ π·λ − τ·b + Σ_k d_k y_k   with   d_k = c_k + Σ_r τ_r A_rk − max_i π_i μ_ki,

and Σ_k d_k y_k is at least Σ_k min(d_k l_k, d_k u_k) in a box l ≤ y ≤ u (Lagrangian duality; Geoffrion,
"Lagrangean relaxation for integer programming", 1974). Without the costs, a positive right side proves that
the box has no plan. The boxes of the leaves of a tree cover that of its root, so that the least of their
bounds holds for all plans. Cutting planes are further rows, and totals of devices further counts. Prices are
floats, and so fractions; nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from ....instances.common.errors import TooLargeError
from ....instances.mix.instance import MixInstance
from ...common.clock import check_time
from ...common.objective import TIE_TOLERANCE, whole_numbers
from ..certificate import Branching, Leaf, MixCertificate, Tree
from ..cuts import with_cuts
from ..program import MixProgram, Numbers, better_in_second, program_of, with_totals

MAX_OPEN = 20_000_000
"""Most counts of all boxes that wait for their nodes."""
HUGE = 10**300
"""More than any plan costs; floats hold it."""
Box = tuple[Numbers, Numbers]
"""The least and the most copies of each configuration, and devices of each model."""


def certified_bounds(
    instance: MixInstance, given: MixCertificate, values: Sequence[float] | None
) -> tuple[float | None, float | None]:
    """Return the bounds that a certificate proves on both objectives; both infinite if there is no plan.

    Parameters
    ----------
    values
        Objectives of a plan, if there is one.
    """
    sign = 1 if instance.serves else -1
    cutoff = None if values is None else sign * Fraction(values[0])
    bound = tree_bound(program_of(instance), given.first, cutoff)
    if values is None or cutoff is None:
        return (sign * math.inf, sign * math.inf) if bound is None else (sign * _float(bound), None)
    first = values[0] if bound is None else sign * _float(min(bound, cutoff))
    if not instance.serves and first <= 0:
        return first, 0.0  # no job of any plan makes progress
    if given.second is None:
        return first, None
    # Of plans that are worse by rounding alone nothing is known.
    cutoff += abs(cutoff) * Fraction(TIE_TOLERANCE)
    bound = tree_bound(program_of(better_in_second(instance, values[1])), given.second, cutoff)
    return first, values[1] if bound is None or bound > cutoff else None


def _float(bound: Fraction) -> float:
    """Return a bound as a float; no plan costs as little, or as much, as floats cannot hold."""
    return float(bound) if abs(bound) < HUGE else math.copysign(HUGE, bound)


def tree_bound(program: MixProgram, tree: Tree, cutoff: Fraction | None) -> Fraction | None:
    """Return a bound on the cost of all plans that cost at most `cutoff`; None if the tree excludes them.

    Parameters
    ----------
    cutoff
        Of plans that cost more nothing is said; None: the bound holds for all plans.

    Raises
    ------
    TooLargeError
        If the tree would take too much memory.
    """
    low, high = np.zeros(len(program.cost), dtype=object), program.most
    if cutoff is not None:
        # No plan within the cutoff has copies whose reduced costs exceed what is left to it.
        prices, unit = whole_numbers(tree.prices)
        room = math.floor(cutoff * unit * program.unit - program.bound(prices, low, high, unit))
        if room < 0:
            return None
        reduced = program.reduced_costs(prices, unit)
        dear = reduced > 0
        high = high.copy()
        high[dear] = np.minimum(high[dear], room // reduced[dear])
    kept = (high > 0).astype(bool)
    # The totals of devices come after all configurations, and none of them is left out.
    columns = np.flatnonzero(np.append(kept, np.ones(len(program.devices), dtype=bool)))
    number, least = {k: i for i, k in enumerate(columns.tolist())}, None
    program = with_totals(replace(program, most=high).of(kept))
    boxes: list[Box | None] = [(np.zeros(len(program.cost), dtype=object), program.most)]
    program = with_cuts(program, tree.cuts, tree.priced)
    for node in tree.nodes:
        check_time()
        if len(boxes) * len(number) > MAX_OPEN:
            raise TooLargeError("the tree of the certificate is too deep to check")
        box = boxes.pop()
        if isinstance(node, Branching):
            boxes += _halves(box, number.get(node.configuration), node.at_most)
        elif box is not None:
            bound = _leaf_bound(program, box, node)
            least = bound if least is None or (bound is not None and bound < least) else least
    return least


def _halves(box: Box | None, k: int | None, at_most: int) -> list[Box | None]:
    """Return the boxes with more than so many copies of k, and with at most so many; None if one is empty.

    Of a configuration that was left out, `k` is None: there are no copies.
    """
    if box is None or k is None:
        return [None, box]
    low, high = box
    above, below = low.copy(), high.copy()
    above[k], below[k] = max(low[k], at_most + 1), min(high[k], at_most)
    return [(above, high) if above[k] <= high[k] else None, (low, below) if low[k] <= below[k] else None]


def _leaf_bound(program: MixProgram, box: Box, leaf: Leaf) -> Fraction | None:
    """Return the bound of a leaf; None if its prices prove that it has no plan."""
    wholes, unit = whole_numbers(leaf.prices)
    if leaf.infeasible and program.bound(wholes, *box, 0) > 0:
        return None
    return Fraction(program.bound(wholes, *box, unit), unit * program.unit)
