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
from pyarrow import parquet
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING
from table_files import ENDLESS, FORMATS, fine_jobs, flat, most_cells_for_a_row, outcome, put, write_table

from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.job_table import JobTable
from clusterplan.instances.common.errors import MAX_FAULTS
from clusterplan.instances.documents import load, load_catalogue, parse_instance

RESOURCES = ("cpu", "gpu", "memory_gib")
NAMES = ["=1+1", "'=x", "''=x", "+1", "-5", "@a", "'a", "a, b", 'say "a"', "nan", "null", "true", "ü λ", "7"]


HEAD = {
    "schema_version": 1,
    "kind": "allocation",
    "name": "d",
    "resources": {"gpu": 40, "cpu": 300, "memory_gib": 500},
}

# Rules


NAN, INFINITE = float("nan"), float("inf")
V = "variants.0"
WRONG: list[tuple[int, dict[str, Any]]] = [
    # The job, and the cells that make it wrong (None: no cell). The types of single fields are compared in
    # `files.test_columnar`; these are rules between fields, and a few cells that look like numbers.
    (0, {"name": None}),
    (1, {"name": "j0"}),
    *((0, {"remaining_steps": v}) for v in (None, 0, NAN, INFINITE, "'5", "0x10", "1_0")),
    *((0, {"weight": v}) for v in (-1, "1e999")),
    *((0, {"optional": v}) for v in ("yes", 1, True)),
    (0, {"unplaced_s": 5}),
    (4, {"unplaced_s": None}),
    (5, {"current.variant": "z"}),
    (5, {"current.workers": None}),
    (0, {"current": "v"}),
    (0, {"variants.00.name": "w"}),
    (5, {"variants.1.name": "r"}),
    (0, {f"{V}.worker_demand.cpu": None, f"{V}.worker_demand.gpu": None}),
    (0, {f"{V}.worker_demand.tpu": 0}),
    (0, {f"{V}.ps_demand.tpu": 1}),
    (0, {f"{V}.worker_demand.0": 1}),
    *((0, {f"{V}.workers.min": v}) for v in (0, 5)),
    *((0, {f"{V}.workers.max": v}) for v in (None, 0)),
    *((0, {f"{V}.ps.min": v}) for v in (0, 4)),
    *((0, {f"{V}.ps.max": v}) for v in (None, 0)),
    (0, {f"{V}.workers.min": None, f"{V}.workers.max": None}),
    (0, {f"{V}.ps.min": None, f"{V}.ps.max": None}),
    (1, {f"{V}.ps.min": None, f"{V}.ps.max": None}),
    (2, {f"{V}.ps.max": 3}),
    (3, {f"{V}.workers.max": 3}),
    (3, {f"{V}.ps.max": 3}),
    *((0, {f"{V}.speed.model": v}) for v in (None, "sync", "auto", "ps_async", "ring_allreduce", "table")),
    (0, {f"{V}.speed.batch": None}),
    (1, {f"{V}.speed.batch": 16}),
    (3, {f"{V}.speed.theta.0": 1}),
    (0, {f"{V}.speed.theta.{k}": 0 for k in range(5)}),
    (0, {f"{V}.speed.rows.0.workers": 1, f"{V}.speed.rows.0.steps_per_s": 1}),
    (0, {f"{V}.speed.allow_rank_deficient": True}),
    (0, {f"{V}.speed.measurements": "nothing.csv"}),
    (0, {"loss.measurements": "nothing.csv"}),
    (3, {f"{V}.speed.rows.{k}.{c}": None for k in (0, 1) for c in ("workers", "ps", "steps_per_s")}),
    (3, {f"{V}.speed.rows.0.{c}": None for c in ("workers", "ps", "steps_per_s")}),
    (3, {f"{V}.speed.rows.1.workers": 2, f"{V}.speed.rows.1.ps": 1}),
    (5, {"variants.2.name": "r"}),
    *((j, {name: None for name in fine_jobs()[j] if name.startswith(f"{V}.")}) for j in (0, 4, 5)),
]


@pytest.mark.parametrize("ending", FORMATS)
def test_the_table_without_a_wrong_cell_is_fine(tmp_path: Path, ending: str) -> None:
    """It is read in columns, and equals itself row by row."""
    path = put(tmp_path, ending, HEAD, jobs=fine_jobs())
    faults, sha256, instance = outcome(path, 1)
    assert (faults, type(instance.jobs)) == ([], JobTable)
    assert outcome(path, ENDLESS)[:2] == ([], sha256)


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize(("job", "cells"), WRONG, ids=[f"{job}-{str(cells)[1:60]}" for job, cells in WRONG])
def test_one_wrong_cell_has_the_faults_of_a_small_table(
    tmp_path: Path, ending: str, job: int, cells: dict[str, Any]
) -> None:
    """Each rule is checked in columns, and says word for word what it says of a row."""
    rows = fine_jobs()
    rows[job] |= cells
    path = put(tmp_path, ending, HEAD, jobs=rows)
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
    rows = fine_jobs()
    rows[job] |= cells
    path = put(tmp_path, "csv", HEAD, jobs=rows)
    faults, sha256, instance = outcome(path, 1)
    assert (faults, type(instance.jobs)) == ([], JobTable)
    assert outcome(path, ENDLESS)[1] == sha256


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet="ab1,\"\n\r \t'=.é\u00a0\u0085\x1c", max_size=40), at=st.integers(0, 400))
def test_any_csv_text_is_judged_alike(tmp_path: Path, text: str, at: int) -> None:
    """Quotes, blanks and line ends anywhere in a file mean in columns what they mean row by row."""
    path = put(tmp_path, "csv", HEAD, jobs=fine_jobs())
    table = tmp_path / "jobs.csv"
    whole = table.read_text(encoding="utf-8")
    at += whole.index("\n") - 20
    table.write_text(whole[:at] + text + whole[at:], encoding="utf-8", newline="")
    assert outcome(path, 1)[:2] == outcome(path, ENDLESS)[:2]


@pytest.mark.parametrize("ending", FORMATS)
def test_faults_of_the_document_are_reported_beside_those_of_its_table(tmp_path: Path, ending: str) -> None:
    """Faults of the document, unknown resources and repeated names come with the right numbers."""
    rows = fine_jobs()
    twice = [*rows, rows[2] | {f"{V}.ps_demand.tpu": 1}, rows[2]]
    for base in (
        HEAD | {"prices_usd_per_hour": {"tpu": 1}},
        HEAD | {"budget_usd_per_hour": 1},
        HEAD | {"resources": {"cpu": 1}},
    ):
        path = put(tmp_path, ending, base, jobs=twice)
        faults = outcome(path, 1)[0]
        assert len(faults) > 2
        assert sorted(faults) == sorted(outcome(path, ENDLESS)[0])
    for wrong in ({"objective": "x"}, {"resources": ["cpu"]}, {"resources": {"gpu": -1}}, {"colour": 1}):
        path = put(tmp_path, ending, HEAD | wrong, jobs=[rows[0] | {"weight": -1}, *rows[1:]])
        assert len(outcome(path, 1)[0]) == 2
        assert outcome(path, 1)[0] == outcome(path, ENDLESS)[0]


@pytest.mark.parametrize("ending", FORMATS)
def test_of_many_faulty_rows_the_first_are_named(tmp_path: Path, ending: str) -> None:
    """A million faulty rows are not a million lines."""
    good = fine_jobs()[0]
    rows = [good | {"name": f"j{j}", "remaining_steps": 5 if j < 300 else -j} for j in range(480)]
    faults = outcome(put(tmp_path, ending, HEAD, jobs=rows), 1)[0]
    assert len(faults) == MAX_FAULTS + 1
    assert f"{place(ending, 300)}remaining_steps: is " in faults[0]
    assert "80 more" in faults[-1]
    same = [good for _ in range(180)]
    faults = outcome(put(tmp_path, ending, HEAD, jobs=same), 1)[0]
    # In a file, a fault of a whole column is one line.
    assert len(faults) == (2 if ending == "csv" else MAX_FAULTS + 1)
    assert "79 more" in faults[-1]
    tpu = [good | {"name": f"j{j}", f"{V}.worker_demand.tpu": 1} for j in range(180)]
    assert len(outcome(put(tmp_path, ending, HEAD, jobs=tpu), 1)[0]) == (1 if ending == "csv" else MAX_FAULTS)


def place(ending: str, row: int) -> str:
    """Return how a fault names a row: in text the line, which follows the header."""
    return f"line {row + 2}: " if ending == "csv" else f"jobs[{row}]."


@pytest.mark.parametrize("ending", FORMATS)
def test_a_table_that_starts_wrong_is_not_read_to_its_end(tmp_path: Path, ending: str) -> None:
    """The first thousand rows are judged alone; the text says that there may be more faults."""
    good = fine_jobs()[0]
    rows = [good | {"name": f"j{j}", "remaining_steps": -1 if j in (5, 1200) else 5} for j in range(1300)]
    faults = outcome(put(tmp_path, ending, HEAD, jobs=rows), 1)[0]
    assert len(faults) == 2
    assert f"{place(ending, 5)}remaining_steps: is " in faults[0]
    assert "perhaps more" in faults[1]
    rows[5] = rows[4] | {"name": "j5"}
    (fault,) = outcome(put(tmp_path, ending, HEAD, jobs=rows), 1)[0]
    assert f"{place(ending, 1200)}remaining_steps: is " in fault


def test_measurements_in_a_table_are_fitted_row_by_row(tmp_path: Path) -> None:
    """A table that names measurements is read as rows, whatever its size."""
    (tmp_path / "loss.csv").write_text(
        "step,loss\n" + "".join(f"{k * 100},{1 / (0.001 * k * 100 + 1) + 0.1}\n" for k in range(30))
    )
    row = fine_jobs()[0]
    del row["remaining_steps"]
    row |= {"loss.measurements": "loss.csv", "loss.steps_per_epoch": 100, "loss.delta": 0.001}
    path = put(tmp_path, "csv", HEAD, jobs=[row])
    faults, sha256, instance = outcome(path, 1)
    assert (faults, type(instance.jobs)) == ([], tuple)
    assert outcome(path, ENDLESS)[1] == sha256


def test_a_table_too_wide_for_columns_is_read_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns that would take more memory than their cells are not made."""
    monkeypatch.setattr("clusterplan.instances.files.columnar.MAX_CELLS", 100)
    faults, _, instance = outcome(put(tmp_path, "parquet", HEAD, jobs=fine_jobs()), 1)
    assert (faults, type(instance.jobs)) == ([], tuple)


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
    (folder / "d.yaml").write_text(yaml.safe_dump(HEAD | {"jobs": "t.parquet"}))
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
    table = pa.table(columns_of(fine_jobs()))
    expected = outcome(save_columns(tmp_path, table), many)[:2]
    assert expected[0] == []
    new = pa.table([retype(column) for column in table.columns], names=table.column_names)
    assert outcome(save_columns(tmp_path, new), many)[:2] == expected


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
    path = save_columns(tmp_path, pa.table(columns_of(fine_jobs())))
    for limit in ("MAX_ROWS", "MAX_COLUMNS", "MAX_CELLS", "MAX_TABLE_BYTES", "MAX_SMALL_CELLS"):
        module = "files.columns" if limit == "MAX_SMALL_CELLS" else "files.tables"
        with monkeypatch.context() as patch:
            patch.setattr(f"clusterplan.instances.{module}.{limit}", 5)
            (line,) = outcome(path, ENDLESS)[0]
            assert "split it" in line


def test_broken_parquet_files_are_plain_lines(tmp_path: Path) -> None:
    """Whatever bytes are cut off or changed, there are faults or an instance, and never anything else."""
    path = save_columns(tmp_path, pa.table(columns_of(fine_jobs())))
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
