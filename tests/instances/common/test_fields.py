"""Field types: what they accept, and how many faults they keep.

Instances cannot be changed: dictionaries raise on every change, and are dictionaries otherwise.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING

from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.fields import (
    ByCount,
    Cell,
    Checked,
    Complaint,
    Count,
    Flag,
    FrozenDict,
    Model,
    Name,
    Number,
    Positive,
    frozen,
    refuse,
    repeated,
    unknown_names,
    validated_in_batches,
)
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.documents import parse_instance


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
    adapter = TypeAdapter(Annotated[tuple[Count, ...], validated_in_batches()])
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


@pytest.mark.parametrize(
    ("change", "given"),
    [
        ("__setitem__", ("a", 2)),
        ("__delitem__", ("a",)),
        ("clear", ()),
        ("pop", ("a",)),
        ("popitem", ()),
        ("setdefault", ("b", 1)),
        ("update", ({"b": 1},)),
        ("__ior__", ({"b": 1},)),
    ],
)
def test_no_change_is_possible(change: str, given: tuple[Any, ...]) -> None:
    made = FrozenDict({"a": 1})
    with pytest.raises(TypeError, match="replace"):
        getattr(made, change)(*given)
    assert made == {"a": 1}


def test_a_frozen_dictionary_is_one_otherwise() -> None:
    """It compares, is written, copied, pickled and merged as one, and may be a key."""
    made = FrozenDict({"a": 1, "b": 2})
    assert made == {"b": 2, "a": 1}
    assert json.dumps(made) == '{"a": 1, "b": 2}'
    for again in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):  # noqa: S301
        assert again == made
        assert type(again) is FrozenDict
    assert type(made | {"c": 3}) is dict
    assert hash(made) == hash(FrozenDict({"b": 2, "a": 1}))


def test_only_plain_dictionaries_are_frozen() -> None:
    assert type(frozen({"a": 1})) is FrozenDict
    assert frozen((1, 2)) == (1, 2)
    assert frozen(None) is None


def _mutable(value: Any, path: str, seen: set[int]) -> list[str]:
    """Return where lists, sets, plain dictionaries or writable arrays hang in fields."""
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return [path] if value.flags.writeable else []
    if isinstance(value, list | set | bytearray) or type(value) is dict:
        return [path]
    if isinstance(value, tuple):
        return [part for index, item in enumerate(value) for part in _mutable(item, f"{path}[{index}]", seen)]
    if isinstance(value, dict):
        return [part for key, item in value.items() for part in _mutable(item, f"{path}.{key}", seen)]
    if hasattr(type(value), "model_fields"):
        fields = type(value).model_fields
        return [part for name in fields for part in _mutable(getattr(value, name), f"{path}.{name}", seen)]
    if hasattr(value, "__dataclass_fields__"):
        names = value.__dataclass_fields__
        return [part for name in names for part in _mutable(getattr(value, name), f"{path}.{name}", seen)]
    return []


INSTANCES: dict[str, Callable[[], Instance]] = {
    "allocation": lambda: parse_instance({**ALLOCATION, "prices_usd_per_hour": {"gpu": 1}}),
    "staging": lambda: parse_instance(STAGING),
    "consolidation": lambda: parse_instance(CONSOLIDATION),
    "generated": lambda: generate_consolidation(4, 6, 4, seed=1, unlike=True),
    "devices": lambda: generate_consolidation(
        4, 6, 4, seed=1, resources=3, devices=True, shared=0.5, partitioned=0.3
    ),
}


@pytest.mark.parametrize("kind", INSTANCES)
def test_nothing_in_an_instance_can_be_changed(kind: str) -> None:
    """In any field, however deep; also in instances that generators make."""
    assert _mutable(INSTANCES[kind](), kind, set()) == []


def test_the_columns_of_a_table_of_jobs_cannot_be_changed() -> None:
    instance = generate_allocation(3, 2, seed=1)
    table = instance.table()
    with pytest.raises(ValueError, match="read-only"):
        table.worker_demand[0, 0] = 5
    assert _mutable(table, "table", set()) == []


def test_a_copy_with_another_mapping_is_frozen_too() -> None:
    """Of `model_copy`, which does not validate; `replace` does."""
    instance = parse_instance(ALLOCATION)
    assert isinstance(instance, AllocationInstance)
    copied = instance.model_copy(update={"resources": {"gpu": 1.0}})
    assert type(copied.resources) is FrozenDict
    assert type(instance.replace(resources={"gpu": 1, "cpu": 1}).resources) is FrozenDict
