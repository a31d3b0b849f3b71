"""Tables of all kinds: written and read again, row by row or in columns, they are one instance."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_instances import random_consolidation, variant_data
from sample_documents import ALLOCATION
from table_files import ENDLESS, FORMATS, clusterplan_command, fine_jobs, outcome, put

from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.column_table import ColumnTable
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.consolidation import kind as placement_tables
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.kind import MAX_CURRENT
from clusterplan.instances.documents import load, parse_instance, save
from clusterplan.instances.files import tables
from clusterplan.instances.registry import KINDS
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance

NAMES = ["=1+1", "'=x", "''=x", "+1", "-5", "@a", "'a", "a, b", 'say "a"', "nan", "null", "true", "ü λ", "7"]


def head(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a document of a kind with these fields."""
    return {"schema_version": 1, "kind": kind, "name": "d", **fields}


def random_jobs(seed: int) -> Instance:
    """Return jobs over every speed model, with one to three variants and every field."""
    rng = random.Random(seed)
    resources = ["cpu", "gpu", "memory_gib"]
    jobs = []
    for index in range(40):
        names = rng.sample(["a", "b", "=c", "d d", "'-e"], rng.randint(1, 3))
        job: dict[str, Any] = {
            "name": f"{rng.choice(NAMES)} {index}",
            "remaining_steps": rng.choice([rng.uniform(0.1, 1e6), 10 ** rng.uniform(-300, 15), 5]),
            "variants": [variant_data(rng, name, resources) for name in names],
        }
        for share, fields in (
            (0.5, {"weight": rng.choice([0, 2, rng.random()])}),
            (0.3, {"stage": "beginning", "restart_s": rng.uniform(0, 300)}),
            (0.3, {"optional": True, "unplaced_s": rng.choice([0, rng.uniform(10, 5000)])}),
            (0.3, {"current": {"variant": rng.choice(names), "ps": rng.randint(0, 2), "workers": 3}}),
            (0.3, {"deadline_s": rng.uniform(200, 5000)}),
        ):
            job |= fields if rng.random() < share else {}
        jobs.append(job)
    return parse_instance(head("allocation", resources=dict.fromkeys(resources, 300), jobs=jobs))


def random_trace(seed: int) -> Instance:
    """Return rigid or malleable jobs with every field."""
    there = generate_scheduling(30, 16, seed=seed, malleable=seed % 2 == 1)
    more: list[dict[str, Any]] = [{}, {"weight": 2, "model": "=m"}, {"deadline_s": 9e6, "restart_s": 1}]
    more += [{"step_s": 0.5, "estimate_s": 4}]
    more += [{"speed_by_servers": {1: 0.9, 3: 0.6}}, {"skew": 0.1}] if seed % 3 else []
    jobs = [job.model_dump(exclude_none=True) for job in there.jobs]
    return there.replace(jobs=[job | more[j % len(more)] for j, job in enumerate(jobs)])


MAKERS: list[tuple[Callable[[int], Instance], int, bool]] = [
    (random_jobs, 8, True),
    (random_trace, 6, False),  # malleable jobs are read row by row
    (random_consolidation, 60, False),
]


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize(("make", "seeds", "columns"), MAKERS)
def test_instances_survive_tables(
    tmp_path: Path,
    make: Callable[[int], Instance],
    seeds: int,
    columns: bool,
    ending: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everything that an instance can have is written, and read row by row or in columns."""
    monkeypatch.setattr(placement_tables, "LEAST_CLASS_SIZE", 0)
    for seed in range(seeds):
        original = make(seed)
        save(original, tmp_path / "x.yaml", ending)
        for many in (1, ENDLESS):
            faults, sha256, again = outcome(tmp_path / "x.yaml", many)
            assert (faults, sha256) == ([], original.sha256())
            assert again.to_frame().equals(original.to_frame())
            if isinstance(original, AllocationInstance | SchedulingInstance):
                assert isinstance(again.jobs, ColumnTable) or not (columns and many == 1)
                assert tuple(again.table()) == tuple(original.table())
    written = [key for key in KINDS[original.kind].lists if getattr(original, key)]
    assert len(list(tmp_path.iterdir())) == 1 + len(written)


LARGE: list[tuple[Instance, list[str]]] = [
    (generate_allocation(40, 4, optional_share=0.2, seed=3), ["jobs"]),
    (generate_scheduling(40, 8), ["jobs"]),
    (generate_consolidation(10, 40, resources=3, shapes=2, seed=3), ["jobs", "servers"]),
]


@pytest.mark.parametrize(("instance", "lists"), LARGE)
def test_long_lists_are_saved_in_tables(
    tmp_path: Path, instance: Instance, lists: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the threshold on tables are the default, and no row of jobs becomes an object."""
    for many, expected in ((41, []), (40, lists)):
        for module in ("files.tables", "documents"):
            monkeypatch.setattr(f"clusterplan.instances.{module}.MANY_ROWS", many)
        save(instance, tmp_path / "x.yaml")
        assert sorted(path.stem for path in tmp_path.glob("x-*.parquet")) == [f"x-{key}" for key in expected]
    if "servers" not in lists:
        monkeypatch.setattr(tables.Columns, "rows", None)
    assert load(tmp_path / "x.yaml").sha256() == instance.sha256()


SERVER = {"name": "n", "capacity": {"gpu": 4}}
JOB = {"name": "j", "tasks": 1, "task_demand": {"gpu": 1}}
TRAINING = ALLOCATION["jobs"][1]
"""On a table of speeds."""
MALLEABLE = {"name": "a", "work": 1, "variants": TRAINING["variants"]}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (head("allocation", resources={"gpu": 1, "a.b": 9}, jobs=[TRAINING]), r"x\.yaml: .* with a dot"),
        (
            head("scheduling", resources={"gpu": 1, "0": 9}, jobs=[MALLEABLE]),
            r"x\.yaml: .* number for a name",
        ),
        (head("scheduling", resources={"gpu": 1}, jobs=[MALLEABLE]), "cannot hold the variants of malleable"),
        (
            head("consolidation", servers=[{**SERVER, "capacity": {"gpu": 4, " a": 1}}], jobs=[JOB]),
            r"x\.yaml: .* blank",
        ),
        (head("consolidation", servers=[SERVER], jobs=[JOB | {"task_demand": {}}]), "empty mapping"),
        (
            head("consolidation", servers=[SERVER | {"name": "s.0"}], jobs=[JOB | {"current": {"s.0": 1}}]),
            f"more than {MAX_CURRENT:,} servers .* ask for no table",
        ),
    ],
)
def test_what_a_table_cannot_hold_stays_in_the_document(
    tmp_path: Path, document: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless a table is asked for, which is refused."""
    instance = parse_instance(document)
    for module in ("files.tables", "documents"):
        monkeypatch.setattr(f"clusterplan.instances.{module}.MANY_ROWS", 1)
    save(instance, tmp_path / "x.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["x.yaml"]
    assert load(tmp_path / "x.yaml").sha256() == instance.sha256()
    with pytest.raises(OptionError, match=words):
        save(instance, tmp_path / "x.yaml", "csv")


def test_a_table_has_a_place(tmp_path: Path) -> None:
    """A blank at the end of a name is lost in CSV, and a folder has to be there."""
    instance = parse_instance(head("allocation", resources={"gpu": 1}, jobs=[TRAINING | {"name": " a"}]))
    save(instance, tmp_path / "x.yaml", "parquet")
    assert load(tmp_path / "x.yaml").sha256() == instance.sha256()
    with pytest.raises(OptionError, match="blank"):
        save(instance, tmp_path / "x.yaml", "csv")
    with pytest.raises(InstanceError, match="cannot be written"):
        save(instance, tmp_path / "nowhere" / "x.yaml", "parquet")
    with pytest.raises(OptionError, match="only instances of allocation and of consolidation"):
        save(load("example:heterps-ctr"), tmp_path / "x.yaml", "csv")


GENERATED: list[tuple[list[str], Instance, str]] = [
    (["allocation"], generate_allocation(6000, seed=3), "allocation, 3 resources, 6000 jobs"),
    (
        ["consolidation", "--servers", "900", "--load", "1.3", "--resources", "3", "--shapes", "4"],
        generate_consolidation(900, 6000, load=1.3, seed=3, resources=3, shapes=4),
        "consolidation, 900 servers, 6000 jobs",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize(("words", "instance", "said"), GENERATED)
def test_many_generated_jobs_go_into_a_table(
    tmp_path: Path, words: list[str], instance: Instance, said: str, ending: str
) -> None:
    """The command writes what the library makes, and needs a place for it."""
    command = ["generate", *words, "--jobs", "6000", "--seed", "3"]
    table = ["--table", "csv"] if ending == "csv" else []
    made = clusterplan_command(tmp_path, *command, *table, "--output", "x.yaml")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / f"x-jobs.{ending}").exists()
    assert clusterplan_command(tmp_path, "validate", "x.yaml").stdout == f"x.yaml: {said}; fine\n"
    assert load(tmp_path / "x.yaml").sha256() == instance.sha256()


@pytest.mark.parametrize("words", [["--jobs", "6000"], ["--jobs", "6", "--table", "csv"]])
def test_a_table_needs_a_file_beside_it(tmp_path: Path, words: list[str]) -> None:
    """Without a file to write beside, the command says what to add."""
    run = clusterplan_command(tmp_path, "generate", "allocation", *words)
    assert (run.returncode, run.stdout, len(run.stderr.splitlines())) == (2, "", 1)
    assert "--output FILE" in run.stderr


CELLS = [None, "", 0, 1, -1, 2, 1.5, 1e15, 1e16, float("nan"), float("inf"), "x", "v", "x0", "x1", "gpu"]
CELLS += ["table", "ps_sync", "ring_allreduce", "required", "from_skew", "true", True, False, "1", "+1", "1."]
CELLS += ["1e2", " 1 ", "'=v", "=v", "nan", "-inf", "٣", "a\nb", 'a"b', "1,5", "a" * 300]


SERVERS = [
    {"name": f"x{n}", "capacity.gpu": 8, "capacity.cpu": 64, "free.gpu": 4, "rack": "r0", "gpu_model": "v100"}
    for n in range(10)
]
PLACED = [
    {
        "name": f"x{n}",
        "tasks": 2,
        "task_demand.gpu": 1,
        "task_demand.cpu": 4,
        "spread": "required",
        "value": 2.5,
    }
    if n % 2
    else {
        **{"name": f"x{n}", "groups.0.name": "ps", "groups.0.tasks": 1, "groups.0.demand.cpu": 2},
        **{"spread": "from_skew", "skew": 0.4},
    }
    for n in range(10)
]
TABLES: list[tuple[dict[str, Any], dict[str, list[dict[str, Any]]], list[str]]] = [
    (
        head("allocation", resources={"gpu": 40, "cpu": 300, "memory_gib": 500}),
        {"jobs": fine_jobs()},
        [
            *(
                "variants.0.worker_demand.tpu",
                "variants.0.worker_demand.1",
                "variants.0.ps_demand.memory_gib",
            ),
            *("variants.3.name", "variants.01.name", "variants.0.speed.theta.5", "current.x", "current", "x"),
        ],
    ),
    (
        head("consolidation"),
        {"servers": SERVERS, "jobs": PLACED},
        [
            *("count", "free.tpu", "traffic_gbit_per_s", "task_demand.tpu", "must_place", "current", "other"),
            *("groups.1.name", "current.x1", "speed_by_servers.2", "hardware", "9"),
        ],
    ),
]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize(("document", "lists", "more"), TABLES)
@given(data=st.data(), ending=st.sampled_from(FORMATS))
def test_any_cells_are_judged_alike(
    tmp_path: Path,
    document: dict[str, Any],
    lists: dict[str, list[dict[str, Any]]],
    more: list[str],
    data: st.DataObject,
    ending: str,
) -> None:
    """Whatever stands in a table, columns and rows come to the same instance or the same faults."""
    names = sorted({name for rows in lists.values() for row in rows for name in row} | set(more))
    lists = {key: [dict(row) for row in rows] for key, rows in lists.items()}
    for _ in range(data.draw(st.integers(1, 4))):
        row = data.draw(st.sampled_from([row for rows in lists.values() for row in rows]))
        row[data.draw(st.sampled_from(names))] = data.draw(st.sampled_from(CELLS))
    path = put(tmp_path, ending, document, **lists)
    assert outcome(path, 1)[:2] == outcome(path, ENDLESS)[:2]


@pytest.mark.parametrize("ending", FORMATS)
def test_servers_and_jobs_that_are_alike_share_their_parts(tmp_path: Path, ending: str) -> None:
    """One row of each class is validated, and the instance is that of all rows."""
    path = put(tmp_path, ending, head("consolidation"), servers=SERVERS, jobs=PLACED)
    (_, sha256, shared), (_, expected, single) = outcome(path, 1), outcome(path, ENDLESS)
    assert sha256 == expected
    assert [len({id(server.capacity) for server in each.servers}) for each in (shared, single)] == [1, 10]


def test_hardware_of_a_table_comes_from_the_catalogue(tmp_path: Path) -> None:
    """Rows that name hardware have its capacity, however many they are."""
    document = head("consolidation", catalogue="catalogue:aws-us-east-1", jobs=[JOB])
    servers = [{"name": f"n{n}", "hardware": "p4d.24xlarge"} for n in range(10)]
    path = put(tmp_path, "csv", document, servers=servers)
    faults, sha256, _ = outcome(path, 1)
    assert not faults
    assert outcome(path, ENDLESS)[1] == sha256


def test_placements_on_unknown_servers_are_named() -> None:
    """A job that runs on a server that is not there is refused, and the first twelve servers are listed."""
    document = head(
        "consolidation", servers=[SERVER | {"count": 20}], jobs=[JOB | {"tasks": 2, "current": {"m": 3}}]
    )
    with pytest.raises(InstanceError) as caught:
        parse_instance(document)
    known = ", ".join(f"n-{k}" for k in range(12))
    assert [str(fault) for fault in caught.value.faults] == [
        f"document: jobs[0].current.m: unknown server 'm'; the servers are: {known}, …",
        "document: jobs[0].current: holds 3 tasks, but the group has only 2",
    ]
