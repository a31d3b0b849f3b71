"""Instances cannot be changed: dictionaries raise on every change, and are dictionaries otherwise."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING

from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.frozen import FrozenDict, frozen
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.documents import parse_instance

CHANGES: list[Callable[[Any], Any]] = [
    lambda d: d.__setitem__("a", 2),
    lambda d: d.__delitem__("a"),
    lambda d: d.clear(),
    lambda d: d.pop("a"),
    lambda d: d.popitem(),
    lambda d: d.setdefault("b", 1),
    lambda d: d.update(b=1),
    lambda d: d.__ior__({"b": 1}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_no_change_is_possible(change: Callable[[Any], Any]) -> None:
    made = FrozenDict({"a": 1})
    with pytest.raises(TypeError, match="replace"):
        change(made)
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
