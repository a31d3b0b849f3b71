"""The files that a document names: read beside or below it, and not quoted where they are something else."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING, put
from table_files import flat

import clusterplan
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.documents import load, load_catalogue, parse_instance
from clusterplan.instances.references import Folder, read_file, read_list
from clusterplan.planner.batch.comparison import compare
from clusterplan.planner.batch.solve_many import BatchOptions
from clusterplan.planner.batch.task import Task, execute
from clusterplan.planner.batch.worker_process import Answer
from clusterplan.solvers.common.result import SolveOptions

SECRET = "hunter2"  # noqa: S105 - of nobody
POINTS = "workers,ps,steps_per_s\n" + "".join(
    f"{w},{p},{w / (w + p)}\n" for w in range(1, 6) for p in (1, 2, 3)
)
MACHINE = {"name": "m", "price_usd_per_hour": 1, "vcpus": 1, "memory_gib": 4}
CATALOGUE = {"kind": "catalogue", "name": "c", "source": "s", "date": "2026-01-01", "types": [MACHINE]}


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Return rows as a CSV table."""
    cells = [flat(row) for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in cells for key in row)))
    writer.writeheader()
    writer.writerows(cells)
    return text.getvalue()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return the folder of a document, which is the working folder, and another one with a table of jobs."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "jobs.csv").write_text(as_csv(ALLOCATION["jobs"]))
    monkeypatch.chdir(inside)
    return inside, outside


def said(path: Path, **options: bool) -> str:
    """Return what is wrong with a document."""
    with pytest.raises(InstanceError) as caught:
        load(path, **options)
    return str(caught.value)


# Where files may lie


def test_tables_beside_and_below_a_document_are_read(folders: tuple[Path, Path]) -> None:
    """Also through links that stay inside, ways up and down again, and from any working folder."""
    inside, outside = folders
    text = (outside / "jobs.csv").read_text()
    put(inside / "jobs.csv", text)
    (inside / "deep" / "er").mkdir(parents=True)
    put(inside / "deep" / "er" / "jobs.csv", text)
    (inside / "link.csv").symlink_to("deep/er/jobs.csv")
    whole = load(put(inside / "whole.json", ALLOCATION)).sha256()
    for reference in (
        "jobs.csv",
        "./jobs.csv",
        "deep/er/jobs.csv",
        "link.csv",
        "deep/../jobs.csv",
        str(inside / "jobs.csv"),
        "../inside/jobs.csv",
    ):
        path = put(inside / "d.json", {**ALLOCATION, "jobs": reference})
        assert load(path).sha256() == whole
        assert load("d.json").sha256() == whole
        os.chdir(inside.parent)
        assert load("inside/d.json").sha256() == whole
        os.chdir(inside)


def test_a_folder_that_is_a_link_is_the_folder(folders: tuple[Path, Path]) -> None:
    """A document may be named through a link to its folder."""
    inside, outside = folders
    put(inside / "jobs.csv", (outside / "jobs.csv").read_text())
    put(inside / "d.json", {**ALLOCATION, "jobs": "jobs.csv"})
    (inside.parent / "elsewhere").symlink_to(inside)
    assert len(load(inside.parent / "elsewhere" / "d.json").sha256()) == 64


@pytest.mark.parametrize("how", ["up", "absolute", "link", "link to a folder"])
def test_tables_elsewhere_need_leave(folders: tuple[Path, Path], how: str) -> None:
    """Links and `..` are followed before a file is looked at."""
    inside, outside = folders
    (inside / "link.csv").symlink_to(outside / "jobs.csv")
    (inside / "folder").symlink_to(outside)
    reference = {
        "up": "../outside/jobs.csv",
        "absolute": str(outside / "jobs.csv"),
        "link": "link.csv",
        "link to a folder": "folder/jobs.csv",
    }[how]
    path = put(inside / "d.json", {**ALLOCATION, "jobs": reference})
    assert f"jobs: {reference}: lies outside the folder of the document" in said(path)
    assert "--allow-outside" in said(path)
    assert load(path, allow_outside=True).sha256() == load(put(inside / "whole.json", ALLOCATION)).sha256()


def test_every_sort_of_reference_is_held_to_the_folder(folders: tuple[Path, Path]) -> None:
    """Lists of all kinds, catalogues and their tables, and measurements."""
    inside, outside = folders
    put(outside / "servers.csv", as_csv(CONSOLIDATION["servers"]))
    put(outside / "layers.csv", as_csv(STAGING["layers"]))
    put(outside / "types.csv", as_csv(STAGING["types"]))
    put(outside / "catalogue.json", CATALOGUE)
    put(outside / "machines.csv", as_csv([MACHINE]))
    put(outside / "speed.csv", POINTS)
    put(outside / "loss.csv", "step,loss\n" + "".join(f"{k * 100},{1 / (0.1 * k + 1)}\n" for k in range(30)))
    job = ALLOCATION["jobs"][0]
    measured = {**job["variants"][0], "speed": {"model": "ps_async", "measurements": "../outside/speed.csv"}}
    loss = {key: value for key, value in job.items() if key != "remaining_steps"}
    loss["loss"] = {"measurements": "../outside/loss.csv", "steps_per_epoch": 100, "delta": 0.001}
    put(inside / "catalogue.json", {**CATALOGUE, "types": "../outside/machines.csv"})
    for document in (
        {**CONSOLIDATION, "servers": "../outside/servers.csv"},
        {**STAGING, "layers": "../outside/layers.csv"},
        {**STAGING, "types": "../outside/types.csv"},
        {**STAGING, "catalogue": "../outside/catalogue.json"},
        {**STAGING, "catalogue": "catalogue.json"},
        {**ALLOCATION, "jobs": [{**job, "variants": [measured]}]},
        {**ALLOCATION, "jobs": [loss]},
    ):
        path = put(inside / "d.json", document)
        assert "lies outside the folder of the document" in said(path)
        assert len(load(path, allow_outside=True).sha256()) == 64
        with pytest.raises(InstanceError, match="lies outside the folder"):
            parse_instance(document)
        assert len(parse_instance(document, allow_outside=True).sha256()) == 64
    with pytest.raises(InstanceError, match="lies outside the folder"):
        load_catalogue(inside / "catalogue.json")
    assert load_catalogue(inside / "catalogue.json", allow_outside=True).types[0].name == "m"


def test_bundled_files_need_no_leave(folders: tuple[Path, Path]) -> None:
    """They are named, and lie nowhere near the document."""
    document = {
        **STAGING,
        "catalogue": "catalogue:heterps",
        "types": [{"name": "V100", "hardware": load_catalogue("catalogue:heterps").types[0].name}],
    }
    document["layers"] = [{"name": "a", "compute_s": {"V100": 1}, "compute_parallel": 0.5}]
    assert len(load(put(folders[0] / "d.json", document)).sha256()) == 64
    assert len(load("example:opt-350-three-gpus").sha256()) == 64


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("https://example.org/jobs.csv", "is an address; only files are read"),
        ("file:///etc/passwd", "is an address; only files are read"),
        ("s3://bucket/jobs.parquet", "is an address; only files are read"),
        ("/etc/passwd", "lies outside the folder"),
        ("loop.csv", "cannot be read"),
        ("a\0b.csv", "cannot be read"),
        ("", "is empty"),
        ("folder", "is a folder; give a file"),
        ("jobs", "has the ending ''"),
        ("nope.csv", "there is no such file"),
    ],
)
def test_what_is_no_path_of_a_table_is_one_line(
    folders: tuple[Path, Path], reference: str, expected: str
) -> None:
    """Addresses, loops of links, folders, and names that no file can have."""
    inside, _ = folders
    (inside / "loop.csv").symlink_to("loop.csv")
    (inside / "folder").mkdir()
    put(inside / "jobs", "x")
    text = said(put(inside / "d.json", {**ALLOCATION, "jobs": reference}))
    assert expected in text
    assert "\n" not in text


# What is said of files that are something else

SECRETS = {
    "passwd.csv": f"root:x:0:0:{SECRET}:/root:/bin/bash\nuser:x:1:1:{SECRET}:/home:/bin/sh\n",
    "many.csv": f"root:{SECRET}\n" * 6_000,
    "clash.csv": f"{SECRET},{SECRET}.b\n1,2\n",
    "twice.csv": f"{SECRET},{SECRET}\n1,2\n",
    "ragged.csv": f"{SECRET},b\n{SECRET}\n",
    "quoted.csv": f'{SECRET}\n"{SECRET}"{SECRET}\n',
    "open.csv": f'"{SECRET}\n',
    "key.yaml": f"password: {SECRET}\n",
    "list.yaml": f"- {SECRET}\n- {SECRET}\n",
    "mappings.yaml": f"- {{user: {SECRET}}}\n- {{{SECRET}: 1}}\n",
    "deep.yaml": f"jobs: {SECRET}\n",
    "text.yaml": f"{SECRET}\n",
    "twice.yaml": f"{SECRET}: 1\n{SECRET}: 2\n",
    "alias.yaml": f"a: *{SECRET}\n",
    "tag.yaml": f"a: !{SECRET} 1\n",
    "broken.yaml": f"{SECRET}: [\n",
    "key.json": json.dumps({"password": SECRET, SECRET: 1}),
    "list.json": json.dumps([SECRET]),
    "twice.json": f'{{"{SECRET}": 1, "{SECRET}": 2}}',
    "broken.json": f'{{"{SECRET}": {SECRET}',
    "text.parquet": SECRET * 100,
}


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("name", SECRETS)
def test_a_file_that_is_no_list_is_not_quoted(folders: tuple[Path, Path], name: str, many: bool) -> None:
    """The fault says which file, and where in it; a key, header or value of it is never told."""
    inside, outside = folders
    text = SECRETS[name] * (1 if not many or "clash" in name else 3_000)
    (inside / name).symlink_to(put(outside / name, text))
    job = ALLOCATION["jobs"][0]
    measured = {**job["variants"][0], "speed": {"model": "ps_async", "measurements": name}}
    for document in (
        {**ALLOCATION, "jobs": name},
        {**CONSOLIDATION, "servers": name},
        {**STAGING, "types": name, "layers": name},
        {**STAGING, "catalogue": name},
        {**ALLOCATION, "jobs": [{**job, "variants": [measured]}]},
    ):
        path = put(inside / "d.json", document)
        for options in ({}, {"allow_outside": True}):
            found = said(path, **options)
            assert SECRET not in found, found
            assert name in found


def test_a_table_of_jobs_is_quoted_where_that_helps(folders: tuple[Path, Path]) -> None:
    """What has names is a list that somebody means to be read; its misspelt columns are named."""
    inside, outside = folders
    put(inside / "jobs.csv", (outside / "jobs.csv").read_text().replace("remaining_steps", "remaining_step"))
    text = said(put(inside / "d.json", {**ALLOCATION, "jobs": "jobs.csv"}))
    assert "line 1: column remaining_step: unknown key; did you mean 'remaining_steps'?" in text


# How leave is given


@pytest.fixture
def outside(folders: tuple[Path, Path]) -> str:
    """Return a document whose jobs lie elsewhere."""
    put(folders[0] / "whole.json", {**ALLOCATION, "name": "d"})
    return str(put(folders[0] / "d.json", {**ALLOCATION, "name": "d", "jobs": "../outside/jobs.csv"}))


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "d.json"],
        ["solve", "d.json"],
        ["verify", "d.json", "r.json"],
        ["report", "d.json", "r.json", "--output", "r.html"],
        ["export-plan", "d.json", "r.json"],
        ["export-model", "d.json"],
        ["pareto", "d.json", "--price", "gpu=1", "--price", "cpu=1", "--time-limit", "5"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("outside")
def test_every_command_that_reads_an_instance_takes_allow_outside(words: list[str]) -> None:
    """Also where a process of its own reads it."""
    run_here("solve", "whole.json", "--output", "r.json")
    code, out, err = run_here(*words)
    assert code in (2, 3)
    assert "lies outside the folder of the document" in out + err
    code, out, err = run_here(*words, "--allow-outside")
    assert code == 0, out + err
    assert "lies outside" not in out + err


@pytest.mark.usefixtures("outside")
def test_a_batch_takes_allow_outside() -> None:
    """Processes of its own read the instances; an older one may be in another folder."""
    words = ["--solver", "marginal-gain", "--jobs", "1", "--allow-outside"]
    code, out, err = run_here("solve", Path("d.json").absolute(), *words)
    assert code == 0, out + err


def test_a_comparison_hands_the_leave_on(outside: str) -> None:
    """Where kinds are found out, and where is solved."""
    options = SolveOptions(time_limit_s=20)
    found = compare([outside], ["marginal-gain"], options, BatchOptions(allow_outside=True))
    assert len(found.rows) == 1


def test_a_task_says_whether_files_may_lie_elsewhere(outside: str) -> None:
    """Here and where Dask sends instances: both read by the same function."""
    task = Task("d", outside, None, SolveOptions())
    assert "lies outside the folder" in (execute(task, lambda *_: None).fault or "")
    with pytest.raises(InstanceError, match="lies outside the folder"):
        task.read()
    leave = Task("d", outside, None, SolveOptions(), allow_outside=True)
    answer: Answer = execute(leave, lambda *_: None)
    assert answer.head is not None
    assert answer.head.sha256 == leave.read().sha256()
    assert Task("d", leave.read(), None, SolveOptions()).read() is not None


def test_a_dask_cluster_hands_the_leave_on(outside: str) -> None:
    """Instances are read before they are sent."""
    pytest.importorskip("distributed")
    from clusterplan.planner.batch.engines import DaskEngine

    engine = object.__new__(DaskEngine)
    engine.jobs, engine._sent = 1, {}
    refused = engine._send(Task("d", outside, None, SolveOptions()), None)
    assert refused is not None
    assert "lies outside the folder" in (refused[1].fault or "")
    answered = engine._send(Task("d", outside, None, SolveOptions(), allow_outside=True), None)
    assert answered is not None
    assert answered[1].head is not None
    assert not deque(engine._sent)
    assert clusterplan.load(outside, allow_outside=True).name == "d"


def test_a_list_is_read_from_a_folder(tmp_path: Path) -> None:
    """A file may be the list or hold it under its key; nothing else is quoted."""
    (tmp_path / "list.json").write_text('[{"name": "a"}]')
    (tmp_path / "under.json").write_text('{"jobs": [{"name": "a"}]}')
    (tmp_path / "t.csv").write_text("name\na\n")
    (tmp_path / "other.json").write_text('{"secret": 1}')
    folder = Folder(tmp_path)
    for name in ("list.json", "under.json", "t.csv"):
        assert read_list(folder, name, "jobs", "doc") == [{"name": "a"}]
    with pytest.raises(InstanceError, match="is not a list of jobs") as refused:
        read_list(folder, "other.json", "jobs", "doc")
    assert "secret" not in str(refused.value)
    with pytest.raises(InstanceError, match="has the ending"):
        read_file(tmp_path / "x.txt" if (tmp_path / "x.txt").write_text("a") else tmp_path, "doc")


def test_a_folder_holds_what_lies_below_it(tmp_path: Path) -> None:
    """Unless files elsewhere are allowed; an address is no file."""
    assert Folder(tmp_path).file("a/../b.csv", "doc") == (tmp_path / "b.csv").resolve()
    with pytest.raises(InstanceError, match="lies outside"):
        Folder(tmp_path).file("../b.csv", "doc")
    assert Folder(tmp_path, allow_outside=True).file("../b.csv", "doc") == tmp_path / "../b.csv"
    with pytest.raises(InstanceError, match="is an address"):
        Folder(tmp_path, allow_outside=True).file("https://x/y.csv", "doc")
