"""Jobs in tables: read and written in columns, they mean what they mean row by row."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from random_instances import variant_data
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING
from table_files import ENDLESS, FORMATS, clusterplan_command, flat, most_cells_for_a_row, write_table

import clusterplan
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.allocation.job_table import JobTable
from clusterplan.instances.common.errors import MAX_FAULTS, InstanceError, OptionError
from clusterplan.instances.documents import load, load_catalogue, parse_instance, save
from clusterplan.instances.files import tables

RESOURCES = ("cpu", "gpu", "memory_gib")
NAMES = ["=1+1", "'=x", "''=x", "+1", "-5", "@a", "'a", "a, b", 'say "a"', "nan", "null", "true", "ü λ", "7"]


def random_jobs(seed: int, count: int = 40) -> list[dict[str, Any]]:
    """Return jobs over every speed model, with one to three variants and every field."""
    rng = random.Random(seed)
    jobs = []
    for index in range(count):
        names = rng.sample(["a", "b", "=c", "d d", "'-e"], rng.randint(1, 3))
        job: dict[str, Any] = {
            "name": f"{rng.choice(NAMES)} {index}",
            "remaining_steps": rng.choice([rng.uniform(0.1, 1e6), 10 ** rng.uniform(-300, 15), 5]),
            "variants": [variant_data(rng, name, list(RESOURCES)) for name in names],
        }
        if rng.random() < 0.5:
            job["weight"] = rng.choice([0, 2, rng.random()])
        if rng.random() < 0.3:
            job |= {"stage": "beginning", "restart_s": rng.uniform(0, 300)}
        if rng.random() < 0.3:
            job |= {"optional": True, "unplaced_s": rng.choice([0, rng.uniform(10, 5000)])}
        if rng.random() < 0.3:
            job["current"] = {"variant": rng.choice(names), "ps": rng.randint(0, 2), "workers": 3}
        if rng.random() < 0.3:
            job["deadline_s"] = rng.uniform(200, 5000)
        jobs.append(job)
    return jobs


def document(jobs: Any) -> dict[str, Any]:
    """Return a document with these jobs."""
    return {
        "schema_version": 1,
        "kind": "allocation",
        "name": "d",
        "resources": {"gpu": 40, "cpu": 300, "memory_gib": 500},
        "jobs": jobs,
    }


def put(folder: Path, ending: str, cells: list[dict[str, Any]], base: dict[str, Any] | None = None) -> Path:
    """Write a document whose jobs are a table; return its path."""
    write_table(folder / f"t.{ending}", cells)
    path = folder / "d.yaml"
    path.write_text(yaml.safe_dump((base or document(None)) | {"jobs": f"t.{ending}"}), encoding="utf-8")
    return path


def outcome(path: Path, many: int) -> tuple[list[str], str, type]:
    """Return the faults or the hash of a document, with columns from `many` rows on."""
    before = tables.MANY_ROWS
    tables.MANY_ROWS = many
    try:
        instance = load(path)
    except InstanceError as error:
        return str(error).split("\n"), "", InstanceError
    finally:
        tables.MANY_ROWS = before
    assert isinstance(instance, AllocationInstance)
    return [], instance.sha256(), type(instance.jobs)


@pytest.fixture
def columnar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every table a large one."""
    monkeypatch.setattr(tables, "MANY_ROWS", 1)


# Round trips


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("columnar")
def test_jobs_survive_a_table(tmp_path: Path, seed: int, ending: Any) -> None:
    """Every field of every job is the same after saving and loading, over every speed model."""
    original = parse_instance(document(random_jobs(seed)))
    assert isinstance(original, AllocationInstance)
    save(original, tmp_path / "x.yaml", ending)
    again = load(tmp_path / "x.yaml")
    assert isinstance(again, AllocationInstance)
    assert isinstance(again.jobs, JobTable)
    assert again.sha256() == original.sha256()
    expected = original.table()
    assert [again.jobs[j] for j in range(len(expected))] == list(expected)
    assert again.jobs[3:9:2] == expected[3:9:2]
    assert again.jobs[-1] == expected[len(expected) - 1]
    assert again.to_frame().equals(original.to_frame())
    assert {variant.speed.model for job in again.jobs for variant in job.variants} == {
        *("ps_sync", "ps_async", "ring_allreduce", "table")
    }


@pytest.mark.parametrize("seed", range(4))
def test_small_and_large_tables_are_one_instance(tmp_path: Path, seed: int) -> None:
    """Inline, CSV and Parquet, row by row and in columns: equal hashes, and the same plan."""
    inline = parse_instance(document(random_jobs(seed)))
    plan = clusterplan.solve(inline, "marginal-gain").plan
    for ending in FORMATS:
        save(inline, tmp_path / f"{ending}.yaml", ending)  # type: ignore[arg-type]
        for many, kind in ((1, JobTable), (ENDLESS, tuple)):
            path = tmp_path / f"{ending}.yaml"
            assert outcome(path, many) == ([], inline.sha256(), kind)
        assert clusterplan.solve(load(path), "marginal-gain").plan == plan
    tables_written = {path.name for path in tmp_path.iterdir() if path.suffix != ".yaml"}
    assert tables_written == {"csv-jobs.csv", "parquet-jobs.parquet"}


@pytest.mark.parametrize("solver", ["marginal-gain", "milp:highs"])
@pytest.mark.usefixtures("columnar")
def test_plans_do_not_depend_on_the_form(tmp_path: Path, solver: str) -> None:
    """A small instance has the same optimum from a table in columns as from objects."""
    inline = parse_instance(document(random_jobs(5, 5)))
    save(inline, tmp_path / "x.json", "parquet")
    first, second = (clusterplan.solve(one, solver) for one in (inline, load(tmp_path / "x.json")))
    assert (first.status, first.objective, first.plan) == (second.status, second.objective, second.plan)


@pytest.mark.slow
def test_many_jobs_are_saved_in_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the threshold on the table is the default, and no row becomes an object when it is read."""
    instance = generate_allocation(tables.MANY_ROWS, 4, optional_share=0.2, seed=3)
    save(instance, tmp_path / "x.yaml")
    save(instance, tmp_path / "y.yaml", "csv")
    assert (tmp_path / "x.yaml").stat().st_size < 1000
    assert "jobs: x-jobs.parquet" in (tmp_path / "x.yaml").read_text()
    monkeypatch.setattr(tables.Columns, "rows", None)
    for name in ("x", "y"):
        again = load(tmp_path / f"{name}.yaml")
        assert isinstance(again, AllocationInstance)
        assert isinstance(again.jobs, JobTable)
        assert again.sha256() == instance.sha256()
    save(generate_allocation(tables.MANY_ROWS - 1), tmp_path / "z.yaml")
    assert not (tmp_path / "z-jobs.parquet").exists()


def test_numbers_stay_numbers_and_formulas_become_text(tmp_path: Path) -> None:
    """In CSV a name that begins like a formula is quoted; numbers are as they were, to the last digit."""
    jobs = random_jobs(1, 3)
    for job, name in zip(jobs, ("=HYPERLINK()", "'=x", "-5"), strict=True):
        job["name"] = name
    save(parse_instance(document(jobs)), tmp_path / "x.yaml", "csv")
    table = arrow_csv.read_csv(tmp_path / "x-jobs.csv")
    assert table["name"].to_pylist() == ["'=HYPERLINK()", "''=x", "'-5"]
    assert table["remaining_steps"].to_pylist() == [job["remaining_steps"] for job in jobs]
    assert [job.name for job in load(tmp_path / "x.yaml").jobs] == [job["name"] for job in jobs]  # type: ignore[attr-defined]


def test_a_formula_that_was_not_quoted_is_a_name_too(tmp_path: Path) -> None:
    """Names in a table that somebody else wrote are read as they stand."""
    jobs = [flat(job) | {"name": name} for job, name in zip(random_jobs(1, 2), ("=x", "'y"), strict=True)]
    for row in jobs:
        row.pop("current.variant", None), row.pop("current.ps", None), row.pop("current.workers", None)
    for many in (1, ENDLESS):
        tables.MANY_ROWS, before = many, tables.MANY_ROWS
        try:
            names = [job.name for job in load(put(tmp_path, "csv", jobs)).jobs]  # type: ignore[attr-defined]
        finally:
            tables.MANY_ROWS = before
        assert names == ["=x", "'y"]


def test_what_a_table_cannot_hold_is_refused_or_stays_inline(tmp_path: Path) -> None:
    """Resources with dots, blanks at the ends of a name in CSV, tables of other kinds."""
    data = document(random_jobs(1, 3))
    data["jobs"][1]["name"] = " a"
    blank = parse_instance(data)
    save(blank, tmp_path / "x.yaml", "parquet")
    assert load(tmp_path / "x.yaml").sha256() == blank.sha256()
    with pytest.raises(OptionError, match="blank"):
        save(blank, tmp_path / "x.yaml", "csv")
    dotted = parse_instance(
        document(random_jobs(1, 3)) | {"resources": dict.fromkeys([*RESOURCES, "a.b"], 9)}
    )
    with pytest.raises(OptionError, match="dot"):
        save(dotted, tmp_path / "x.yaml", "csv")
    save(dotted, tmp_path / "x.yaml")
    assert load(tmp_path / "x.yaml").sha256() == dotted.sha256()
    with pytest.raises(OptionError, match="only instances of allocation and of consolidation"):
        save(parse_instance(STAGING), tmp_path / "x.yaml", "csv")
    with pytest.raises(InstanceError, match="cannot be written"):
        save(blank, tmp_path / "nowhere" / "x.yaml", "parquet")


# Commands


@pytest.mark.slow
@pytest.mark.parametrize("ending", FORMATS)
def test_many_generated_jobs_go_into_a_table(tmp_path: Path, ending: str) -> None:
    """The same seed gives the same instance, which validates with its number of jobs."""
    words = ["generate", "allocation", "--jobs", "6000", "--seed", "3", "--output", "x.yaml"]
    words += ["--table", ending] if ending == "csv" else []
    assert clusterplan_command(tmp_path, *words).returncode == 0
    assert (tmp_path / f"x-jobs.{ending}").exists()
    checked = clusterplan_command(tmp_path, "validate", "x.yaml")
    assert (checked.returncode, checked.stdout) == (0, "x.yaml: allocation, 3 resources, 6000 jobs; fine\n")
    assert load(tmp_path / "x.yaml").sha256() == generate_allocation(6000, seed=3).sha256()


@pytest.mark.parametrize("words", [["--jobs", "6000"], ["--jobs", "6", "--table", "csv"]])
def test_a_table_needs_a_place(tmp_path: Path, words: list[str]) -> None:
    """Without a file to write beside, the command says what to add."""
    run = clusterplan_command(tmp_path, "generate", "allocation", *words)
    assert (run.returncode, run.stdout) == (2, "")
    assert "--output FILE" in run.stderr
    assert len(run.stderr.splitlines()) == 1


# Rules


def one_of_each() -> list[dict[str, Any]]:
    """Return the cells of one fine job of each speed model, then two with all that a job may have."""
    demand = {"worker_demand.cpu": 1, "worker_demand.gpu": 1.5, "ps_demand.cpu": 2}
    ranges = {"workers.min": 2, "workers.max": 4, "ps.min": 1, "ps.max": 3}
    theta = {f"speed.theta.{k}": 0.1 * k for k in range(5)}
    sync = {"name": "v", **demand, **ranges, "speed.model": "ps_sync", **theta, "speed.batch": 16}
    asynchronous = {k: v for k, v in sync.items() if k not in ("speed.theta.4", "speed.batch")}
    asynchronous |= {"name": "a", "speed.model": "ps_async"}
    ring = {k: v for k, v in sync.items() if k != "speed.theta.4" and not k.startswith("ps.")}
    ring |= {"name": "r", "speed.model": "ring_allreduce"}
    rows = {f"speed.rows.{k}.{c}": v for k in (0, 1) for c, v in (("workers", 2 - k), ("steps_per_s", 1.5))}
    measured = {"name": "t", "worker_demand.gpu": 1, "speed.model": "table", **rows, "speed.rows.0.ps": 1}
    optional = {"optional": True, "unplaced_s": 5, "deadline_s": 10}
    now = {
        "current.variant": "t",
        "current.ps": 1,
        "current.workers": 2,
        "restart_s": 3,
        "stage": "beginning",
    }
    made = [([sync], {}), ([asynchronous], {}), ([ring], {}), ([measured], {})]
    made += [([measured, sync], optional), ([ring, measured, asynchronous], now)]
    return [
        {"name": f"j{j}", "remaining_steps": 100, **more}
        | {f"variants.{v}.{k}": c for v, variant in enumerate(variants) for k, c in variant.items()}
        for j, (variants, more) in enumerate(made)
    ]


LARGE, NAN, INFINITE = 1e16, float("nan"), float("inf")
V = "variants.0"
WRONG: list[tuple[int, dict[str, Any]]] = [
    # the job, the cells that make it wrong (None: no cell)
    (0, {"name": None}),
    (0, {"name": "x" * 201}),
    (0, {"name": "a\u202eb"}),
    (0, {"name": "a\tb"}),
    (1, {"name": "j0"}),
    *((0, {"remaining_steps": v}) for v in (None, 0, -1, LARGE, NAN, INFINITE, "x", "'5", "0x10", "1_0")),
    *((0, {"weight": v}) for v in (-1, LARGE, NAN, "x", "1e999")),
    *((0, {"stage": v}) for v in ("Beginning", "x", 1)),
    *((0, {"deadline_s": v}) for v in (0, -1, "never", "2024-01-01")),
    *((0, {"restart_s": v}) for v in (-1, INFINITE)),
    *((0, {"optional": v}) for v in ("yes", 1, True)),
    (0, {"unplaced_s": 5}),
    (0, {"unplaced_s": 5, "optional": False}),
    (4, {"unplaced_s": None}),
    (4, {"unplaced_s": -1}),
    (5, {"current.variant": "z"}),
    (5, {"current.variant": None}),
    (5, {"current.workers": None}),
    (5, {"current.ps": None, "current.workers": None, "current.variant": None, "current.x": 1}),
    *((5, {"current.workers": v}) for v in (-1, 1.5, "1e2", 2 * 10**9, 10**18)),
    (5, {"current.ps": -1}),
    (0, {"current": "v"}),
    (0, {"weigth": 1}),
    (0, {"variants": "v"}),
    (0, {"variants.1": "v"}),
    (0, {"variants.2.name": "w"}),
    (0, {"variants.00.name": "w"}),
    (0, {f"{V}.name": None}),
    (0, {f"{V}.name": "\x07"}),
    (5, {"variants.1.name": "r"}),
    (0, {f"{V}.worker_demand.cpu": None, f"{V}.worker_demand.gpu": None}),
    (0, {f"{V}.worker_demand": 4}),
    *((0, {f"{V}.worker_demand.cpu": v}) for v in (-1, LARGE, NAN, "x")),
    (0, {f"{V}.worker_demand.tpu": 0}),
    (0, {f"{V}.ps_demand.tpu": 1}),
    (0, {f"{V}.worker_demand.cpu.x": 1}),
    (0, {f"{V}.worker_demand.0": 1}),
    *((0, {f"{V}.workers.min": v}) for v in (0, -1, 5, 1.5, 100_001, "x")),
    *((0, {f"{V}.workers.max": v}) for v in (None, 0, 100_001, 1.5)),
    *((0, {f"{V}.ps.min": v}) for v in (0, 4)),
    *((0, {f"{V}.ps.max": v}) for v in (None, 0, 100_001)),
    (0, {f"{V}.workers.min": None, f"{V}.workers.max": None}),
    (0, {f"{V}.ps.min": None, f"{V}.ps.max": None}),
    (1, {f"{V}.ps.min": None, f"{V}.ps.max": None}),
    (0, {f"{V}.ps.most": 3}),
    (2, {f"{V}.ps.max": 3}),
    (3, {f"{V}.workers.max": 3}),
    (3, {f"{V}.ps.max": 3}),
    (0, {f"{V}.speed": "fast"}),
    *((0, {f"{V}.speed.model": v}) for v in (None, "sync", "auto", "ps_async", "ring_allreduce", "table")),
    *((0, {f"{V}.speed.batch": v}) for v in (None, 0, -1, LARGE)),
    (1, {f"{V}.speed.batch": 16}),
    (3, {f"{V}.speed.batch": 16}),
    *((0, {f"{V}.speed.theta.2": v}) for v in (None, -1, NAN, LARGE, "x")),
    (0, {f"{V}.speed.theta.5": 1}),
    (1, {f"{V}.speed.theta.4": 1}),
    (2, {f"{V}.speed.theta.4": 1}),
    (3, {f"{V}.speed.theta.0": 1}),
    (0, {f"{V}.speed.theta.{k}": 0 for k in range(5)}),
    (0, {f"{V}.speed.rows.0.workers": 1, f"{V}.speed.rows.0.steps_per_s": 1}),
    (0, {f"{V}.speed.allow_rank_deficient": True}),
    (0, {f"{V}.speed.measurements": "nothing.csv"}),
    (0, {"loss.measurements": "nothing.csv"}),
    (3, {f"{V}.speed.rows.{k}.{c}": None for k in (0, 1) for c in ("workers", "ps", "steps_per_s")}),
    (3, {f"{V}.speed.rows.0.{c}": None for c in ("workers", "ps", "steps_per_s")}),
    *((3, {f"{V}.speed.rows.0.workers": v}) for v in (None, 0, -1, 1.5, 2 * 10**9)),
    *((3, {f"{V}.speed.rows.0.steps_per_s": v}) for v in (None, 0, NAN)),
    *((3, {f"{V}.speed.rows.0.ps": v}) for v in (-1, 0.5)),
    (3, {f"{V}.speed.rows.1.workers": 2, f"{V}.speed.rows.1.ps": 1}),
    (3, {f"{V}.speed.rows.1.x": 2}),
    (3, {f"{V}.speed.rows.3.workers": 2}),
    (5, {"variants.1.name": None}),
    (5, {"variants.2.name": "r"}),
    *((j, {name: None for name in one_of_each()[j] if name.startswith(f"{V}.")}) for j in (0, 4, 5)),
    (5, {"variants.2.speed.theta.0": None}),
]


def for_csv(cells: dict[str, Any]) -> dict[str, Any]:
    """Return cells as a CSV table has them."""
    return {k: str(v).lower() if isinstance(v, bool) else v for k, v in cells.items()}


def typed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows whose columns have one type each, as a Parquet file needs: text where types differ."""
    for name in {name for row in rows for name in row}:
        kinds = {type(row[name]) for row in rows if row.get(name) is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            for row in rows:
                if row.get(name) is not None:
                    row[name] = str(row[name])
    return rows


@pytest.mark.parametrize("ending", FORMATS)
def test_the_table_without_a_wrong_cell_is_fine(tmp_path: Path, ending: str) -> None:
    """It is read in columns, and equals itself row by row."""
    path = put(tmp_path, ending, [for_csv(row) if ending == "csv" else row for row in one_of_each()])
    faults, sha256, kind = outcome(path, 1)
    assert (faults, kind) == ([], JobTable)
    assert outcome(path, ENDLESS) == ([], sha256, tuple)


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize(("job", "cells"), WRONG, ids=[f"{job}-{str(cells)[1:60]}" for job, cells in WRONG])
def test_one_wrong_cell_has_the_faults_of_a_small_table(
    tmp_path: Path, ending: str, job: int, cells: dict[str, Any]
) -> None:
    """Each rule is checked in columns, and says word for word what it says of a row."""
    rows = one_of_each()
    rows[job] |= cells
    path = put(tmp_path, ending, [for_csv(row) for row in rows] if ending == "csv" else typed(rows))
    faults, _, _ = outcome(path, 1)
    assert faults
    assert faults == outcome(path, ENDLESS)[0]


FINE: list[tuple[int, dict[str, Any]]] = [
    *((0, {"remaining_steps": v}) for v in ("+5", "5.", ".5", "1E3", "1e15", "5e-324", "007")),
    (0, {"weight": "-0"}),
    (0, {"name": "'=1"}),
    (4, {"optional": "TRUE"}),
    (5, {"current.ps": None}),
    (0, {"current.variant": "v", "current.workers": "+0"}),
    (0, {f"{V}.workers.min": None}),
    (0, {f"{V}.workers.min": "+0002"}),
    (0, {f"{V}.worker_demand.cpu": None}),
    (0, {f"{V}.ps_demand.cpu": None}),
    (3, {f"{V}.speed.rows.0.ps": None}),
]


@pytest.mark.parametrize(("job", "cells"), FINE)
def test_no_rule_is_stricter_in_columns(tmp_path: Path, job: int, cells: dict[str, Any]) -> None:
    """Unusual cells that a row accepts are read in columns, without a look at rows."""
    rows = [for_csv(row) for row in one_of_each()]
    rows[job] |= cells
    path = put(tmp_path, "csv", rows)
    faults, sha256, kind = outcome(path, 1)
    assert (faults, kind) == ([], JobTable)
    assert outcome(path, ENDLESS)[1] == sha256


CELLS = [
    None,
    0,
    1,
    -1,
    2,
    1.5,
    1e15,
    1e16,
    NAN,
    INFINITE,
    "",
    "x",
    "v",
    "t",
    "table",
    "ps_sync",
    True,
    False,
]
CELLS += [
    "ring_allreduce",
    "1",
    "+1",
    "1.",
    "1e2",
    " 1 ",
    "'=v",
    "=v",
    "nan",
    "-inf",
    "٣",
    "a\nb",
    'a"b',
    "1,5",
]
COLUMNS = sorted({name for row in one_of_each() for name in row})
COLUMNS += [f"{V}.worker_demand.tpu", f"{V}.worker_demand.1", f"{V}.ps_demand.memory_gib"]
COLUMNS += ["variants.3.name", f"{V}.speed.theta.5", "current.x", "current", "x", "variants.01.name"]
CHANGES = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(COLUMNS), st.sampled_from(CELLS)), min_size=1, max_size=4
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES, ending=st.sampled_from(FORMATS))
def test_any_cells_are_judged_alike(tmp_path: Path, changes: list[tuple[int, str, Any]], ending: str) -> None:
    """Whatever stands in a table, columns and rows come to the same instance or the same faults."""
    rows = one_of_each()
    for job, column, cell in changes:
        rows[job][column] = cell
    path = put(tmp_path, ending, [for_csv(row) for row in rows] if ending == "csv" else typed(rows))
    faults, sha256, kind = outcome(path, 1)
    assert (faults, sha256) == outcome(path, ENDLESS)[:2]
    numbered = any("worker_demand.1" in column for _, column, _ in changes)
    assert faults or numbered or kind is JobTable


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet="ab1,\"\n\r \t'=.é\u00a0\u0085\x1c", max_size=40), at=st.integers(0, 400))
def test_any_csv_text_is_judged_alike(tmp_path: Path, text: str, at: int) -> None:
    """Quotes, blanks and line ends anywhere in a file mean in columns what they mean row by row."""
    path = put(tmp_path, "csv", [for_csv(row) for row in one_of_each()])
    table = tmp_path / "t.csv"
    whole = table.read_text(encoding="utf-8")
    at += whole.index("\n") - 20
    table.write_text(whole[:at] + text + whole[at:], encoding="utf-8", newline="")
    assert outcome(path, 1)[:2] == outcome(path, ENDLESS)[:2]


@pytest.mark.parametrize("ending", FORMATS)
def test_faults_of_the_document_are_reported_beside_those_of_its_table(tmp_path: Path, ending: str) -> None:
    """Faults of the document, unknown resources and repeated names come with the right numbers."""
    rows = [for_csv(row) if ending == "csv" else row for row in one_of_each()]
    twice = [*rows, rows[2] | {f"{V}.ps_demand.tpu": 1}, rows[2]]
    for base in (
        document(None) | {"prices_usd_per_hour": {"tpu": 1}},
        document(None) | {"budget_usd_per_hour": 1},
        document(None) | {"resources": {"cpu": 1}},
    ):
        path = put(tmp_path, ending, twice, base)
        faults = outcome(path, 1)[0]
        assert len(faults) > 2
        assert sorted(faults) == sorted(outcome(path, ENDLESS)[0])
    for wrong in ({"objective": "x"}, {"resources": ["cpu"]}, {"resources": {"gpu": -1}}, {"colour": 1}):
        path = put(tmp_path, ending, [rows[0] | {"weight": -1}, *rows[1:]], document(None) | wrong)
        assert len(outcome(path, 1)[0]) == 2
        assert outcome(path, 1)[0] == outcome(path, ENDLESS)[0]


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.usefixtures("columnar")
def test_of_many_faulty_rows_the_first_are_named(tmp_path: Path, ending: str) -> None:
    """A million faulty rows are not a million lines."""
    good = for_csv(one_of_each()[0])
    rows = [good | {"name": f"j{j}", "remaining_steps": 5 if j < 300 else -j} for j in range(480)]
    faults = outcome(put(tmp_path, ending, rows), 1)[0]
    assert len(faults) == MAX_FAULTS + 1
    assert f"{place(ending, 300)}remaining_steps: is " in faults[0]
    assert "80 more" in faults[-1]
    same = [good for _ in range(180)]
    faults = outcome(put(tmp_path, ending, same), 1)[0]
    # In a file, a fault of a whole column is one line.
    assert len(faults) == (2 if ending == "csv" else MAX_FAULTS + 1)
    assert "79 more" in faults[-1]
    tpu = [good | {"name": f"j{j}", f"{V}.worker_demand.tpu": 1} for j in range(180)]
    assert len(outcome(put(tmp_path, ending, tpu), 1)[0]) == (1 if ending == "csv" else MAX_FAULTS)


def place(ending: str, row: int) -> str:
    """Return how a fault names a row: in text the line, which follows the header."""
    return f"line {row + 2}: " if ending == "csv" else f"jobs[{row}]."


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.usefixtures("columnar")
def test_a_table_that_starts_wrong_is_not_read_to_its_end(tmp_path: Path, ending: str) -> None:
    """The first thousand rows are judged alone; the text says that there may be more faults."""
    good = for_csv(one_of_each()[0])
    rows = [good | {"name": f"j{j}", "remaining_steps": -1 if j in (5, 1200) else 5} for j in range(1300)]
    faults = outcome(put(tmp_path, ending, rows), 1)[0]
    assert len(faults) == 2
    assert f"{place(ending, 5)}remaining_steps: is " in faults[0]
    assert "perhaps more" in faults[1]
    rows[5] = rows[4] | {"name": "j5"}
    (fault,) = outcome(put(tmp_path, ending, rows), 1)[0]
    assert f"{place(ending, 1200)}remaining_steps: is " in fault


def test_measurements_in_a_table_are_fitted_row_by_row(tmp_path: Path) -> None:
    """A table that names measurements is read as rows, whatever its size."""
    (tmp_path / "loss.csv").write_text(
        "step,loss\n" + "".join(f"{k * 100},{1 / (0.001 * k * 100 + 1) + 0.1}\n" for k in range(30))
    )
    row = for_csv(one_of_each()[0])
    del row["remaining_steps"]
    row |= {"loss.measurements": "loss.csv", "loss.steps_per_epoch": 100, "loss.delta": 0.001}
    path = put(tmp_path, "csv", [row])
    faults, sha256, kind = outcome(path, 1)
    assert (faults, kind) == ([], tuple)
    assert outcome(path, ENDLESS)[1] == sha256


def test_a_table_too_wide_for_columns_is_read_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns that would take more memory than their cells are not made."""
    monkeypatch.setattr("clusterplan.instances.files.columnar.MAX_CELLS", 100)
    assert outcome(put(tmp_path, "parquet", one_of_each()), 1)[::2] == ([], tuple)


# Parquet files


@pytest.mark.parametrize(
    ("base", "key"),
    [(ALLOCATION, "jobs"), (STAGING, "types"), (STAGING, "layers"), (CONSOLIDATION, "servers")],
)
def test_tables_of_every_kind_may_be_parquet(tmp_path: Path, base: dict[str, Any], key: str) -> None:
    """A Parquet file is the list that it holds."""
    write_table(tmp_path / "t.parquet", [flat(row) for row in base[key]])
    (tmp_path / "d.yaml").write_text(yaml.safe_dump(base | {key: "t.parquet"}))
    assert load(tmp_path / "d.yaml").sha256() == parse_instance(copy.deepcopy(base)).sha256()


def test_a_catalogue_may_have_its_machines_in_parquet(tmp_path: Path) -> None:
    """Catalogues read Parquet as instances do."""
    machine = {"name": "m", "price_usd_per_hour": 1, "vcpus": 4, "memory_gib": 16, "gpus": 0}
    write_table(tmp_path / "t.parquet", [machine])
    head = {"schema_version": 1, "kind": "catalogue", "name": "c", "source": "s", "date": "2024-01-01"}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(head | {"types": "t.parquet"}))
    assert load_catalogue(tmp_path / "c.yaml").types[0].name == "m"


def save_columns(folder: Path, table: pa.Table) -> Path:
    """Write a table and a document that refers to it; return the document's path."""
    parquet.write_table(table, folder / "t.parquet")
    (folder / "d.yaml").write_text(yaml.safe_dump(document("t.parquet")))
    return folder / "d.yaml"


def columns_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return rows of cells as columns."""
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(n for row in rows for n in row)}


RETYPED: list[Callable[[Any], Any]] = [
    lambda column: column.cast(pa.large_string()) if pa.types.is_string(column.type) else column,
    lambda column: column.dictionary_encode(),
    lambda column: column.cast(pa.float32()) if pa.types.is_int64(column.type) else column,
    lambda column: column.cast(pa.uint16()) if pa.types.is_int64(column.type) else column,
    lambda column: column.cast(pa.decimal128(21, 2)) if pa.types.is_int64(column.type) else column,
]


@pytest.mark.parametrize("retype", RETYPED)
@pytest.mark.parametrize("many", [1, ENDLESS])
def test_plain_types_of_any_width_are_read(tmp_path: Path, retype: Callable[[Any], Any], many: int) -> None:
    """Large text, categories, small numbers and decimals mean what they say."""
    table = pa.table(columns_of(one_of_each()))
    expected = outcome(save_columns(tmp_path, table), many)
    assert expected[0] == []
    new = pa.table([retype(column) for column in table.columns], names=table.column_names)
    assert outcome(save_columns(tmp_path, new), many) == expected


ODD: list[tuple[Any, str]] = [
    ([[1], [2]], "list"),
    ([{"a": 1}, {"a": 2}], "struct"),
    ([b"a", b"b"], "binary"),
    (np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[s]"), "timestamp"),
]


@pytest.mark.parametrize(("values", "word"), ODD)
def test_columns_of_other_types_are_one_line(tmp_path: Path, values: Any, word: str) -> None:
    """The line names the column, its type and what is allowed."""
    (line,) = outcome(save_columns(tmp_path, pa.table({"name": ["a", "b"], "weight": values})), 1)[0]
    assert "jobs: t.parquet: column 'weight': holds " in line
    assert word in line
    assert "numbers, text or truth values" in line


@pytest.mark.parametrize("many", [1, ENDLESS])
def test_odd_shapes_are_one_line(tmp_path: Path, many: int) -> None:
    """No rows, no columns, two columns of one name, text that is far too long, names too deep."""
    for table, words in (
        (pa.table({"name": pa.array([], pa.string())}), "has no rows"),
        (pa.table({}), "has no rows"),
        (pa.table([["a"], ["b"]], names=["name", "name "]), "two of the same name"),
        (pa.table({"name": ["x" * 100_000]}), "100,000 bytes"),
        (pa.table({"x" + ".x" * 30: [1]}), "dots"),
    ):
        (line,) = outcome(save_columns(tmp_path, table), many)[0]
        assert words in line


def test_files_that_are_too_large_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits on rows, cells and memory hold before anything else is done with a table."""
    path = save_columns(tmp_path, pa.table(columns_of(one_of_each())))
    for limit in ("MAX_ROWS", "MAX_COLUMNS", "MAX_CELLS", "MAX_TABLE_BYTES", "MAX_SMALL_CELLS"):
        module = "files.columns" if limit == "MAX_SMALL_CELLS" else "files.tables"
        with monkeypatch.context() as patch:
            patch.setattr(f"clusterplan.instances.{module}.{limit}", 5)
            (line,) = outcome(path, ENDLESS)[0]
            assert "split it" in line


def test_broken_parquet_files_are_plain_lines(tmp_path: Path) -> None:
    """Whatever bytes are cut off or changed, there are faults or an instance, and never anything else."""
    path = save_columns(tmp_path, pa.table(columns_of(one_of_each())))
    whole = (tmp_path / "t.parquet").read_bytes()
    rng = random.Random(1)
    broken = [b"", b"PAR1", b"name\na\n", whole[:100], whole[-100:], whole[:-1], b"\0" * 500]
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(rng.choice([1, 1, 5])):
            changed[rng.randrange(len(whole))] = rng.randrange(256)
        broken.append(bytes(changed))
    for content in broken:
        (tmp_path / "t.parquet").write_bytes(content)
        for line in outcome(path, rng.choice([1, ENDLESS]))[0]:
            assert line.startswith(str(path))
            assert len(line) < 700
            assert line.isprintable()
    (tmp_path / "t.parquet").write_bytes(b"name\na\n")
    (line,) = outcome(path, 1)[0]
    assert "jobs: t.parquet: cannot be read as a Parquet file: " in line
    (tmp_path / "t.parquet").unlink()
    assert "there is no such file" in outcome(path, 1)[0][0]


def test_text_that_is_no_utf8_is_one_line(tmp_path: Path) -> None:
    """Arrow does not look at the bytes of text; the reader does."""
    raw = pa.array([b"\xff\xfe", b"b"])
    bad = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    for many in (1, ENDLESS):
        (line,) = outcome(save_columns(tmp_path, pa.table({"name": bad})), many)[0]
        assert "cannot be read as a Parquet file" in line


def test_a_job_of_a_table_is_made_from_its_own_cells() -> None:
    """Work for whole columns, for each job, would be quadratic: a million jobs would take weeks."""
    table = JobTable.of(generate_allocation(50, 3, optional_share=0.5).jobs, RESOURCES)
    assert most_cells_for_a_row(table) <= 5
