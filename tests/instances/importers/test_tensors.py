"""Blocks of parameters: forms of files that mean the same, models by name, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sample_documents import faults

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.importers.tensors import import_tensors
from clusterplan.instances.prediction import load_model

SIZES = {"a": 100, "b": 70, "c": 31}
FORMS: dict[str, Any] = {
    "t.csv": "name,parameters\na,100\nb,70\nc,31\n",
    "numbers.json": SIZES,
    "shapes.json": {"a": [10, 10], "b": [7, 10], "c": [31]},
    "header.json": {
        "__metadata__": {"format": "pt"},
        **{name: {"dtype": "F32", "shape": [size], "data_offsets": [0, 1]} for name, size in SIZES.items()},
    },
    "list.json": [{"name": "a", "shape": [10, 10]}, *({"name": n, "parameters": SIZES[n]} for n in "bc")],
}
Write = Callable[[str, Any], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return what writes a text, or data as JSON, to a file."""

    def file(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return file


@pytest.mark.parametrize("name", FORMS)
def test_forms_mean_the_same(write: Write, name: str) -> None:
    """Whole blocks: one task each, a request each, 32 bits a parameter."""
    made = import_tensors(2, write(name, FORMS[name]))
    assert {each.name: each.task_demand for each in made.jobs} == {
        block: {"parameters": size, "requests": 1} for block, size in SIZES.items()
    }
    assert [each.traffic_gbit_per_s for each in made.jobs] == [3.2e-6, 2.24e-6, 9.92e-7]
    assert [each.capacity["requests"] for each in made.servers] == [2, 1]
    assert made.objectives == ("imbalance", "traffic")


def test_blocks_that_may_be_cut(write: Write) -> None:
    """A task for each parameter; the figures follow bits and steps."""
    made = import_tensors(2, write("t.csv", FORMS["t.csv"]), cuts=True, bits=16, steps_per_s=2.5)
    assert [(each.tasks, each.traffic_gbit_per_s) for each in made.jobs] == [
        (n, 4e-8) for n in SIZES.values()
    ]
    assert made.objectives == ("imbalance", "spread", "traffic")
    assert "0.001 Gbit/s are 25000 parameters" in made.assumptions[0]
    assert "requests" not in import_tensors(2, model="alexnet", any_requests=True).resource_names


@pytest.mark.parametrize(
    ("model", "blocks"), [("resnet50-v2", 157), ("resnet50", 161), ("vgg16", 32), ("bert-base", 202)]
)
def test_tensors_of_a_model(model: str, blocks: int) -> None:
    """Weights, biases, and both vectors of a normalisation are tensors of their own."""
    tensors = dict(load_model(model).tensors())
    assert len(tensors) == blocks
    assert sum(tensors.values()) == load_model(model).parameters()


@pytest.mark.parametrize(
    ("name", "content", "wrong"),
    [
        ("t.csv", "name,size\na,1\n", "line 2: parameters: is needed, or a shape in its place"),
        ("t.csv", "name,parameters\na,many\n", "line 2: parameters: is 'many'"),
        ("t.csv", "name,parameters\na,1\na,2\n", "jobs[1].name: 'a' is already used"),
        ("t.csv", "size\n1\n", "has no column name"),
        ("t.json", [1, 2], "is neither a mapping of names to sizes nor a list"),
        ("t.json", 7, "is neither a mapping of names to sizes nor a list"),
        ("t.json", {"a": 0}, "[0].parameters: is 0, but must be at least 1"),
        ("t.json", {"a": [3, -1]}, "[0].shape[1]: is -1, but must be at least 1"),
        ("t.json", {"a": [10**9, 10**9]}, "jobs[0].t"),
        ("t.json", {}, "jobs: "),
        ("t.json", "{", "is not valid JSON"),
    ],
)
def test_refusals(write: Write, name: str, content: Any, wrong: str) -> None:
    """The place in the file, and what is allowed there."""
    path = write(name, content)
    assert wrong in "\n".join(faults(lambda: import_tensors(2, path, cuts=True)))


def test_a_file_or_a_model(write: Write) -> None:
    """One of both, and a model that there is."""
    for given in ({}, {"file": write("t.csv", FORMS["t.csv"]), "model": "vgg16"}):
        with pytest.raises(OptionError, match="one of both"):
            import_tensors(2, **given)
    assert "did you mean 'vgg19'" in "\n".join(faults(lambda: import_tensors(2, model="vgg61")))
