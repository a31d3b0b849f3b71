"""Servers and placement jobs in tables: read sort by sort, they mean what they mean row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_instances import random_consolidation
from table_files import ENDLESS, FORMATS, clusterplan_command, flat, write_table

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.consolidation import tables as placement_tables
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.consolidation.tables import MAX_CURRENT, why_no_table
from clusterplan.instances.documents import load, parse_instance, save
from clusterplan.instances.files import tables

SERVER = {"capacity": {"gpu": 8, "cpu": 64}, "free": {"gpu": 4}, "rack": "r0", "gpu_model": "v100"}
JOB = {"tasks": 2, "task_demand": {"gpu": 1, "cpu": 4}, "spread": "required", "value": 2.5}
GROUPS = {"groups": [{"name": "ps", "tasks": 1, "demand": {"cpu": 2}}], "spread": "from_skew", "skew": 0.4}


def rows_of(*sorts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return five rows of each sort, with names of their own."""
    return [{"name": f"x{n}", **sorts[n % len(sorts)]} for n in range(5 * len(sorts))]


def put(folder: Path, ending: str, servers: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> Path:
    """Write a document whose servers and jobs are tables; return its path."""
    write_table(folder / f"s.{ending}", [flat(row) for row in servers])
    write_table(folder / f"j.{ending}", [flat(row) for row in jobs])
    document = {"schema_version": 1, "kind": "consolidation", "name": "t"}
    path = folder / "d.yaml"
    path.write_text(yaml.safe_dump({**document, "servers": f"s.{ending}", "jobs": f"j.{ending}"}))
    return path


def outcome(path: Path, many: int) -> tuple[list[str], str, bool]:
    """Return faults or hash of a document, with columns from `many` rows on, and whether rows share parts."""
    before, tables.MANY_ROWS = tables.MANY_ROWS, many
    try:
        instance = load(path)
    except InstanceError as error:
        return [str(fault) for fault in error.faults], "", False
    finally:
        tables.MANY_ROWS = before
    assert isinstance(instance, ConsolidationInstance)
    shared = len({id(server.capacity) for server in instance.servers}) < len(instance.servers)
    return [], instance.sha256(), shared


@pytest.mark.parametrize("ending", FORMATS)
def test_rows_that_are_alike_are_one_instance(tmp_path: Path, ending: str) -> None:
    """Sorts are shared, and the instance has the hash of the one that is read row by row."""
    path = put(tmp_path, ending, rows_of(SERVER, {"capacity": {"gpu": 8}}), rows_of(JOB, GROUPS))
    faults, sha256, shared = outcome(path, 1)
    assert not faults
    assert shared
    assert outcome(path, ENDLESS) == ([], sha256, False)


def one_type_a_column(rows: list[dict[str, Any]]) -> None:
    """Turn columns that hold texts or truth values beside other cells into columns of text."""
    for column in {name for row in rows for name in row}:
        kinds = {type(row[column]) for row in rows if row.get(column) is not None}
        if len(kinds) > 1 and kinds != {int, float}:
            for row in rows:
                row[column] = None if row.get(column) is None else str(row[column])


CELLS = [None, "", 1, 0, 2.5, -1, 1e99, "x0", "x1", "gpu", "required", "from_skew", "true", True, "a" * 300]
COLUMNS = ["name", "count", "capacity.gpu", "free.gpu", "free.tpu", "rack", "gpu_model", "traffic_gbit_per_s"]
COLUMNS += ["tasks", "task_demand.gpu", "task_demand.tpu", "value", "must_place", "spread", "skew", "current"]
COLUMNS += ["groups.0.tasks", "groups.1.name", "current.x1", "speed_by_servers.2", "hardware", "other", "9"]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(
        st.tuples(st.booleans(), st.integers(0, 9), st.sampled_from(COLUMNS), st.sampled_from(CELLS)),
        min_size=1,
        max_size=3,
    ),
    ending=st.sampled_from(FORMATS),
)
def test_any_cells_are_judged_alike(
    tmp_path: Path, changes: list[tuple[bool, int, str, Any]], ending: str
) -> None:
    """Whatever stands in a cell, sorts and rows come to the same instance or the same faults."""
    listed = [flat(row) for row in rows_of(SERVER, SERVER)], [flat(row) for row in rows_of(JOB, GROUPS)]
    for jobs, row, column, cell in changes:
        listed[jobs][row][column] = cell
    for rows in listed if ending == "parquet" else ():
        one_type_a_column(rows)
    path = put(tmp_path, ending, *listed)
    assert outcome(path, 1)[:2] == outcome(path, ENDLESS)[:2]


@pytest.mark.parametrize("ending", FORMATS)
def test_instances_survive_tables(tmp_path: Path, ending: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that an instance can have is written to tables and read again, row by row or in sorts."""
    for seed in range(60):
        original = random_consolidation(seed)
        save(original, tmp_path / "x.yaml", ending)
        assert load(tmp_path / "x.yaml").sha256() == original.sha256()
        with monkeypatch.context() as large:
            large.setattr(tables, "MANY_ROWS", 1)
            large.setattr(placement_tables, "LEAST_CLASS_SIZE", 0)
            assert load(tmp_path / "x.yaml").sha256() == original.sha256()


def test_an_empty_mapping_is_no_row_of_a_table(tmp_path: Path) -> None:
    """A task that asks for nothing leaves no cell, so the table is refused."""
    nothing = {"name": "j", "tasks": 1, "task_demand": {}}
    base = {"schema_version": 1, "kind": "consolidation", "name": "e", "servers": [{"name": "n", **SERVER}]}
    with pytest.raises(OptionError, match="empty mapping"):
        save(parse_instance({**base, "jobs": [nothing]}), tmp_path / "x.yaml", "csv")


def test_many_rows_are_saved_in_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the threshold on tables are the default; what they cannot hold stays in the document."""
    monkeypatch.setattr(tables, "MANY_ROWS", 40)
    instance = generate_consolidation(10, 40, resources=3, shapes=2, seed=3)
    save(instance, tmp_path / "x.yaml")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "x-jobs.parquet",
        "x-servers.parquet",
        "x.yaml",
    ]
    assert load(tmp_path / "x.yaml").sha256() == instance.sha256()
    save(generate_consolidation(10, 39), tmp_path / "y.yaml")
    assert not (tmp_path / "y-jobs.parquet").exists()
    data = instance.model_dump(mode="json", exclude_none=True)
    data["servers"][0]["name"] = "a.b"
    data["jobs"][0]["current"] = {"a.b": 1}
    dotted = parse_instance(data)
    save(dotted, tmp_path / "z.yaml")
    assert not (tmp_path / "z-jobs.parquet").exists()
    assert load(tmp_path / "z.yaml").sha256() == dotted.sha256()
    with pytest.raises(OptionError, match="ask for no table"):
        save(dotted, tmp_path / "z.yaml", "csv")


@pytest.mark.slow
@pytest.mark.parametrize("ending", FORMATS)
def test_generated_servers_and_jobs_go_into_tables(tmp_path: Path, ending: str) -> None:
    """The command writes tables that validate with the same numbers."""
    words = ["generate", "consolidation", "--servers", "900", "--jobs", "6000", "--seed", "3"]
    words += ["--load", "1.3", "--resources", "3", "--shapes", "4", "--output", "x.yaml"]
    words += ["--table", ending] if ending == "csv" else []
    made = clusterplan_command(tmp_path, *words)
    assert made.returncode == 0, made.stderr
    checked = clusterplan_command(tmp_path, "validate", "x.yaml")
    assert checked.stdout == "x.yaml: consolidation, 900 servers, 6000 jobs; fine\n"
    expected = generate_consolidation(900, 6000, load=1.3, seed=3, resources=3, shapes=4)
    assert load(tmp_path / "x.yaml").sha256() == expected.sha256()
    refused = clusterplan_command(tmp_path, *words[: -2 - 2 * (ending == "csv")])
    assert refused.returncode != 0
    assert "--output" in refused.stderr


def test_hardware_of_a_table_comes_from_the_catalogue(tmp_path: Path) -> None:
    """Rows that name hardware have its capacity, however many they are."""
    write_table(tmp_path / "s.csv", [{"name": f"n{n}", "hardware": "p4d.24xlarge"} for n in range(10)])
    data = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "h",
        "catalogue": "catalogue:aws-us-east-1",
        "servers": "s.csv",
        "jobs": [{"name": "j", **JOB}],
    }
    (tmp_path / "d.yaml").write_text(yaml.safe_dump(data))
    faults, sha256, _ = outcome(tmp_path / "d.yaml", 1)
    assert not faults
    assert outcome(tmp_path / "d.yaml", ENDLESS)[1] == sha256


def test_placements_on_unknown_servers_are_named() -> None:
    """A job that runs on a server that is not there is refused, and the first twelve servers are listed."""
    with pytest.raises(InstanceError) as caught:
        parse_instance(
            {
                "schema_version": 1,
                "kind": "consolidation",
                "name": "u",
                "servers": [{"name": "n", "count": 20, "capacity": {"gpu": 4}}],
                "jobs": [{"name": "j", "tasks": 2, "task_demand": {"gpu": 1}, "current": {"m": 3}}],
            }
        )
    first, second = map(str, caught.value.faults)
    known = ", ".join(f"n-{k}" for k in range(12))
    assert first == f"document: jobs[0].current.m: unknown server 'm'; the servers are: {known}, …"
    assert second == "document: jobs[0].current: holds 3 tasks, but the group has only 2"


def test_what_keeps_rows_from_a_table() -> None:
    """Empty mappings leave no cell, and dots in names lead into fields."""
    base = {"schema_version": 1, "kind": "consolidation", "name": "t"}
    server, job = {"name": "s", "capacity": {"gpu": 4}}, {"name": "j", "tasks": 1, "task_demand": {"gpu": 1}}

    def why(server: dict[str, Any], job: dict[str, Any]) -> str | None:
        instance = parse_instance({**base, "servers": [server], "jobs": [job]})
        assert isinstance(instance, ConsolidationInstance)
        return why_no_table(instance)

    assert why(server, job) is None
    assert "empty mapping" in str(why(server, job | {"task_demand": {}}))
    dotted = server | {"capacity": {"gpu": 4, "a.b": 1}}
    assert "name with a dot" in str(why(dotted, job))
    assert f"more than {MAX_CURRENT:,} servers" in str(
        why(server | {"name": "s.0"}, job | {"current": {"s.0": 1}})
    )
