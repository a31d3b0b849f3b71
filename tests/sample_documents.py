"""Sample documents of every kind, their JSON Schemas, and what is said about documents and instances."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import clusterplan
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.documents import parse_instance, to_text
from clusterplan.planner.cli.instances.generate import schema_of

DOCUMENT: dict[str, dict[str, Any]] = {
    document["kind"]: document
    for document in yaml.safe_load_all("""
schema_version: 1
kind: allocation
name: a
resources: {cpu: 10, gpu: 4}
jobs:
- name: j
  remaining_steps: 100
  variants:
  - name: v
    worker_demand: {cpu: 1, gpu: 1}
    ps_demand: {cpu: 1}
    workers: {min: 1, max: 3}
    ps: {min: 1, max: 2}
    speed: {model: ps_sync, theta: [0.01, 0.1, 0.1, 0.01, 0.001], batch: 16}
- name: k
  remaining_steps: 100
  variants:
  - name: t
    worker_demand: {gpu: 1}
    speed: {model: table, rows: [{workers: 1, steps_per_s: 1.5}, {workers: 2, steps_per_s: 2.5}]}
---
schema_version: 1
kind: staging
name: s
training: {samples: 1000}
probe_batch: 4
throughput_floor_samples_per_s: 5
types: [{name: A, price_usd_per_hour: 1, limit: 4}, {name: B, price_usd_per_hour: 3, limit: 4}]
layers:
- {name: l0, compute_s: {A: 1, B: 0.5}, compute_parallel: 0.9}
- {name: l1, compute_s: {A: 2, B: 0.3}, compute_parallel: 0.9}
---
schema_version: 1
kind: consolidation
name: c
servers: [{name: n, count: 2, capacity: {gpu: 4, cpu: 8}}]
jobs:
- {name: j, tasks: 2, task_demand: {gpu: 1}}
- {name: p, groups: [{name: w, tasks: 2, demand: {gpu: 1}}]}
---
schema_version: 1
kind: scheduling
name: t
resources: {gpu: 3}
jobs:
- {name: first, tasks: 2, demand: {gpu: 1}, duration_s: 2}
- {name: second, tasks: 1, demand: {gpu: 1}, duration_s: 8}
---
schema_version: 1
kind: mix
name: m
types: [{name: a, count: 2}, {name: b, count: 1, weight: 2}]
hardware: [{name: g, limit: 2}]
configurations:
- {name: x, hardware: g, jobs: {a: 1}, progress: {a: 1}}
- {name: y, hardware: g, jobs: {a: 1, b: 1}, progress: {a: 0.6, b: 0.7}}
""")
}
ALLOCATION, STAGING, CONSOLIDATION, SCHEDULING, MIX = DOCUMENT.values()
INTERNAL = (
    "function-",
    "<function",
    "functools",
    "[key]",
    "tag:yaml",
    "sys.",
    "Traceback",
    "internal error",
    "pydantic",
)
"""What no message shows."""


Place = TypeVar("Place", str, Path)


def put(path: Place, document: Any) -> Place:
    """Write a text, or a document as JSON, which is YAML too; return the path."""
    text = document if isinstance(document, str) else json.dumps(document)
    Path(path).write_text(text, encoding="utf-8")
    return path


@contextmanager
def refused(says: str, error: type[Exception] = InstanceError) -> Iterator[None]:
    """Expect a fault of one line that says something."""
    with pytest.raises(error) as caught:
        yield
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def accepted(kind: str, document: Any) -> list[str]:
    """Return what the JSON Schema of the kind has against a document, as JSON has it."""
    validator = Draft202012Validator(schema_of(kind))
    return [fault.message for fault in validator.iter_errors(json.loads(json.dumps(document)))]


def faults(call: Callable[[], Any]) -> list[str]:
    """Return the lines that say what is wrong with what a call reads."""
    with pytest.raises(InstanceError) as caught:
        call()
    return str(caught.value).split("\n")


def said(instance: Instance) -> str:
    """Return all that an instance says to have assumed."""
    return " ".join(instance.assumptions)


def is_kept(instance: Instance) -> bool:
    """Return whether an instance is the same after it is written and read, as YAML and as JSON."""
    again = parse_instance(yaml.safe_load(to_text(instance)))
    as_json = parse_instance(json.loads(to_text(instance, ".json")))
    return again == instance == as_json and again.sha256() == instance.sha256()


def solved(instance: Instance) -> None:
    """Solve an instance as it is written, and check that its plan places every job and holds."""
    assert is_kept(instance)
    result = clusterplan.solve(instance, solver="best-fit")
    assert all(entry.placed for entry in result.plan)
    assert clusterplan.verify(instance, result).ok


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in a document."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


JUNK = (None, True, -1, 0, 1.5, 1e308, 10**400, "", "x", "\x00", [], [None], {})
"""Values that hardly a field may have."""


def altered(data: st.DataObject, given: Any, junk: st.SearchStrategy[Any]) -> Any:
    """Return a copy of documents in which up to three values are junk."""
    known = [path for path in places(given) if len(path) > 1]
    changes = data.draw(st.lists(st.tuples(st.sampled_from(known), junk), min_size=1, max_size=3))
    documents = copy.deepcopy(given)
    for path, value in changes:
        here: Any = documents
        with suppress(TypeError, KeyError, IndexError):  # an earlier change has removed the place
            for step in path[:-1]:
                here = here[step]
            here[path[-1]] = copy.deepcopy(value)
    return documents
