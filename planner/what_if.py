"""What if something were different? Every scenario is solved and verified like any other instance."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..formulations.common.tolerance import agree
from ..instances.common.base import Instance
from ..instances.common.builder import Builder
from ..instances.common.errors import OptionError
from ..solvers.common.options import SolveOptions
from ..solvers.common.result import ObjectiveRecord, Result
from .api import instance_of, solve
from .output.text import TextColumn, figure, percent
from .registry import KINDS
from .reports.text import listed, status_words
from .scenarios import changed_instance

if TYPE_CHECKING:
    import pandas as pd

AS_IT_IS = "as it is"

ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class Scenario:
    """One scenario; the one in which nothing changes is called `as it is`."""

    name: str
    instance: Instance
    result: Result

    def answer(self) -> str:
        """Return what the plan does, in a sentence; why there is none, where there is none."""
        if self.result.plan is None:
            why = self.result.diagnosis.reasons[:1] if self.result.diagnosis else [self.result.message or ""]
            return ": ".join(filter(None, ["no plan", status_words(self.result.status, "none"), *why])) + "."
        return KINDS[self.instance.kind].answer_of(self.instance, self.result.plan)

    @property
    def first(self) -> ObjectiveRecord | None:
        """What is known about the first objective."""
        return next(iter(self.result.objectives), None)

    def left_out(self) -> dict[str, str]:
        """Return the jobs that the plan leaves out, with the reason."""
        return dict(KINDS[self.instance.kind].left_out(self.result.plan or ()))

    def rows(self) -> set[str]:
        """Return the names of what plans have an entry for, such as jobs."""
        return {row.name for row in getattr(self.instance, KINDS[self.instance.kind].rows_of_plan)}


@dataclass(frozen=True)
class Row:
    """One objective of one scenario beside the same objective as it is.

    Attributes
    ----------
    difference
        Of the values of both plans; None where either has none.
    least, most
        Between which the difference of the best possible values is proven to lie; of the first objective.
    """

    scenario: Scenario
    objective: ObjectiveRecord | None
    difference: float | None = None
    least: float | None = None
    most: float | None = None

    @property
    def proven(self) -> str:
        """Return the proven difference as text: a number, or two with what lies between."""
        if self.least is None or self.most is None:
            return "–"
        low, high = signed(self.least), signed(self.most)
        return low if agree(self.least, self.most) else f"{low} … {high}"


@dataclass(frozen=True)
class WhatIf:
    """The scenarios that were solved, beside the instance as it is.

    Attributes
    ----------
    asked
        How many scenarios were asked for; an interruption leaves some out.
    """

    baseline: Scenario
    scenarios: tuple[Scenario, ...]
    asked: int

    def all(self) -> tuple[Scenario, ...]:
        """Return the baseline and the scenarios."""
        return (self.baseline, *self.scenarios)

    def rows(self) -> list[Row]:
        """Return a row for each objective of each scenario."""
        return [row for scenario in self.all() for row in self._rows_of(scenario)]

    def _rows_of(self, scenario: Scenario) -> Iterator[Row]:
        if not scenario.result.objectives:
            yield Row(scenario, None)
        now = {record.name: record for record in self.baseline.result.objectives}
        for index, record in enumerate(scenario.result.objectives):
            before = now.get(record.name)
            if scenario is self.baseline or before is None:
                yield Row(scenario, record)
                continue
            known = None if None in (record.value, before.value) else _of(record.value) - _of(before.value)
            # What comes later is only the best given what comes before, which may differ.
            least, most = _proven_difference(before, record) if index == 0 else (None, None)
            yield Row(scenario, record, known, least, most)

    def headline(self) -> str:
        """Return the answer: the best scenario beside what there is.

        Sums over other jobs do not compare: scenarios that have the same ones come first.
        """
        now, plans = self.baseline.first, [each for each in self.scenarios if _has_value(each.first)]
        if now is None or now.value is None:
            helped = (
                f"There is one with {listed([each.name for each in plans])}." if plans else "None has one."
            )
            return f"As it is, there is no plan. {helped}" if self.scenarios else "There is no plan."
        if not plans:
            return "None of the scenarios has a plan." if self.scenarios else "No scenario was solved."
        same = [each for each in plans if each.rows() == self.baseline.rows()]
        sign = 1 if now.sense == "max" else -1
        best = max(same or plans, key=lambda each: sign * _value(each))
        told = f"{best.name}: {_beside(now, _value(best))}"
        rows = KINDS[self.baseline.instance.kind].rows_of_plan
        if not same:
            return f"{told}; but its {rows} are others."
        if len(self.scenarios) == 1:
            return f"{told}."
        with_same = "" if len(same) == len(plans) else f" with the same {rows}"
        if not agree(_value(best), now.value) and sign * (_value(best) - now.value) > 0:
            return f"The best scenario{with_same} is {told}."
        return f"No scenario{with_same} is better than what there is; the best is {told}."

    def sentences(self) -> Iterator[str]:
        """Yield what each scenario's plan does, and which jobs wait only there, or no more."""
        before, known = self.baseline.left_out(), self.baseline.rows()
        for scenario in self.all():
            yield f"{scenario.name}: {scenario.answer()}"
            if scenario is self.baseline or None in (scenario.result.plan, self.baseline.result.plan):
                continue
            after = scenario.left_out()
            waits = [f"{job} ({reason})" for job, reason in after.items() if job not in before]
            placed = [job for job in before if job in scenario.rows() and job not in after]
            gone = known - scenario.rows()
            if waits:
                yield f"{scenario.name}: left out only here: {listed(waits, 4)}"
            if placed:
                yield f"{scenario.name}: left out no more: {listed(placed)}"
            if gone:
                yield f"{scenario.name}: not in it: {listed(sorted(gone))}"
        if len(self.scenarios) < self.asked:
            yield f"interrupted: {len(self.scenarios)} of {self.asked} scenarios were solved"

    def as_data(self) -> dict[str, Any]:
        """Return all of it as plain data, with the results."""
        found = []
        for scenario in self.all():
            rows = [row for row in self._rows_of(scenario) if row.objective is not None]
            found.append(
                {
                    "scenario": scenario.name,
                    "answer": scenario.answer(),
                    "differences": {
                        _of(row.objective).name: {
                            "difference": row.difference,
                            "proven_least": row.least,
                            "proven_most": row.most,
                        }
                        for row in rows
                        if scenario is not self.baseline
                    },
                    "result": scenario.result.model_dump(mode="json"),
                }
            )
        head = {"instance": self.baseline.instance.name, "kind": self.baseline.instance.kind}
        return {**head, "headline": self.headline(), "asked": self.asked, "scenarios": found}

    def to_json(self) -> str:
        """Return all of it as one line of JSON."""
        return json.dumps(self.as_data(), ensure_ascii=False, allow_nan=False)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each objective of each scenario."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "scenario": row.scenario.name,
                    "status": row.scenario.result.status,
                    "objective": row.objective.name if row.objective else None,
                    "value": row.objective.value if row.objective else None,
                    "bound": row.objective.bound if row.objective else None,
                    "difference": row.difference,
                    "proven_least": row.least,
                    "proven_most": row.most,
                }
                for row in self.rows()
            ]
        )

    def __str__(self) -> str:
        """Return the answer, and what each scenario does."""
        return "\n".join([self.headline(), *self.sentences()])


COLUMNS: tuple[TextColumn[Row], ...] = (
    ("scenario", False, lambda row: row.scenario.name),
    ("status", False, lambda row: row.scenario.result.status),
    ("objective", False, lambda row: row.objective.name + _unit(row.objective) if row.objective else "–"),
    ("value", True, lambda row: figure(row.objective.value if row.objective else None)),
    ("difference", True, lambda row: signed(row.difference)),
    ("proven difference", True, lambda row: row.proven),
    ("bound", True, lambda row: figure(row.objective.bound if row.objective else None)),
    ("gap", True, lambda row: percent(row.objective.gap if row.objective else None)),
    ("certified bound", True, lambda row: figure(row.objective.certified_bound if row.objective else None)),
)
"""Of the table of a comparison of scenarios."""


def what_if(
    instance: Instance | Builder[Any] | str | Path,
    scenarios: Sequence[str],
    solver: str = "auto",
    options: SolveOptions | None = None,
    during: Callable[[str], AbstractContextManager[Any]] = lambda _: nullcontext(),
) -> WhatIf:
    """Solve an instance as it is and with the changes of each scenario.

    Parameters
    ----------
    instance
        As for `solve`.
    scenarios
        Such as `drain=gpu-003` or `drain=gpu-003,add=2xh100`; the kind of the instance says what there is.
    solver, options
        As for `solve`; limits hold for each solve.
    during
        Of the name of a scenario, what is to be entered while it is solved.

    Raises
    ------
    InstanceError
        If the file is missing or wrong.
    OptionError
        If a scenario cannot be made; nothing is solved then.
    """
    instance = instance_of(instance, "what_if")
    if isinstance(scenarios, str):
        raise OptionError(f"what_if takes a list of scenarios; write [{scenarios!r}]")
    known = KINDS[instance.kind].what_if(instance)
    made = {AS_IT_IS: instance}
    made |= {scenario: changed_instance(instance, scenario, known) for scenario in scenarios}
    found: list[Scenario] = []
    for name, changed in made.items():
        with during(name):
            found.append(Scenario(name, changed, solve(changed, solver, options)))
        if found[-1].result.limit == "interrupt":
            break
    return WhatIf(found[0], tuple(found[1:]), len(made) - 1)


def _proven_difference(before: ObjectiveRecord, after: ObjectiveRecord) -> tuple[float | None, float | None]:
    """Return between which numbers the difference of two optima lies; each is between value and bound."""
    figures = (before.value, before.bound, after.value, after.bound)
    if None in figures:
        return None, None
    old, new = sorted(map(_of, figures[:2])), sorted(map(_of, figures[2:]))
    return new[0] - old[1], new[1] - old[0]


def signed(value: float | None) -> str:
    """Return a difference with its sign."""
    return figure(value) if not value else f"{'+' if value > 0 else '−'}{figure(abs(value))}"


def _beside(now: ObjectiveRecord, value: float) -> str:
    """Return a value beside what it is now, in words."""
    before, unit = _of(now.value), "" if now.unit == now.name else f" {now.unit}"
    if agree(value, before):
        return f"{now.name} {figure(value)}{unit}, as it is"
    share = 100 * abs(value - before) / abs(before) if before else None
    more = "" if share is None else f" ({'+' if value > before else '−'}{share:.3g} %)"
    return f"{now.name} {figure(value)}{unit} instead of {figure(before)}{unit}{more}"


def _value(scenario: Scenario) -> float:
    """Return the value of the first objective of a scenario that has one."""
    return _of(_of(scenario.first).value)


def _unit(record: ObjectiveRecord) -> str:
    return "" if record.unit == record.name else f" [{record.unit}]"


def _has_value(record: ObjectiveRecord | None) -> bool:
    return record is not None and record.value is not None


def _of(value: ValueT | None) -> ValueT:
    """Return what is known to be there."""
    assert value is not None
    return value
