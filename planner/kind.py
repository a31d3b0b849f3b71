"""The record by which a kind of problem registers how its plans are shown, and its trade-off if any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..solvers.common.frontier import AnyFrontier
from .batch.comparison_rows import ComparisonRow, Measures
from .changes import Changes, ScenarioChange
from .findings import FrontierCheck
from .reports.frontier_page import FrontierPage
from .reports.text import TextColumn


def _nothing(*_: Any) -> Iterator[Any]:
    return iter(())


@dataclass(frozen=True)
class PlanFormat:
    """A form that a cluster manager reads.

    Attributes
    ----------
    lines
        Of an instance and the entries that are to be carried out.
    notes
        What the lines cannot say.
    comment
        How a line begins that is none; None where the form has no place for one.
    whole
        Whether it is given every entry of the plan: also who waits, stops, or keeps running.
    """

    lines: Callable[[Any, Sequence[Any]], Iterator[str]]
    notes: Callable[[Any, Sequence[Any]], Iterator[str]] = _nothing
    comment: str | None = None
    whole: bool = False


@dataclass(frozen=True)
class Sentences:
    """What is said of a frontier below the table of its points.

    Attributes
    ----------
    none
        That there is no plan.
    uncertified, certified
        What the certified error means, where there is none and where there is one.
    about
        What else.
    """

    none: str
    uncertified: str
    certified: str
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class FrontierKind:
    """The trade-off of one kind.

    Attributes
    ----------
    model
        What is stored of it.
    find
        Of an instance, options, the error, the dearest cost, and settings.
    check, page
        The check of a frontier, which knows the default error too; its page, with results of other solvers.
    columns, sentences
        Of the table for people, and the lines below it.
    settings
        Names of the settings, and what to call one.
    baselines
        Names of quick solvers that the page shows beside it; none if it shows none.
    """

    model: type[AnyFrontier]
    find: Callable[..., AnyFrontier]
    check: type[FrontierCheck]
    page: type[FrontierPage]
    columns: Callable[[Any], Sequence[TextColumn[Any]]]
    sentences: Callable[[Any], Sentences]
    settings: Mapping[str, str] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparisonKind:
    """What a comparison says of the plans of one kind beside their objectives.

    Attributes
    ----------
    measures
        Of an instance and a plan that obeys its constraints.
    advice
        Of the rows of one instance: which solver to use, and why; nothing where that cannot be said.
    """

    measures: Callable[[Any, Sequence[Any]], Measures]
    advice: Callable[[Sequence[ComparisonRow]], str]


@dataclass(frozen=True)
class PlannerKind:
    """How plans of one kind are shown to people and written for programs.

    Attributes
    ----------
    title
        What is decided, over every page.
    columns
        Of the table of these entries of a plan.
    as_data
        The plan as plain data, as `export-plan` writes it.
    page, template
        Returns the context of the template that makes the page.
    notes
        What else a plan says, a line each; of a result, and how many rows its table shows.
    left_out
        Jobs that a plan leaves out, with the reason.
    formats, to_carry_out, actions
        Forms of cluster managers by name; which entries they hold, all or those that change something; and
        what has to be done beside them.
    rows_of_plan, entries_of_row
        Which list of the document has entries of the plan for each of its rows, and how many at most.
    answer
        What a plan does, in a sentence; by default what it changes now.
    lead
        Of an instance and a result with a plan, how its page begins; by default the answer.
    changes
        What becomes different between two plans, or what runs now and a plan; None if nothing says that.
    what_if
        Of an instance, the changes that a scenario may make, by name.
    frontier
        Its trade-off, if it has one.
    comparison
        What a comparison says of its plans beside their objectives, if anything.
    """

    title: str
    columns: Callable[[Sequence[Any]], Sequence[TextColumn[Any]]]
    as_data: Callable[[Any, Sequence[Any]], dict[str, Any]]
    page: Callable[[Any, Any], dict[str, Any]]
    template: str
    rows_of_plan: str
    entries_of_row: int = 1
    notes: Callable[[Any, int], Iterator[str]] = _nothing
    left_out: Callable[[Sequence[Any]], Iterator[tuple[str, str]]] = _nothing
    formats: Mapping[str, PlanFormat] = field(default_factory=dict)
    to_carry_out: Callable[[Sequence[Any], bool], list[Any]] = lambda entries, _: list(entries)
    actions: Callable[[Any, Sequence[Any]], Iterator[str]] = _nothing
    answer: Callable[[Any, Sequence[Any]], str] | None = None
    lead: Callable[[Any, Any], str] | None = None
    changes: Callable[[Any, Sequence[Any] | None, Sequence[Any]], Changes] | None = None
    what_if: Callable[[Any], Mapping[str, ScenarioChange]] = lambda _: {}
    frontier: FrontierKind | None = None
    comparison: ComparisonKind | None = None

    def answer_of(self, instance: Any, plan: Sequence[Any]) -> str:
        """Return what a plan does, in a sentence; nothing where that is not known."""
        if self.answer is not None:
            return self.answer(instance, plan)
        return self.changes(instance, None, plan).answer() if self.changes is not None else ""
