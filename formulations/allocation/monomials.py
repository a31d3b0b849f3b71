"""The speed formulas of allocation as sums of monomials: 1/f(p, w) = Σ c·pᵃ·wᵇ.

================== ==========================================================
``ps_sync``        θ0·M/w + θ1 + θ2·w/p + θ3·w + θ4·p
``ps_async``       θ0/w + θ1/p + θ2 + θ3·p/w
``ring_allreduce`` (θ0·M − θ2)/w + (θ1 + θ2 − θ3) + θ3·w
================== ==========================================================

Where no coefficient is negative the sum is a posynomial, convex in the logarithms of p and w. That is
always so with parameter servers, and for `ring_allreduce` where θ0·M ≥ θ2 and θ1 + θ2 ≥ θ3.
"""

from __future__ import annotations

from typing import NamedTuple

from ...instances.common.speed import FormulaModel, PsAsync, PsSync


class Monomial(NamedTuple):
    """c·pᵃ·wᵇ in seconds; a is `ps`, b is `workers`."""

    coefficient: float
    ps: int
    workers: int


def monomials(speed: FormulaModel) -> tuple[Monomial, ...]:
    """Return the monomials of the seconds of one step; those that are zero are left out."""
    # Each is c, a and b, in the order of the table above.
    if isinstance(speed, PsSync):
        t0, t1, t2, t3, t4 = speed.theta
        terms = [(t0 * speed.batch, 0, -1), (t1, 0, 0), (t2, -1, 1), (t3, 0, 1), (t4, 1, 0)]
    elif isinstance(speed, PsAsync):
        t0, t1, t2, t3 = speed.theta
        terms = [(t0, 0, -1), (t1, -1, 0), (t2, 0, 0), (t3, 1, -1)]
    else:
        t0, t1, t2, t3 = speed.theta
        terms = [(t0 * speed.batch - t2, 0, -1), (t1 + t2 - t3, 0, 0), (t3, 0, 1)]
    return tuple(Monomial(*term) for term in terms if term[0])
