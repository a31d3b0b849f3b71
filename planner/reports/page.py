"""Elements shared by all HTML reports: rendering, tables, headline, facts and footer.

A page is one self-contained file that needs no network. Header and footer show status, objectives,
claims, options and versions. Table cells carry the values by which they are sorted.

Names in instances are untrusted. The templates escape all text; data for scripts is JSON in which no
character can end the script; and a content policy lets only the scripts run that the page was made with.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...instances.common.base import Instance
from ...instances.common.errors import OptionError
from ...solvers.common.result import AnyFrontier, ObjectiveRecord, Result, SolveOptions, is_certified
from ..batch.comparison_rows import ComparisonRow
from ..findings import Verification
from .text import MARK, Field, TextColumn, duration, percent, short, status_words, titled, value_of

if TYPE_CHECKING:
    import jinja2


Context = dict[str, Any]
"""Variables of a template, by name."""
ScriptData = dict[str, Any]
"""What the script of a page reads."""


@dataclass(frozen=True)
class Column:
    """A table column; numeric columns are right-aligned and sorted by value.

    Attributes
    ----------
    note
        What the title means, in a few words.
    wide
        Whether it holds sentences.
    """

    title: str
    numeric: bool = False
    note: str | None = None
    wide: bool = False


@dataclass(frozen=True)
class Cell:
    """The content of a table cell.

    Attributes
    ----------
    value
        Sort key in a numeric column; None is unknown, and comes last.
    mark
        Class of the cell's style, such as `good` or `bad`.
    swatch
        Number of the colour that stands before the text.
    share
        Length of a bar behind the text, at most 1.
    note
        Sentences below the text.
    """

    text: str
    value: float | None = None
    mark: str = ""
    swatch: int | None = None
    share: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table with a caption; the first column names the row.

    Attributes
    ----------
    id
        Unique on the page.
    filter
        Placeholder of the filter field, which long tables have; None if the rows cannot be filtered.
    """

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = True
    filter: str | None = None
    footnotes: Sequence[str] = ()

    @property
    def head(self) -> list[tuple[str, bool]]:
        """Title of each column, and whether it is numeric."""
        return [(column.title, column.numeric) for column in self.columns]

    @property
    def texts(self) -> list[list[str]]:
        """The text of each cell, by rows."""
        return [[cell.text for cell in row] for row in self.rows]


ItemT = TypeVar("ItemT")
CellColumn = tuple[Column, Callable[[ItemT], Cell]]
"""A column, and the function that returns its cell for an item."""


def table_of(
    id: str, caption: str, items: Iterable[ItemT], columns: Sequence[CellColumn[ItemT]], **more: Any
) -> Table:
    """Return a table with a row for each item.

    Parameters
    ----------
    more
        Further fields of the table.
    """
    rows = [[cell(item) for _, cell in columns] for item in items]
    return Table(id, caption, [column for column, _ in columns], rows, **more)


def number(value: float | None, digits: int = 6) -> Cell:
    """Return the table cell of a number."""
    return Cell(short(value, digits), value)


def exact(value: float | None) -> Cell:
    """Return the table cell of a number with eight digits."""
    return number(value, 8)


def share(value: float | None) -> Cell:
    """Return the table cell of a share or gap in per cent."""
    return Cell(percent(value), value)


def seconds(value: float | None) -> Cell:
    """Return the table cell of a duration given in seconds."""
    return Cell(duration(value), value)


def text(value: str | None, mark: str = "") -> Cell:
    """Return the table cell of a text, with a dash for a missing one."""
    return Cell(value or "–", mark=mark)


def placed_cell(placed: bool) -> Cell:
    """Return the table cell that says whether a job runs or waits."""
    return text("runs", "good") if placed else text("waits", "fair")


def inside_cell(inside: bool) -> Cell:
    """Return the table cell that says whether a figure lies inside what was measured."""
    return text("inside", "good") if inside else text("outside", "fair")


def figure_column(
    title: str,
    field: Field[ItemT],
    cell: Callable[[float | None], Cell] = number,
    note: str | None = None,
) -> CellColumn[ItemT]:
    """Return a numeric column, given the field with an item's figure, and the function that makes a cell."""
    of = value_of(field)
    return Column(title, True, note), lambda item: cell(of(item))


def text_column(title: str, field: Field[ItemT], wide: bool = False) -> CellColumn[ItemT]:
    """Return a column of texts, given the field with an item's text; a dash stands for none."""
    of = value_of(field)
    return Column(title, wide=wide), lambda item: text(of(item))


def as_text_column(column: CellColumn[ItemT]) -> TextColumn[ItemT]:
    """Return a column of a page as one of a text table."""
    head, cell = column
    return head.title, head.numeric, lambda item: cell(item).text


HERE = Path(__file__).parent
IN_SCRIPTS = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def render(
    template: str,
    *,
    data: Mapping[str, Any],
    scripts: Sequence[str] = (),
    **context: Any,
) -> str:
    """Return an HTML page rendered from a template.

    Parameters
    ----------
    template
        Name of a packaged template that extends `base.html.j2`.
    scripts
        Packaged scripts that follow Plotly and `page.js`.
    data
        Data for the scripts: `figures` by the id of their element, and other data that scripts need.
    context
        What the template shows.
    """
    texts = [_packaged(PLOTLY)] if data.get("figures") else []
    texts += [_packaged(name) for name in ("page.js", *scripts)]
    return (
        _environment()
        .get_template(template)
        .render(
            policy=_policy(texts),
            style=_packaged("page.css"),
            scripts=texts,
            data=to_json(data),
            heights={name: figure["layout"]["height"] for name, figure in data["figures"].items()},
            **context,
        )
    )


PLOTLY = "plotly-basic.min.js"
"""Plotly's own bundle of lines, bars and points, as npm has it in `plotly.js-basic-dist-min`; MIT license."""


def to_json(data: Any) -> str:
    """Return JSON escaped for use inside a script element."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(IN_SCRIPTS)


def _policy(scripts: Sequence[str]) -> str:
    """Return a content security policy that allows only these scripts, and no network access."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _packaged(name: str) -> str:
    return (HERE / "assets" / name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([HERE / "templates", HERE / "assets"]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    # The id and the title of each section of a page, for the links at its top.
    made.filters["sections"] = re.compile(r'<section id="([^"]+)"[^>]*><h2>(.*?)</h2>').findall
    return made


Facts = list[tuple[str, str]]
"""Pairs of a name and a text."""


def known_facts(*facts: tuple[str, str | None]) -> Facts:
    """Return the facts of which there is a text."""
    return [(name, text) for name, text in facts if text]


def check_same(instance: Instance, sha256: str, what: str) -> None:
    """Raise an error if a result or frontier is of another instance.

    Raises
    ------
    OptionError
        If the hashes differ.
    """
    if instance.sha256() != sha256:
        raise OptionError(f"{what} is of another instance than {instance.name}, or it was changed since")


def result_cell(result: Result | ComparisonRow) -> Cell:
    """Return the table cell of a result's status, with a mark if optimality is only claimed."""
    mark = "fair" if result.only_claimed else MARK.get(result.status, "fair")
    return Cell(result.status_text, mark=mark)


def provenance(made: Result | AnyFrontier) -> Facts:
    """Return the facts of a page's footer: solver, runtime, options, versions and hash of the instance."""
    return known_facts(
        ("solver", getattr(made, "solver", None)),
        ("library", getattr(made, "backend", None)),
        ("time to solve", duration(made.runtime_s)),
        ("options", options_text(made.options)),
        ("versions", versions_text(made.versions)),
        ("sha256 of the instance", made.instance_sha256),
    )


def options_text(options: SolveOptions) -> str:
    """Return the solver options that are set, as text."""
    given = options.model_dump(exclude_none=True, exclude={"warm_start", "warm_prices"})
    parts = [f"{name} {_plain(value)}" for name, value in given.items() if value != {}]
    return ", ".join(parts)


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def versions_text(versions: Mapping[str, str]) -> str:
    """Return names and versions of libraries as text."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def objectives_table(result: Result) -> Table:
    """Return the table of value, bound and gap of each objective."""
    caption = "How good the plan is" if result.plan is not None else "What is proven"
    return table_of(
        "goals",
        caption,
        result.objectives,
        [
            text_column("objective", titled),
            text_column("better is", lambda o: "less" if o.sense == "min" else "more"),
            figure_column("value", "value", exact),
            figure_column("bound", "bound", exact, note="what the method proved"),
            figure_column("gap", "gap", share),
            figure_column("certified bound", "certified_bound", exact, note="what our own check derives"),
            figure_column("certified gap", "certified_gap", share),
            (Column("proven"), lambda o: _proven(o, result.options.gap)),
        ],
        sortable=False,
    )


def _proven(record: ObjectiveRecord, gap: float) -> Cell:
    if not record.proven:
        return text("no", "fair")
    return text("yes", "good") if is_certified(record, gap) else text("by the solver alone", "fair")


def instance_facts(instance: Instance) -> Facts:
    """Return the problem kind and the source of an instance, as pairs of name and text."""
    return [("kind", instance.kind), ("source", instance.source or "not given")]


def jobs_fact(instance: Any) -> tuple[str, str]:
    """Return the number of jobs as a fact."""
    return "jobs", f"{len(instance.jobs):,}"


def headline(status: str, limit: str, checked: Verification | None = None) -> tuple[str, str]:
    """Return the status of a result or frontier as text, and the CSS class of its style.

    Parameters
    ----------
    checked
        Verification of a stored result; None if it was just solved.
    """
    if checked is not None and not checked.complete:
        return f"{status}: not all of it is proven here", "fair"
    if checked is not None and checked.within:
        return checked.within, "fair"
    return status_words(status, limit), MARK.get(status, "fair")


def usd(value: float | None, digits: int = 6) -> str:
    """Return an amount in USD as text, with a dash for an unknown one."""
    return "–" if value is None else f"{short(value, digits)} USD"
