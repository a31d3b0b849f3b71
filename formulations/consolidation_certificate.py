"""Bounds on a placement from prices of pieces, derived here without trusting any solver.

A piece is what one job has on one server; a price π for each kind of piece cuts every plan into jobs, which
pay for the pieces they are cut into, and servers, which are paid for the pieces they hold. For an objective
fᵢ to be minimised, with multipliers μ ≥ 0 for the earlier ones and the plan's own values F of these,

    fᵢ ≥ Σ_j min(0, min over cuts of e·job + π·cut) + Σ_n min(0, min over loads of e·server − π·load) − μ·F

where e is what fᵢ + μ·f counts for a job or server; a job that must be placed has no 0 to choose. This holds
for every plan whose earlier objectives are no worse than F, whatever the prices. Objectives that only have
whole multiples of some quantum are rounded to the next one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError

from ..instances.errors import TooLargeError
from ..instances.fields import Model
from .consolidation_classes import Classes, exact
from .consolidation_price_bound import PriceBound

if TYPE_CHECKING:
    from .consolidation import ConsolidationFormulation

LARGEST = 1e12
"""No price or multiplier may exceed this."""
MUST_PLACE = "must_place"
"""The goal that comes before all objectives: 0 jobs that must be placed are missing."""
PRICED = ("value", "spread", "servers", "slowdown", "migrations")
"""Objectives that depend on cuts and loads alone; the others name servers."""
Price = Annotated[float, Field(ge=0, le=LARGEST)]


class CertifiedGoal(Model):
    """Prices for one objective.

    Attributes
    ----------
    prices
        For each kind the price of each of its pieces, in the order of the classes.
    multipliers
        What a unit of each earlier objective is worth in this one.
    """

    objective: Literal["must_place", "value", "spread", "servers", "slowdown", "migrations"]
    prices: tuple[tuple[Price, ...], ...]
    multipliers: dict[Literal["value", "spread", "servers", "slowdown", "migrations"], Price] = {}


class ConsolidationCertificate(Model):
    """Prices for each objective that is bounded by them; the others only have what counting gives."""

    goals: Annotated[tuple[CertifiedGoal, ...], Field(max_length=8)]


def read_certificate(classes: Classes, data: Any) -> ConsolidationCertificate | str:
    """Return the certificate, or what is wrong with its form."""
    try:
        certificate = ConsolidationCertificate.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    wanted = [len(pieces) for pieces in classes.pieces]
    for goal in certificate.goals:
        if [len(prices) for prices in goal.prices] != wanted:
            return f"the prices of {goal.objective} do not fit the kinds and pieces of the instance"
    return certificate


def quantum(classes: Classes, objective: str) -> Fraction | None:
    """Return a step of which every value of an objective is a multiple; None if it is too small to help."""
    if objective in ("spread", "servers", "migrations", MUST_PLACE):
        return Fraction(1)
    if objective == "value":
        amounts = {job.value for job in classes.jobs}
    else:
        amounts = {lost for job in classes.jobs for lost in job.lost}
    amounts -= {Fraction(0)}
    if not amounts:
        return Fraction(1)
    common = math.lcm(*(amount.denominator for amount in amounts))
    step = Fraction(math.gcd(*(int(amount * common) for amount in amounts)), common)
    return step if step * 10**9 > max(map(abs, amounts)) else None


ROUNDING = Fraction(1, 10**12)


def _level(classes: Classes, objective: str, value: float) -> Fraction:
    """Return an earlier objective's value, to be minimised, as an exact number that is no better than it."""
    sign = -1 if objective == "value" else 1
    step = quantum(classes, objective)
    exactly = (exact(value) - classes.offset(objective)) * sign
    if step is not None:
        return round(exactly / step) * step
    return exactly + abs(exactly) * ROUNDING


def price_bounds(
    formulation: ConsolidationFormulation, data: Any, values: Sequence[float] | None
) -> dict[str, float]:
    """Return the bounds that a certificate proves, by objective; infinite ones if there is no plan.

    Parameters
    ----------
    values
        Of the plan that it came with; bounds of later objectives are derived from earlier values.
    """
    try:
        classes = formulation.classes
        certificate = read_certificate(classes, data)
        if isinstance(certificate, str):
            return {}
        found: dict[str, float] = {}
        names = list(formulation.instance.objectives)
        for goal in certificate.goals:
            earlier = names[: names.index(goal.objective)] if goal.objective in names else []
            if goal.objective != MUST_PLACE and goal.objective not in names:
                continue
            if values is None and goal.multipliers:
                continue
            used = [name for name in earlier if name in goal.multipliers]
            levels: dict[str, Fraction] = {
                name: _level(classes, name, (values or ())[names.index(name)]) for name in used
            }
            bound = _bound(classes, goal, levels)
            if bound is not None:
                found[goal.objective] = bound
    except TooLargeError:
        return {}
    return found


def _bound(classes: Classes, goal: CertifiedGoal, levels: dict[str, Fraction]) -> float | None:
    """Return the bound of one goal in the terms of its objective."""
    weights = {name: Fraction(goal.multipliers[name]) for name in levels}  # type: ignore[index]
    if goal.objective != MUST_PLACE:
        weights[goal.objective] = Fraction(1)
    least = PriceBound(classes, goal.prices, weights, missing=goal.objective == MUST_PLACE).value()
    if least is None:
        return None
    least -= sum((weights[name] * level for name, level in levels.items()), Fraction(0))
    step = quantum(classes, goal.objective)
    if step is not None:
        least = math.ceil(least / step) * step
    return float(-least if goal.objective == "value" else least + classes.offset(goal.objective))


MOST_SHAPES = 20
"""Shapes of servers that get a price."""


def worth_of_servers(formulation: ConsolidationFormulation, data: Any, value: float) -> dict[str, float]:
    """Return for each shape of server, of which one is empty, what one more of it adds to the value at most.

    What a server is paid bounds what it adds; what is open between the bound and the plan's value counts too.

    Parameters
    ----------
    value
        Of the plan; it has to be the first objective.
    """
    try:
        classes = formulation.classes
        certificate = read_certificate(classes, data)
        if isinstance(certificate, str) or formulation.instance.objectives[0] != "value":
            return {}
        goal = next((goal for goal in certificate.goals if goal.objective == "value"), None)
        if goal is None:
            return {}
        bound = PriceBound(classes, goal.prices, {"value": Fraction(1)}, missing=False)
        least, paid = bound.value(), bound.loads()
    except TooLargeError:
        return {}
    if least is None:
        return {}
    step, open_ = quantum(classes, "value"), -least - exact(value)
    found: dict[str, float] = {}
    servers = list(formulation.servers.values())
    for server, most in zip(classes.servers, paid, strict=True):
        empty = next(
            (servers[n] for n in server.members if servers[n].available == servers[n].capacity), None
        )
        if empty is not None and not server.residents and len(found) < MOST_SHAPES:
            worth = Fraction(most, bound.scale) + open_
            rounded = math.floor(worth / step) * step if step is not None else worth
            model = "" if empty.gpu_model is None else f" ({empty.gpu_model})"
            amounts = ", ".join(f"{amount:g} {name}" for name, amount in empty.capacity.items())
            found[f"empty server of {amounts}{model}"] = float(rounded)
    return found
