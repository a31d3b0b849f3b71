"""In which steps the pattern formulation counts its objectives, and the levels at which they are kept.

Lexicographic optimisation, one objective after the other (Haimes et al. 1971, the ε-constraint method): what
an objective has reached is a limit for all later ones. Where all its values are multiples of a step, a bound
is rounded to the next of them.
"""

from __future__ import annotations

from fractions import Fraction

from ...formulations.consolidation.classes import Classes, common_step, exact

MOST_STEPS = 10**9
"""A step is of use if no count is more than so many of it."""
MODERATE = 10**6
"""Largest count of an objective whose values are no multiples of a step."""
ROUNDING = Fraction(1, 10**12)
"""Relative, of values that are no multiples of a step."""


def _counts(classes: Classes, objective: str) -> list[Fraction] | None:
    """Return what single jobs count in an objective; None where all counts are integers."""
    if objective == "value":
        return [amount for job in classes.jobs for amount in (job.value, job.restart)]
    if objective == "slowdown":
        return [lost for job in classes.jobs for lost in job.lost]
    return None


def objective_step(classes: Classes, objective: str) -> Fraction | None:
    """Return a step of which every value of an objective is a multiple; None if it is too small to help."""
    counts = _counts(classes, objective)
    step = None if counts is None else common_step(counts)
    if counts is None or step is None:
        return Fraction(1)
    return step if max(map(abs, counts)) < step * MOST_STEPS else None


def figure_step(classes: Classes, objective: str) -> Fraction:
    """Return a step that gives moderate figures where values have no common one."""
    largest = max((abs(count) for count in _counts(classes, objective) or ()), default=Fraction(0))
    return (largest or Fraction(1)) / MODERATE


def reached_level(classes: Classes, objective: str, value: float) -> Fraction:
    """Return an objective's value in a plan as a level to be kept, to be minimised."""
    counted = exact(value) * (-1 if objective == "value" else 1)
    return kept_level(classes, objective, counted - classes.offset(objective))


def kept_level(classes: Classes, objective: str, reached: Fraction) -> Fraction:
    """Return the level that plans keep whose values doubles cannot tell apart."""
    step = objective_step(classes, objective)
    return reached + abs(reached) * ROUNDING if step is None else round(reached / step) * step
