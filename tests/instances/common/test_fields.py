"""Field types: what they accept, and how many faults they keep."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

import pytest
from annotated_types import Ge, Le
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from clusterplan.instances.common.fields import (
    ByCount,
    Cell,
    Checked,
    Complaint,
    Count,
    Flag,
    Model,
    Name,
    Number,
    Positive,
    TaskCount,
    in_slices,
    marks_of,
    refuse,
    repeated,
    require,
    unescaped,
    unknown_names,
)


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (Positive, Cell("1e3"), 1000.0),
        (Positive, 5, 5.0),
        (Count, Cell("+007"), 7),
        (Count, 3.0, 3),
        (Flag, Cell("TRUE"), True),
        (Name, Cell("'=1"), "=1"),
        (ByCount, {"2": 1, 1: 3}, {2: 1.0, 1: 3.0}),
    ],
)
def test_what_a_field_reads(kind: object, given: object, expected: object) -> None:
    """Cells of a table stand for numbers, truth values and text."""
    assert TypeAdapter(kind).validate_python(given) == expected


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Positive, 0),
        (Positive, "5"),
        (Positive, True),
        (Positive, float("nan")),
        (Positive, 10**16),
        (Count, 1.5),
        (Count, Cell("1e2")),
        (Flag, 1),
        (Name, "a\tb"),
        (Name, " "),
        (ByCount, {"x": 1}),
        (ByCount, {"1": 1, 1: 2}),
    ],
)
def test_what_a_field_refuses(kind: object, given: object) -> None:
    """Text that is no cell is no number; numbers have limits."""
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(given)


def test_a_long_list_is_read_until_there_are_enough_faults() -> None:
    """A million wrong entries are not a million errors."""
    adapter = TypeAdapter(Annotated[tuple[Count, ...], in_slices()])
    assert adapter.validate_python(list(range(25))) == tuple(range(25))
    with pytest.raises(ValidationError) as refused:
        adapter.validate_python([0] * 5 + [-1] * 1000)
    assert 100 <= refused.value.error_count() <= 111
    assert refused.value.errors()[0]["loc"] == (5,)


def test_a_copy_derives_anew_what_depends_on_its_fields() -> None:
    """Cached properties do not survive an update."""

    class Square(Model):
        side: Count

        @cached_property
        def area(self) -> int:
            return self.side**2

    square = Square(side=2)
    assert square.area == 4
    assert square.model_copy(update={"side": 3}).area == 9


def test_marks_of_a_type() -> None:
    """The limits and the plain types that a field consists of, in unions too."""
    marks = list(marks_of(TaskCount | None))
    assert Ge(ge=0) in marks
    assert Le(le=100_000) in marks
    assert int in marks


def test_complaints() -> None:
    """Of many complaints the first hundred are kept, the others counted."""
    refuse([])
    with pytest.raises(PydanticCustomError) as refused:
        refuse((str(n), "{x}") for n in range(130))
    assert refused.value.context is not None
    assert len(refused.value.context["complaints"]) == 100
    assert refused.value.context["more"] == 30
    assert list(repeated(["a", "b", "a"], "jobs")) == [
        ("jobs[2].name", "'a' is already used by jobs[0]; each name must be unique")
    ]
    pairs = [(1, "{"), (2, "b"), (1, "{")]
    assert list(repeated(pairs, "rows", "", "{value[1]} stands twice")) == [("rows[2]", "{ stands twice")]
    assert list(unknown_names(["a", "x"], ["a", "b"], "p", "thing", "things")) == [
        ("p.x", "unknown thing 'x'; the things are: a, b")
    ]


class Pair(Checked):
    """Two numbers in order."""

    low: Number
    high: Number

    def _complaints(self) -> list[Complaint]:
        return [("low", "is above high")] if self.low > self.high else []


def test_rules_between_fields() -> None:
    """They are checked once the fields are."""
    assert Pair(low=1, high=2).high == 2
    with pytest.raises(ValidationError, match="low: is above high"):
        Pair(low=2, high=1)


def test_schemas_demand_what_the_reader_demands() -> None:
    """A field that another one may replace is not required alone."""
    schema = {"required": ["steps"]}
    require("kind", or_field=("steps", "loss"))(schema)
    assert schema == {"required": ["kind"], "anyOf": [{"required": ["steps"]}, {"required": ["loss"]}]}


def test_the_quote_before_a_formula() -> None:
    """One quote goes, and only before what a spreadsheet would take for a formula."""
    assert [unescaped(text) for text in ("'=1", "''=1", "'a", "=1")] == ["=1", "'=1", "'a", "=1"]
