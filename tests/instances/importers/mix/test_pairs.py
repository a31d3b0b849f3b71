"""Tables of pairs: what their rows become, what is left out, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sample_documents import is_kept, refused, said

from clusterplan.instances.importers.mix.pairs import import_gavel_mix, import_pairs
from clusterplan.instances.mix.instance import MixInstance

ROWS = """a,gpu,a_speed,b,b_speed
bert,new,4,,
bert,old,1,,
gpt,new,10,,
bert,new,3,gpt,8
gpt,new,6,gpt,4
gpt,old,0,,
vgg,new,1,,
"""


def pairs(folder: Path, rows: str = ROWS, jobs: dict[str, int] | None = None, **options: Any) -> MixInstance:
    """Return what becomes of a table, with three jobs and three GPUs."""
    (folder / "pairs.csv").write_text(rows)
    options = {"gpus": {"new": 2, "old": 1}, **options}
    return import_pairs(folder / "pairs.csv", jobs or {"bert": 2, "gpt": 3}, **options)


def test_progress_is_relative_to_alone_on_the_reference(tmp_path: Path) -> None:
    """Of two jobs of one type their mean; what has a speed of 0, or is not asked for, is counted."""
    found = pairs(tmp_path)
    assert {one.name: one.progress for one in found.configurations} == {
        "bert on new": {"bert": 1},
        "bert on old": {"bert": 0.25},
        "gpt on new": {"gpt": 1},
        "bert + gpt on new": {"bert": 0.75, "gpt": 0.8},
        "2 × gpt on new": {"gpt": 0.5},
    }
    assert "Rows left out for a speed of 0, as of jobs that cannot run there: 1." in said(found)
    assert "Rows not used, of types or GPUs that are not asked for: 1." in said(found)
    assert [one.count for one in found.types] == [2, 3]
    assert [one.limit for one in found.hardware] == [2, 1]
    assert is_kept(found)
    old = pairs(tmp_path, jobs={"bert": 2}, reference="old")
    assert [one.progress["bert"] for one in old.configurations] == [4, 1]


@pytest.mark.parametrize(
    ("rows", "options", "says"),
    [
        (
            ROWS,
            {"reference": "old"},
            "options: jobs.gpt: has no row alone on 'old', the reference, with a speed",
        ),
        (
            ROWS,
            {"gpus": {"new": 1, "x": 2}},
            "options: GPUs.x: unknown GPU 'x'; the GPUs are: new, old",
        ),
        (f"{ROWS}gpt,new,6,bert,4\n", {}, "pairs.csv: line 9: has bert + gpt on new again"),
        (f"{ROWS}gpt,old,6,bert,\n", {}, "pairs.csv: line 9: b_speed: is missing; give b and b_speed"),
        (f"{ROWS}gpt,old,6,,3\n", {}, "pairs.csv: line 9: b: is missing; give b and b_speed"),
        (
            ROWS,
            {"jobs": {"gtp": 1}},
            "jobs.gtp: unknown type 'gtp'; the types are: bert, gpt, vgg",
        ),
        (ROWS, {"reference": "x"}, "options: GPUs.x: unknown GPU 'x'; the GPUs are: new, old"),
        ("a,gpu\nbert,new\n", {}, "pairs.csv: line 1: has no column a_speed"),
    ],
)
def test_what_is_refused(tmp_path: Path, rows: str, options: dict[str, Any], says: str) -> None:
    """Is one fault, with its place."""
    with refused(says):
        pairs(tmp_path, rows, **options)


SPEEDS: dict[str, Any] = {
    "v100": {
        "('A', 1)": {"null": 4.0, "('A', 1)": [2.0, 2.0], "('B', 1)": [3.0, 1.0], "('C', 2)": [1, 1]},
        "('B', 1)": {"null": 2.0, "('A', 1)": [1.0, 3.0]},
        "('C', 2)": {"null": 3.0, "('A', 1)": [1.0, 1.0]},
    },
    "k80": {"('A', 1)": {"null": 1.0, "('B', 1)": [0.0, 0.0]}},
    "v100_unconsolidated": {"('A', 1)": {"null": 4.0}},
}
TRACE = [("A", 1), ("A", 1), ("B", 1), ("C", 2), ("D", 1)]


def gavel(folder: Path, speeds: Any = SPEEDS, **options: Any) -> MixInstance:
    """Return what becomes of a trace of five jobs."""
    (folder / "s.json").write_text(json.dumps(speeds))
    lines = [f"{name}\tc\td\t-n\t1\t100\t{gpus}\t1\t-1\t0" for name, gpus in TRACE]
    (folder / "t.trace").write_text("\n".join(lines) + "\n")
    return import_gavel_mix(
        folder / "s.json", folder / "t.trace", **{"capacity": {"v100": 1, "k80": 1}, **options}
    )


def test_gavels_single_gpu_jobs(tmp_path: Path) -> None:
    """Each type with the names of its jobs; wide and unknown ones are counted; each pair stands once."""
    found = gavel(tmp_path)
    assert [(one.name, one.count) for one in found.types] == [("A", 2), ("B", 1)]
    assert found.types[0].names == ("job-001 A", "job-002 A")
    assert {one.name: one.progress for one in found.configurations} == {
        "A on v100": {"A": 1},
        "2 × A on v100": {"A": 0.5},
        "A + B on v100": {"A": 0.75, "B": 0.5},
        "B on v100": {"B": 1},
        "A on k80": {"A": 0.25},
    }
    assert "Jobs left out, as they ask for more GPUs: 1." in said(found)
    assert "Jobs left out, as the table has no speed of their model: 1 (D)." in said(found)
    assert "Rows left out for a speed of 0, as of jobs that cannot run there: 1." in said(found)
    only = gavel(tmp_path, reference="k80")
    assert [one.name for one in only.types] == ["A"]


@pytest.mark.parametrize(
    ("speeds", "options", "says"),
    [
        (SPEEDS, {"capacity": {"x": 1}}, "options: GPUs.x: unknown GPU 'x'; the GPUs are: k80, v100"),
        (SPEEDS, {"reference": "x"}, "options: GPUs.x: unknown GPU 'x'; the GPUs are: k80, v100"),
        (
            {"v100": {"('A', 1)": {"null": 4, "('A', 1)": [2]}}},
            {},
            "v100.('A', 1).('A', 1): b_speed: is missing; give b and b_speed both",
        ),
        ({"v100": {"('A', 1)": {"null": "4"}}}, {}, "v100.('A', 1).null: a_speed: "),
        (
            {"v100": {"('B', 1)": {"null": 0}}, "k80": {"('A', 1)": {"null": 1}}},
            {},
            "has no job of one GPU that was measured alone",
        ),
    ],
)
def test_what_is_refused_of_gavel(tmp_path: Path, speeds: Any, options: dict[str, Any], says: str) -> None:
    """Is named with its place."""
    with refused(says):
        gavel(tmp_path, speeds, **options)


def test_the_measured_pairs(shared_data: Path) -> None:
    """Of 96 jobs 59 ask for one GPU; of their pairs 31 cannot run."""
    folder = shared_data / "gavel"
    gpus = {"v100": 8, "p100": 8, "k80": 8}
    found = import_gavel_mix(
        folder / "simulation_throughputs.json", folder / "max_min_fairness.trace", capacity=gpus
    )
    assert sum(one.count or 0 for one in found.types) == 59
    types = len(found.types)
    assert len(found.configurations) == 3 * (types + types * (types + 1) // 2) - 31
    assert is_kept(found)
