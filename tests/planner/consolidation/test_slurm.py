"""Options of sbatch for each job.

The script of scontrol steps: its order, its quoting, and what it does beside a Slurm of files.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from device_instances import job, placement, server

from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.consolidation.slurm import are_shares, script_lines, slurm_lines, slurm_notes

INSTANCE = placement(
    ["value"],
    [{**server(gpu=4, cpu=4), "count": 3}],
    [job("even", 4), job("un even", 3), job("cpus", 2, {"cpu": 1})],
)


def lines(entry: JobPlacement) -> str:
    """Return the line of one job."""
    (line,) = slurm_lines(INSTANCE, [entry])
    return line


def test_as_many_tasks_on_each_node() -> None:
    """Nodes are compressed, and each gets its GPUs."""
    line = lines(JobPlacement(job="even", servers={"n-0": 2, "n-1": 2}))
    assert line == ("even '--nodelist=n-[0-1]' --nodes=2 --ntasks=4 --ntasks-per-node=2 --gres=gpu:2")


def test_other_distributions_name_a_node_for_each_task() -> None:
    """One --gres cannot say that the nodes differ; a note does."""
    entry = JobPlacement(job="un even", servers={"n-0": 2, "n-1": 1})
    line = lines(entry)
    assert line == "'un even' --nodelist=n-0,n-0,n-1 --ntasks=3 --distribution=arbitrary"
    (note,) = slurm_notes(INSTANCE, [entry])
    assert "n-0 2, n-1 1" in note


def test_tasks_without_gpus_ask_for_none() -> None:
    """And nothing has to be said about them."""
    entry = JobPlacement(job="cpus", servers={"n-2": 2})
    assert "gres" not in lines(entry)
    assert list(slurm_notes(INSTANCE, [entry])) == []
    assert not are_shares(INSTANCE)


NASTY = "7_1 it's $(touch pwned); `touch pwned`"

FAKE = """#!/usr/bin/env bash
# Keeps the state of each job in a file: state and nodes, and the nodes it asks for.
echo "$(basename "$0") $*" >> log
job=$(printf '%s\\n' "$@" | sed -n 's/^--jobs=//p; s/^JobId=//p')
case "$(basename "$0")" in
  squeue)
    case "$*" in
      *ReqNodes*) cat "$job.asks" 2> /dev/null || echo ;;
      *NumNodes*) echo 1 ;;
      *Format*) ;;
      *PENDING*) cat waiting 2> /dev/null || true ;;
      *) cat "$job" ;;
    esac ;;
  sinfo) cat "node-$(printf '%s\\n' "$@" | sed -n 's/^--nodes=//p')" 2> /dev/null || echo idle ;;
  scontrol)
    case $1 in
      show) echo "$3" | tr , '\\n' ;;
      requeuehold) echo PENDING > "$2" ;;
      update) printf '%s\\n' "$@" | sed -n 's/^NodeList=//p' > "$job.asks" ;;
      release) if grep -qs . "$2.asks"; then echo "RUNNING $(cat "$2.asks")" > "$2"; fi ;;
    esac ;;
esac
"""


@pytest.fixture
def instance() -> ConsolidationInstance:
    """Return a job that waits for the node of another, and one that is to wait on."""
    jobs = [job("5 new", 4), job(NASTY, 4, current={"a": 4}), job("6 later", 4)]
    return placement(["value"], [server("a", gpu=4), server("b", gpu=4)], jobs)


PLAN = [
    JobPlacement(job="5 new", servers={"a": 4}, action="start"),
    JobPlacement(job=NASTY, servers={"b": 4}, action="move"),
    JobPlacement(job="6 later", placed=False, action="wait"),
]


@pytest.fixture
def run(instance: ConsolidationInstance, tmp_path: Path) -> Any:
    """Return what runs the script beside a Slurm that is a file for each job."""
    (tmp_path / "plan.sh").write_text("".join(f"{line}\n" for line in script_lines(instance, PLAN)))
    for name in ("squeue", "sinfo", "scontrol"):
        (tmp_path / name).write_text(FAKE)
        (tmp_path / name).chmod(0o755)
    for number, state in (("5", "PENDING"), ("7_1", "RUNNING a"), ("6", "PENDING")):
        (tmp_path / number).write_text(f"{state}\n")

    def once(*words: str) -> tuple[int, str]:
        environment = {
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PAUSE": "0.05",
            "SECOND": "0",
            "TIMEOUT": "1",
        }
        done = subprocess.run(
            ["bash", "plan.sh", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return once


def commands(said: str) -> list[str]:
    """Return what a script has done."""
    return re.findall(r"^\+ scontrol (.*)$", said, re.MULTILINE)


def test_steps_in_their_order_and_back(run: Any, tmp_path: Path) -> None:
    """The place of a start is free before; print changes nothing; the way back returns what has moved."""
    known = "*Requeue*|*BatchFlag*) echo 1 ;; *Format*) ;;"
    (tmp_path / "squeue").write_text(FAKE.replace("*Format*) ;;", known))
    assert run("check")[0] == 0
    _, printed = run("print")
    assert (tmp_path / "7_1").read_text() == "RUNNING a\n"
    code, said = run("run")
    assert code == 0, said
    assert [line.split()[0] + " " + line.split()[1] for line in commands(said)] == [
        "hold 5",
        "hold 6",
        "requeuehold 7_1",
        "update JobId=7_1",
        "release 7_1",
        "update JobId=5",
        "release 5",
        "release 6",
    ]
    assert len(commands(printed)) == len(commands(said))
    assert (tmp_path / "7_1").read_text() == "RUNNING b\n"
    assert (tmp_path / "5").read_text() == "RUNNING a\n"
    assert not (tmp_path / "pwned").exists()
    code, said = run("back")
    assert code == 0, said
    assert (tmp_path / "7_1").read_text() == "RUNNING a\n"
    assert (tmp_path / "5").read_text() == "PENDING\n"


def test_a_cluster_that_is_not_as_supposed_is_not_changed(run: Any, tmp_path: Path) -> None:
    """Each thing that differs is said: a job, a node, and who cannot be requeued."""
    (tmp_path / "5").write_text("RUNNING b\n")
    (tmp_path / "node-b").write_text("drained\n")
    code, said = run("run")
    assert code == 1
    assert "job 5 is 'RUNNING b', the plan supposes 'PENDING'" in said
    assert "node b is 'drained' and takes no jobs" in said
    assert "job 7_1 cannot be requeued" in said
    assert commands(said) == []


def test_a_step_that_fails_says_how_to_go_on(run: Any, tmp_path: Path) -> None:
    """A node that is drained between two steps; and words that are no command."""
    (tmp_path / "node-b").write_text("draining\n")
    code, said = run("run", "4")
    assert code == 1
    assert "step 4: job 7_1 is 'RUNNING a', where the plan supposes 'PENDING'" in said
    (tmp_path / "7_1").write_text("PENDING\n")
    code, said = run("run", "4")
    assert "step 4: node b is 'draining'" in said
    assert run("undo") == (1, "plan.sh: say what to do: check, print, run, or back\n")
    assert "is no number of a step" in run("run", "x")[1]
    assert "nothing was changed from here" in run("back")[1]


def test_only_jobs_of_slurm_have_a_script() -> None:
    """A name without a number, a number twice, and a node that is none are refused."""
    two = placement(["value"], [server("a", gpu=4)], [job("5 x"), job("5 y")])
    with pytest.raises(InstanceError, match="has the number of '5 x'"):
        list(script_lines(two, [JobPlacement(job=each.name, placed=False) for each in two.jobs]))
    other = placement(["value"], [server("a", gpu=4)], [job("5x")])
    with pytest.raises(InstanceError, match="--format slurm-options"):
        list(script_lines(other, [JobPlacement(job="5x", placed=False)]))
    evil = placement(["value"], [server("a;b", gpu=4)], [job("5 x")])
    with pytest.raises(InstanceError, match="a Slurm node"):
        list(script_lines(evil, [JobPlacement(job="5 x", servers={"a;b": 1}, action="start")]))


def test_who_stays_is_named() -> None:
    """Before the first command."""
    jobs = [job("5 x", current={"a": 1}, movable=False), job("6 y")]
    fixed = placement(["value"], [server("a", gpu=4)], jobs)
    entries = [
        JobPlacement(job="5 x", servers={"a": 1}, action="keep"),
        JobPlacement(job="6 y", servers={"a": 1}, action="start"),
    ]
    (said,) = (line for line in script_lines(fixed, entries) if line.startswith("# Stay where they run"))
    assert said.endswith(": 5 x.")
