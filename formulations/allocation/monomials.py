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

from dataclasses import dataclass

from ...instances.allocation.speed import FormulaModel, PsAsync, PsSync


@dataclass(frozen=True)
class Monomial:
    """c·pᵃ·wᵇ in seconds; a is `ps`, b is `workers`."""

    coefficient: float
    ps: int = 0
    workers: int = 0


def monomials(speed: FormulaModel) -> tuple[Monomial, ...]:
    """Return the monomials of the seconds of one step; those that are zero are left out."""
    if isinstance(speed, PsSync):
        t0, t1, t2, t3, t4 = speed.theta
        terms = [
            Monomial(t0 * speed.batch, workers=-1),
            Monomial(t1),
            Monomial(t2, ps=-1, workers=1),
            Monomial(t3, workers=1),
            Monomial(t4, ps=1),
        ]
    elif isinstance(speed, PsAsync):
        t0, t1, t2, t3 = speed.theta
        terms = [
            Monomial(t0, workers=-1),
            Monomial(t1, ps=-1),
            Monomial(t2),
            Monomial(t3, ps=1, workers=-1),
        ]
    else:
        t0, t1, t2, t3 = speed.theta
        terms = [
            Monomial(t0 * speed.batch - t2, workers=-1),
            Monomial(t1 + t2 - t3),
            Monomial(t3, workers=1),
        ]
    return tuple(term for term in terms if term.coefficient)
