"""Is a plan still good where the figures are others? Plans for both ends of all intervals, and their regret.

The instance says which of its figures lie in which intervals. It is solved with all of them at their low
ends, as they are, and at their high ends, and each plan is valued at each end: what it loses there against
the best plan of that end is its regret (Savage 1951; Kouvelis & Yu 1997). Each solve is verified, as always,
and the best possible value of an end lies between the value of its plan and its bound, so that regrets are
proven too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from ..formulations.registry import formulate
from ..instances.common.base import Instance
from ..solvers.common.options import SolveOptions
from ..solvers.common.result import ObjectiveRecord, Result
from .api import solve
from .output.text import TextColumn, figure, percent
from .registry import KINDS
from .reports.text import status_words


@dataclass(frozen=True)
class End:
    """The instance with all uncertain figures at one end, and its best plan."""

    name: str
    instance: Instance
    result: Result

    @property
    def first(self) -> ObjectiveRecord | None:
        """What is known about the first objective."""
        return next(iter(self.result.objectives), None)

    def answer(self) -> str:
        """Return what the plan of this end does, or that there is none."""
        if self.result.plan is None:
            return f"no plan: {status_words(self.result.status, 'none')}."
        return KINDS[self.instance.kind].answer_of(self.instance, self.result.plan)


@dataclass(frozen=True)
class Regret:
    """A plan at an end.

    Attributes
    ----------
    plan, end
        The end for which the plan was made, and the one at which it is valued.
    value
        The first objective there; None where the plan is not allowed.
    broken
        Why it is not allowed there.
    least, most
        Between which its regret is proven to lie, 0 or more; None where that is not known.
    share
        The most, of the value of the plan that was found for that end.
    """

    plan: str
    end: str
    value: float | None
    broken: str | None = None
    least: float | None = None
    most: float | None = None
    share: float | None = None

    @property
    def proven(self) -> str:
        """Return the regret as text: a number, or two with what lies between."""
        if self.least is None or self.most is None:
            return "not allowed" if self.broken else "–"
        low, high = figure(self.least), figure(self.most)
        return low if low == high else f"{low} … {high}"


@dataclass(frozen=True)
class Robust:
    """The plans of all ends and their regrets.

    Attributes
    ----------
    asked
        How many ends there are; an interruption leaves some out.
    """

    instance: Instance
    ends: tuple[End, ...]
    regrets: tuple[Regret, ...]
    asked: int = 3

    def worst(self, plan: str) -> float | None:
        """Return the largest share that a plan may lose at any end; None where it is not allowed at one."""
        shares = [one.share for one in self.regrets if one.plan == plan]
        known = [share for share in shares if share is not None]
        return max(known) if known and len(known) == len(shares) else None

    def best(self) -> str | None:
        """Return the end whose plan loses least where it loses most; None if none is allowed everywhere."""
        known = {one.name: worst for one in self.ends if (worst := self.worst(one.name)) is not None}
        return min(known, key=lambda name: (known[name], name != "middle")) if known else None

    def headline(self) -> str:
        """Return the answer in a sentence."""
        if len(self.ends) < self.asked:
            return f"Interrupted: {len(self.ends)} of {self.asked} ends were solved."
        plans = [end for end in self.ends if end.result.plan is not None]
        if not plans:
            return "There is no plan at any end."
        best = self.best()
        if best is None:
            return "No plan is allowed at every end; the table says which limit it breaks."
        worst = self.worst(best) or 0.0
        if len(plans) == self.asked and all((self.worst(end.name) or 0.0) < 1e-9 for end in plans):
            return "One plan is best at every end: the uncertainty does not matter here."
        answer = next(end.answer() for end in plans if end.name == best)
        safest = f"The plan of the {best} end is the safest: at no end it loses more than {percent(worst)}."
        return f"{safest} It says: {answer}" if answer else safest

    def sentences(self) -> list[str]:
        """Return what the plan of each end does, what is not allowed, and what lies outside measurements."""
        lines = [f"{end.name}: {end.answer()}" for end in self.ends]
        lines += [
            f"the plan of the {one.plan} end is not allowed at the {one.end} end: {one.broken}"
            for one in self.regrets
            if one.broken
        ]
        given = self.instance.uncertainty or ()
        outside = sum(not one.inside for one in given)
        return [*lines, f"{len(given)} intervals, {outside} of them outside what was measured"]

    def as_data(self) -> dict[str, Any]:
        """Return all of it as plain data, with the results."""
        regrets = [
            {"plan": r.plan, "end": r.end, "value": r.value, "broken": r.broken}
            | {"regret_least": r.least, "regret_most": r.most, "share": r.share}
            for r in self.regrets
        ]
        ends = [{"end": end.name, "result": end.result.model_dump(mode="json")} for end in self.ends]
        head = {"instance": self.instance.name, "kind": self.instance.kind, "headline": self.headline()}
        return {**head, "safest": self.best(), "regrets": regrets, "ends": ends}

    def to_json(self) -> str:
        """Return all of it as one line of JSON."""
        return json.dumps(self.as_data(), ensure_ascii=False, allow_nan=False)


COLUMNS: tuple[TextColumn[Regret], ...] = (
    ("plan of", False, lambda one: one.plan),
    ("at the end", False, lambda one: one.end),
    ("value", True, lambda one: figure(one.value)),
    ("regret", True, lambda one: one.proven),
    ("at most", True, lambda one: percent(one.share)),
)
"""Of the table of regrets."""


def robust(
    instance: Instance,
    solver: str = "auto",
    options: SolveOptions | None = None,
    during: Callable[[str], AbstractContextManager[Any]] = lambda _: nullcontext(),
) -> Robust:
    """Solve an instance at the ends of its intervals, and value each plan at each end.

    Parameters
    ----------
    solver, options
        As for `solve`; limits hold for each solve.
    during
        Of the name of an end, what is to be entered while it is solved.

    Raises
    ------
    OptionError
        If the instance says nothing of intervals.
    InstanceError
        If what it says is wrong.
    """
    found: list[End] = []
    made = instance.at_ends()
    for name, changed in made.items():
        with during(name):
            found.append(End(name, changed, solve(changed, solver, options)))
        if found[-1].result.limit == "interrupt":
            break
    plans = [end for end in found if end.result.plan is not None]
    regrets = [_regret(end.name, end.result.plan or (), other) for end in plans for other in found]
    return Robust(instance, tuple(found), tuple(regrets), len(made))


def _regret(plan: str, entries: Sequence[Any], end: End) -> Regret:
    """Return a plan at an end; its value is derived there by the check, not by a solver."""
    formulation = formulate(end.instance)
    entries = formulation.choices(entries)
    broken = formulation.violations(entries)
    if broken:
        return Regret(plan, end.name, None, str(broken[0]))
    value = formulation.evaluate(entries)[0]
    best = end.first
    if best is None or best.value is None or best.bound is None:
        return Regret(plan, end.name, value)
    sign = 1.0 if best.sense == "min" else -1.0
    least = max(0.0, sign * (value - best.value))
    most = max(least, sign * (value - best.bound))
    if not best.value:
        return Regret(plan, end.name, value, None, least, most, None if most else 0.0)
    return Regret(plan, end.name, value, None, least, most, most / abs(best.value))
