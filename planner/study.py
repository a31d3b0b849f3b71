"""Studies of an instance: variants of it, each solved and verified like any other instance, side by side.

A sensitivity analysis compares scenarios with the instance as it is. A regret analysis needs an instance
that says which of its figures lie in which intervals: it is solved with all of them at their low ends, as
they are, and at their high ends, and each plan is valued at each end. What it loses there against the best
plan of that end is its regret (Savage 1951; Kouvelis & Yu 1997). The best possible value of an end lies
between the value of its plan and its bound, so that regrets are proven too.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formulations.common.objective import agree
from ..formulations.registry import formulate
from ..instances.common.base import Instance
from ..instances.common.errors import OptionError
from ..instances.common.fields import Fields
from ..instances.common.kind import Builder
from ..solvers.common.result import ObjectiveRecord, Result, SolveOptions
from .api import instance_of, solve
from .changes import changed_instance
from .registry import KINDS
from .reports.text import (
    TextColumn,
    figure,
    listed,
    number_column,
    percent,
    plain_column,
    status_words,
)

if TYPE_CHECKING:
    import pandas as pd


AS_IT_IS = "as it is"
During = Callable[[str], AbstractContextManager[Any]]
"""Returns a context manager that is entered while the scenario of a name is solved."""


@dataclass(frozen=True)
class Scenario:
    """A solved variant of an instance; the unchanged instance is the scenario `as it is`."""

    name: str
    instance: Instance
    result: Result

    def answer(self, reason: bool = True) -> str:
        """Return a one-sentence summary of the plan, or the status if there is none, with its reason."""
        if self.result.plan is not None:
            return KINDS[self.instance.kind].answer_of(self.instance, self.result.plan)
        why = self.result.diagnosis.reasons[:1] if self.result.diagnosis else [self.result.message or ""]
        words = ["no plan", status_words(self.result.status, "none"), *(why if reason else ())]
        return ": ".join(filter(None, words)) + "."

    @property
    def first(self) -> ObjectiveRecord:
        """The record of the first objective; without figures if the result has no objectives."""
        return next(iter(self.result.objectives), NO_OBJECTIVE)

    def left_out(self) -> dict[str, str]:
        """Return the jobs that the plan does not place, each with the reason."""
        plan = self.result.plan
        return {} if plan is None else dict(KINDS[self.instance.kind].left_out(self.instance, plan))

    def rows(self) -> set[str]:
        """Return the names of the jobs (in staging, layers) that plans have entries for."""
        return {row.name for row in getattr(self.instance, KINDS[self.instance.kind].rows_of_plan)}

    def demand(self) -> Any:
        """Return what plans are asked for: the names of the jobs, or types with rates, counts and weights."""
        field = KINDS[self.instance.kind].demand
        return getattr(self.instance, field) if field else self.rows()


Scenarios = tuple[Scenario, ...]
NO_OBJECTIVE = ObjectiveRecord(name="–", sense="min", unit="–")
"""Stands for the objectives of a result that has none."""


class Study(ABC):
    """Solved variants of one instance, and what is said of them beside each other.

    Attributes
    ----------
    asked
        Number of requested variants; an interruption leaves some out.
    """

    asked: int

    @abstractmethod
    def all(self) -> Scenarios:
        """Return the variants that were solved."""

    @abstractmethod
    def headline(self) -> str:
        """Return the answer in a sentence."""

    @abstractmethod
    def sentences(self) -> Iterator[str]:
        """Yield lines that stand below the table."""

    @abstractmethod
    def as_data(self) -> Fields:
        """Return everything as plain data for JSON."""

    def to_json(self) -> str:
        """Return the analysis as one line of JSON."""
        return json.dumps(self.as_data(), ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        """Return the headline and the lines below the table."""
        return "\n".join([self.headline(), *self.sentences()])


def _solved(
    made: Mapping[str, Instance], solver: str, options: SolveOptions | None, during: During
) -> Scenarios:
    """Solve variants of an instance by name, up to one that is interrupted."""
    solved: list[Scenario] = []
    for name, changed in made.items():
        with during(name):
            solved.append(Scenario(name, changed, solve(changed, solver, options)))
        if solved[-1].result.limit == "interrupt":
            break
    return tuple(solved)


@dataclass(frozen=True)
class Row:
    """One objective of a scenario, compared with the same objective of the unchanged instance.

    Attributes
    ----------
    difference
        Difference of the values of the two plans; None if either is unknown.
    least, most
        Proven bounds on the difference of the optimal values; only for the first objective.
    """

    scenario: Scenario
    objective: ObjectiveRecord
    difference: float | None = None
    least: float | None = None
    most: float | None = None

    @property
    def proven(self) -> str:
        """Return the proven interval of the difference of optimal values as text."""
        if self.least is None or self.most is None:
            return "–"
        low, high = signed(self.least), signed(self.most)
        return low if agree(self.least, self.most) else f"{low} … {high}"


def signed(value: float | None) -> str:
    """Return a difference as text with its sign."""
    return figure(value) if not value else f"{'+' if value > 0 else '−'}{figure(abs(value))}"


@dataclass(frozen=True)
class WhatIf(Study):
    """The solved scenarios, and the unchanged instance as the baseline.

    Attributes
    ----------
    asked
        Number of requested scenarios; an interruption leaves some out.
    """

    baseline: Scenario
    scenarios: Scenarios
    asked: int

    def all(self) -> Scenarios:
        """Return the baseline and the scenarios."""
        return (self.baseline, *self.scenarios)

    def rows(self) -> list[Row]:
        """Return a row for each objective of each scenario, compared with the baseline."""
        return [row for scenario in self.all() for row in self._rows_of(scenario)]

    def _rows_of(self, scenario: Scenario) -> Iterator[Row]:
        now = {record.name: record for record in self.baseline.result.objectives}
        for index, record in enumerate(scenario.result.objectives or (NO_OBJECTIVE,)):
            before = now.get(record.name)
            if scenario is self.baseline or before is None:
                yield Row(scenario, record)
                continue
            # What comes later is only the best given what comes before, which may differ.
            proven = proven_difference(before, record) if index == 0 else (None, None)
            value, now_value = record.value, before.value
            difference = None if value is None or now_value is None else value - now_value
            yield Row(scenario, record, difference, *proven)

    def headline(self) -> str:
        """Return a sentence that compares the best scenario with the baseline.

        Scenarios with the baseline's demand are preferred, since sums over other jobs are not comparable.
        """
        now, plans = self.baseline.first, [each for each in self.scenarios if each.first.value is not None]
        if now.value is None:
            helped = (
                f"There is one with {listed([each.name for each in plans])}." if plans else "None has one."
            )
            return f"As it is, there is no plan. {helped}" if self.scenarios else "There is no plan."
        if not plans:
            return "None of the scenarios has a plan." if self.scenarios else "No scenario was solved."
        same = [each for each in plans if each.demand() == self.baseline.demand()]
        sign = 1 if now.sense == "max" else -1
        best = max(same or plans, key=lambda each: sign * (each.first.value or 0.0))
        value = best.first.value or 0.0
        summary = f"{best.name}: {_comparison_text(now, now.value, value)}"
        kind = KINDS[self.baseline.instance.kind]
        rows = kind.demand or kind.rows_of_plan
        if not same:
            return f"{summary}; but its {rows} are others."
        if len(self.scenarios) == 1:
            return f"{summary}."
        with_same = "" if len(same) == len(plans) else f" with the same {rows}"
        if not agree(value, now.value) and sign * (value - now.value) > 0:
            return f"The best scenario{with_same} is {summary}."
        return f"No scenario{with_same} is better than what there is; the best is {summary}."

    def sentences(self) -> Iterator[str]:
        """Yield lines on each scenario: its plan, and jobs unplaced only there or no longer."""
        before, known = self.baseline.left_out(), self.baseline.rows()
        for scenario in self.all():
            yield f"{scenario.name}: {scenario.answer()}"
            if scenario is self.baseline or None in (scenario.result.plan, self.baseline.result.plan):
                continue
            after, here = scenario.left_out(), scenario.rows()
            waits = [f"{job} ({reason})" for job, reason in after.items() if job not in before]
            gone = known - here
            placed = [job for job in before if job not in gone and job not in after]
            if waits:
                yield f"{scenario.name}: left out only here: {listed(waits, 4)}"
            if placed:
                yield f"{scenario.name}: left out no more: {listed(placed)}"
            if gone:
                yield f"{scenario.name}: not in it: {listed(sorted(gone))}"
        if len(self.scenarios) < self.asked:
            yield f"interrupted: {len(self.scenarios)} of {self.asked} scenarios were solved"

    def as_data(self) -> Fields:
        """Return the results, differences and their proven bounds as plain data for JSON."""
        scenarios = [
            {
                "scenario": scenario.name,
                "answer": scenario.answer(),
                "differences": {
                    row.objective.name: {
                        "difference": row.difference,
                        "proven_least": row.least,
                        "proven_most": row.most,
                    }
                    for row in self._rows_of(scenario)
                    if scenario is not self.baseline and row.objective is not NO_OBJECTIVE
                },
                "result": scenario.result.model_dump(mode="json"),
            }
            for scenario in self.all()
        ]
        return {
            "instance": self.baseline.instance.name,
            "kind": self.baseline.instance.kind,
            "headline": self.headline(),
            "asked": self.asked,
            "scenarios": scenarios,
        }

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row for each objective of each scenario."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "scenario": row.scenario.name,
                    "status": row.scenario.result.status,
                    "objective": None if row.objective is NO_OBJECTIVE else row.objective.name,
                    "value": row.objective.value,
                    "bound": row.objective.bound,
                    "difference": row.difference,
                    "proven_least": row.least,
                    "proven_most": row.most,
                }
                for row in self.rows()
            ]
        )


def what_if(
    instance: Instance | Builder[Any] | str | Path,
    scenarios: Sequence[str],
    solver: str = "auto",
    options: SolveOptions | None = None,
    during: During = lambda _: nullcontext(),
) -> WhatIf:
    """Solve an instance unchanged and with the changes of each scenario.

    Parameters
    ----------
    instance
        As for `solve`.
    scenarios
        Such as `drain=gpu-003` or `drain=gpu-003,add=2xh100`; the possible changes depend on the kind.
    solver, options
        As for `solve`; limits hold for each solve.
    during
        Returns a context manager that is entered while the named scenario is solved.

    Raises
    ------
    InstanceError
        If the file is missing or wrong.
    OptionError
        If a scenario is invalid; nothing is solved then.
    """
    instance = instance_of(instance, "what_if")
    if isinstance(scenarios, str):
        raise OptionError(f"what_if takes a list of scenarios; write [{scenarios!r}]")
    known = KINDS[instance.kind].what_if(instance)
    made = {AS_IT_IS: instance}
    made |= {scenario: changed_instance(instance, scenario, known) for scenario in scenarios}
    baseline, *solved = _solved(made, solver, options, during)
    return WhatIf(baseline, tuple(solved), len(made) - 1)


def proven_difference(before: ObjectiveRecord, after: ObjectiveRecord) -> tuple[float | None, float | None]:
    """Return proven bounds on the difference of two optima, each between its value and bound."""
    known = [
        new - old
        for new in (after.value, after.bound)
        for old in (before.value, before.bound)
        if new is not None and old is not None
    ]
    return (min(known), max(known)) if len(known) == 4 else (None, None)


def _comparison_text(now: ObjectiveRecord, before: float, value: float) -> str:
    """Return text that compares an objective value with that of the baseline."""
    unit = "" if now.unit == now.name else f" {now.unit}"
    if agree(value, before):
        return f"{now.name} {figure(value)}{unit}, as it is"
    share = 100 * abs(value - before) / abs(before) if before else None
    more = "" if share is None else f" ({'+' if value > before else '−'}{share:.3g} %)"
    return f"{now.name} {figure(value)}{unit} instead of {figure(before)}{unit}{more}"


@dataclass(frozen=True)
class Regret:
    """The regret of one plan in one extreme scenario.

    Attributes
    ----------
    plan, end
        The end for which the plan was made, and the end at which it is evaluated.
    value
        First objective of the plan there; None if the plan is infeasible.
    broken
        The constraint that the plan violates there.
    least, most
        Proven bounds on the regret, at least 0; None if unknown.
    share
        Upper bound on the regret, relative to the value of that end's own plan.
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
        """Return the proven interval of the regret, in the objective's unit, as text."""
        if self.least is None or self.most is None:
            return "not allowed" if self.broken else "–"
        low, high = figure(self.least), figure(self.most)
        return low if low == high else f"{low} … {high}"


@dataclass(frozen=True)
class Robust(Study):
    """The plans of all extreme scenarios, and the regret of each plan in each scenario.

    Attributes
    ----------
    ends
        The instance with all uncertain data at one end of their intervals, and the best plan found.
    asked
        Number of extreme scenarios; an interruption leaves some out.
    """

    instance: Instance
    ends: Scenarios
    regrets: tuple[Regret, ...]
    asked: int = 3

    def all(self) -> Scenarios:
        """Return the ends."""
        return self.ends

    def worst(self, plan: str) -> float | None:
        """Return the maximum relative regret of a plan over all ends; None if it is infeasible at one."""
        shares = [one.share for one in self.regrets if one.plan == plan]
        known = [share for share in shares if share is not None]
        return max(known) if known and len(known) == len(shares) else None

    def best(self) -> str | None:
        """Return the end whose plan has the minimum maximum regret; None if none is feasible at all ends."""
        known = {one.name: worst for one in self.ends if (worst := self.worst(one.name)) is not None}
        return min(known, key=lambda name: (known[name], name != "middle")) if known else None

    def headline(self) -> str:
        """Return a sentence on the plan with the minimum maximum regret."""
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

    def sentences(self) -> Iterator[str]:
        """Yield lines on each end's plan, infeasible plans, and intervals outside the measured range."""
        yield from (f"{end.name}: {end.answer(reason=False)}" for end in self.ends)
        yield from (f"the {line}" for line in self.not_allowed())
        given = self.instance.uncertainty or ()
        outside = sum(not one.inside for one in given)
        yield f"{len(given)} intervals, {outside} of them outside what was measured"

    def not_allowed(self) -> list[str]:
        """Return a line for each plan and each end at which it breaks a constraint."""
        return [
            f"plan of the {one.plan} end is not allowed at the {one.end} end: {one.broken}"
            for one in self.regrets
            if one.broken
        ]

    def as_data(self) -> Fields:
        """Return the results and regrets at the ends of the intervals as plain data for JSON."""
        return {
            "instance": self.instance.name,
            "kind": self.instance.kind,
            "headline": self.headline(),
            "safest": self.best(),
            "regrets": [
                {
                    "plan": r.plan,
                    "end": r.end,
                    "value": r.value,
                    "broken": r.broken,
                    "regret_least": r.least,
                    "regret_most": r.most,
                    "share": r.share,
                }
                for r in self.regrets
            ],
            "ends": [{"end": end.name, "result": end.result.model_dump(mode="json")} for end in self.ends],
        }


REGRET_COLUMNS: tuple[TextColumn[Regret], ...] = (
    plain_column("plan of", "plan"),
    plain_column("at the end", "end"),
    number_column("value", "value"),
    number_column("regret", "proven", str),
    number_column("at most", "share", percent),
)
"""Columns of the table of regrets."""


def robust(
    instance: Instance,
    solver: str = "auto",
    options: SolveOptions | None = None,
    during: During = lambda _: nullcontext(),
) -> Robust:
    """Solve an instance at the ends of its uncertainty intervals, and compute each plan's regret at each end.

    Parameters
    ----------
    solver, options, during
        As for `what_if`.

    Raises
    ------
    OptionError
        If the instance has no uncertainty intervals.
    InstanceError
        If the intervals are invalid.
    """
    made = instance.at_ends()
    ends = _solved(made, solver, options, during)
    regrets = [_regret(end, other) for end in ends if end.result.plan is not None for other in ends]
    return Robust(instance, ends, tuple(regrets), len(made))


def _regret(planned: Scenario, end: Scenario) -> Regret:
    """Return the regret of a plan at an end of the intervals, with its objective recomputed there."""
    formulation = formulate(end.instance)
    entries = formulation.choices(planned.result.plan or ())
    broken = formulation.violations(entries)
    if broken:
        return Regret(planned.name, end.name, None, str(broken[0]))
    value, best = formulation.evaluate(entries)[0], end.first
    if best.value is None or best.bound is None:
        return Regret(planned.name, end.name, value)
    sign = 1.0 if best.sense == "min" else -1.0
    least = max(0.0, sign * (value - best.value))
    most = max(least, sign * (value - best.bound))
    share = most / abs(best.value) if best.value else None if most else 0.0
    return Regret(planned.name, end.name, value, None, least, most, share)
