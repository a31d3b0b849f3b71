"""Tasks of a batch on this machine and on Dask: every one is answered, whatever becomes of its process.

The cluster of Dask is a real one of this machine's processes, in which a worker is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import all_end, descendants, is_running
from sample_documents import STAGING, put

import clusterplan
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.planner.batch import engines
from clusterplan.planner.batch.comparison import compare
from clusterplan.planner.batch.engines import LocalEngine, start_early
from clusterplan.planner.batch.solve_many import BatchOptions, solve_many
from clusterplan.planner.batch.task import Task
from clusterplan.planner.exit_codes import FAILED
from clusterplan.solvers.common.result import SolveOptions

pytestmark = [
    # Of Dask's own threads and sockets, which it leaves to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


INSTANCE = clusterplan.parse_instance(STAGING)


def tasks(*labels: str) -> deque[Task]:
    """Return tasks that only read the instance."""
    return deque(Task(label, INSTANCE, None, SolveOptions()) for label in labels)


def test_every_task_is_answered_and_nothing_is_left_running() -> None:
    with closing(LocalEngine(2)) as engine:
        done = list(engine.run(tasks("a", "b", "c")))
        supervisor = engine._running_supervisor().process.pid
        started = descendants(supervisor)
        assert started
    assert sorted(task.label for task, _, _ in done) == ["a", "b", "c"]
    assert {answer.head and answer.head.sha256 for _, answer, _ in done} == {INSTANCE.sha256()}
    assert all(seconds > 0 for _, _, seconds in done)
    assert all_end({supervisor, *started})


def test_tasks_of_a_watcher_that_is_killed_are_failures_and_the_next_has_another() -> None:
    with closing(LocalEngine(1)) as engine:
        first = engine._running_supervisor()
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
        ((_, answer, _),) = engine.run(tasks("a"))
        assert answer.code == FAILED
        assert answer.ended == "the process that watched it was ended from outside, with exit code -9"
        ((_, answer, _),) = engine.run(tasks("a"))
        assert answer.head is not None


def test_a_watcher_that_was_started_early_is_the_one_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    ready: list[engines.Supervisor] = []
    monkeypatch.setattr(engines, "_ready", ready)
    start_early()
    start_early()
    (supervisor,) = ready
    with closing(LocalEngine(1)) as engine:
        assert engine._running_supervisor() is supervisor
    assert not ready
    assert not is_running(supervisor.process.pid)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Return a cluster of two workers, each a process with a nanny."""
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        ) as made:
            yield made


def some(count: int) -> list[clusterplan.Instance]:
    """Return small instances."""
    return [
        generate_allocation(12, seed=seed).model_copy(update={"name": f"small-{seed}"})
        for seed in range(count)
    ]


@pytest.mark.slow
def test_a_batch_survives_the_death_of_a_worker(cluster: Any, tmp_path: Path) -> None:
    """A worker is killed in the middle: every instance has its result, once, as on this machine."""
    instances = some(24)
    batch = BatchOptions(scheduler=cluster.scheduler_address, output=tmp_path)
    options = clusterplan.SolveOptions(seed=1)
    records = []
    for record in solve_many(instances, options=options, batch=batch):
        records.append(record)
        if len(records) == 5:
            victim = next(iter(cluster.workers.values())).process.pid
            os.kill(victim, signal.SIGKILL)
    assert sorted(record.source for record in records) == sorted(instance.name for instance in instances)
    for instance in instances:
        (result,) = [record.result for record in records if record.source == instance.name]
        assert result.objective == clusterplan.solve(instance, options=options).objective
        assert clusterplan.verify(instance, result).ok
    again = list(solve_many(instances, options=options, batch=BatchOptions(output=tmp_path, resume=True)))
    assert len(again) == 24
    assert len((tmp_path / "journal.jsonl").read_text().splitlines()) == 25


@pytest.mark.slow
def test_a_comparison_runs_on_the_cluster(cluster: Any) -> None:
    """With the same rows as here; hard limits hold on the workers too."""
    batch = BatchOptions(scheduler=cluster.scheduler_address, kill_after_s=3)
    options = clusterplan.SolveOptions(time_limit_s=60, seed=1)
    found = compare(
        ["example:optimus-testbed", "none.yaml"], ["exact", "brute-force", "marginal-gain"], options, batch
    )
    rows = {row.solver: row for row in found.rows}
    assert rows["exact"].status == "optimal"
    assert rows["marginal-gain"].gap_to_best_plan == pytest.approx(0.0939, abs=1e-3)
    assert rows["brute-force"].limit == "time"
    assert "killed after 3 s" in (rows["brute-force"].message or "")
    assert found.faults == ("none.yaml: there is no such file",)


@pytest.mark.slow
def test_traces_are_scheduled_on_the_cluster(cluster: Any, tmp_path: Path) -> None:
    """Rigid, malleable and on servers; the prices that prove a bound come back too."""
    document = {"schema_version": 1, "kind": "scheduling", "name": "servers"}
    servers = [{"name": "n", "count": 2, "capacity": {"gpu": 4}}]
    jobs = [
        {"name": f"j{k}", "arrival_s": k, "tasks": 1 + k, "demand": {"gpu": 1}, "duration_s": 50 - 9 * k}
        for k in range(5)
    ]
    file = put(tmp_path / "servers.json", {**document, "servers": servers, "jobs": jobs})
    rigid, malleable = generate_scheduling(20, 32, seed=3), generate_scheduling(8, 8, seed=3, malleable=True)
    batch = BatchOptions(scheduler=cluster.scheduler_address)
    options = clusterplan.SolveOptions(time_limit_s=120, seed=1)
    found = compare([file, rigid, malleable], ["srsf", "exact"], options, batch)
    assert not found.faults
    assert len(found.rows) == 6
    for row in found.rows:
        assert row.status in ("feasible", "optimal"), row.message
        assert row.bound <= row.objective * (1 + 1e-9)
    for record in solve_many([rigid], solver="exact", options=options, batch=batch):
        assert record.result is not None
        assert clusterplan.verify(rigid, record.result).ok


@pytest.mark.slow
def test_the_command_runs_on_the_cluster(cluster: Any) -> None:
    """`--engine dask --scheduler ADDRESS`."""
    words = ("--engine", "dask", "--scheduler", cluster.scheduler_address, "--format", "csv")
    command = [
        sys.executable,
        "-m",
        "clusterplan",
        "solve",
        "example:heterps-ctr",
        "example:tiresias-testbed",
    ]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its address."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    monkeypatch.setattr("clusterplan.planner.batch.engines.CONNECT_S", 1)
    with pytest.raises(OptionError, match=r"tcp://127\.0\.0\.1:9"):
        list(solve_many(["example:heterps-ctr"], batch=BatchOptions(scheduler="tcp://127.0.0.1:9")))
