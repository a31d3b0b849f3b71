"""Registration record of a problem kind: output of its plans, and its frontier if it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..solvers.common.result import AnyFrontier
from .batch.comparison_rows import ComparisonRow, Measures
from .changes import Changes, ScenarioChange
from .findings import FrontierCheck
from .reports.frontier_page import FrontierPage
from .reports.page import Context
from .reports.text import TextColumn


def _nothing(*_: Any) -> Iterator[Any]:
    return iter(())


AnyPlan = Sequence[Any]
"""The entries of a plan of any kind, or some of them."""
PlanLines = Callable[[Any, AnyPlan], Iterator[str]]
"""Returns lines on a plan, or on some of its entries, given the instance and these."""


@dataclass(frozen=True)
class PlanFormat:
    """An export format of plans for a cluster manager.

    Attributes
    ----------
    lines
        Returns the exported lines, given an instance and the entries to carry out.
    notes
        Returns notes on what the format cannot express.
    comment
        Prefix of comment lines; None if the format has no comments.
    whole
        Whether it gets all entries of the plan, including jobs that wait, stop or keep running.
    """

    lines: PlanLines
    notes: PlanLines = _nothing
    comment: str | None = None
    whole: bool = False


@dataclass(frozen=True)
class FrontierKind:
    """The frontier of one problem kind: its search, check, page and table.

    Attributes
    ----------
    model
        Model of a stored frontier.
    find
        Searches the frontier, given an instance, options, error, cost limit and settings.
    check, page
        Classes of its verification, with the default error, and of its page.
    settings
        Names of the settings, each with its noun in messages.
    baselines
        Names of fast solvers whose plans the page compares with the frontier; may be empty.
    """

    model: type[AnyFrontier]
    find: Callable[..., AnyFrontier]
    check: type[FrontierCheck]
    page: type[FrontierPage]
    settings: Mapping[str, str] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannerKind:
    """Output, export and comparison of the plans of one problem kind.

    Attributes
    ----------
    title
        Title of the decision problem on every page.
    columns
        Returns the columns of the text table of a plan's entries, given the instance and the entries.
    as_data
        The plan as plain data, as `export-plan` writes it.
    page, template
        Function that returns the context of the page, and its template.
    notes
        Returns remarks on a plan as lines, given a result and the number of rows shown.
    remarks
        Returns lines on what a plan assumes and leaves open, given an instance and the plan.
    left_out
        Returns the jobs that a plan of an instance leaves out, with the reasons.
    formats, to_carry_out, actions
        Export formats by name; selection of the entries to export, all or only changes; and remarks on
        actions to take besides.
    rows_of_plan, entries_of_row
        List field of the document whose rows have plan entries, and the most entries of a row.
    demand
        List field of what is asked for, if scenarios change amounts in it; by default it is that of the plan
        entries, of which only names count. Plans for other demands are not compared in the first sentence.
    answer
        Returns a one-sentence summary of a plan; by default of its changes to the current state.
    lead
        Returns the first sentences of the page, given an instance and a result; by default the answer.
    changes
        Returns the differences between two plans, or from the current state; None if not supported.
    what_if
        Returns the possible scenario changes of an instance, by name.
    frontier
        The kind's frontier, if it has one.
    measures
        Returns the measures of a feasible plan of an instance, for comparisons; None if there are none.
    advice
        Returns which solver to use, and why, given the rows of one instance in a comparison; may be empty.
    """

    title: str
    columns: Callable[[Any, AnyPlan], Sequence[TextColumn[Any]]]
    as_data: Callable[[Any, AnyPlan], dict[str, Any]]
    page: Callable[[Any, Any], Context]
    template: str
    rows_of_plan: str
    entries_of_row: int = 1
    demand: str | None = None
    notes: Callable[[Any, int], Iterator[str]] = _nothing
    remarks: PlanLines = _nothing
    left_out: Callable[[Any, AnyPlan], Iterator[tuple[str, str]]] = _nothing
    formats: Mapping[str, PlanFormat] = field(default_factory=dict)
    to_carry_out: Callable[[AnyPlan, bool], list[Any]] = lambda entries, _: list(entries)
    actions: PlanLines = _nothing
    answer: Callable[[Any, AnyPlan], str] | None = None
    lead: Callable[[Any, Any], str] | None = None
    changes: Callable[[Any, AnyPlan | None, AnyPlan], Changes] | None = None
    what_if: Callable[[Any], Mapping[str, ScenarioChange]] = lambda _: {}
    frontier: FrontierKind | None = None
    measures: Callable[[Any, AnyPlan], Measures] | None = None
    advice: Callable[[Sequence[ComparisonRow]], str] = lambda _: ""

    def answer_of(self, instance: Any, plan: AnyPlan) -> str:
        """Return a one-sentence summary of a plan; empty if the kind has none."""
        if self.answer is not None:
            return self.answer(instance, plan)
        return self.changes(instance, None, plan).answer() if self.changes is not None else ""
