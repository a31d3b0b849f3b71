"""A real Slurm of several nodes with GPUs on this machine, which has none: for tests from end to end.

The nodes are daemons with ports of their own, and their GPUs are device files that every machine has. Jobs of
``sleep`` are enough: what runs where, and what waits, can be read back.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import clusterplan
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.importers.clusters.slurm import import_slurm
from clusterplan.planner.publish import plan_text

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "sdiag", "scontrol", "scancel")
LONGEST_S = 60.0
"""So long a state of the cluster is waited for."""

NODES = {"n1": "gpu:a100:4", "n2": "gpu:a100:4", "n3": "gpu:a100:4", "n4": "gpu:l4:4"}
PARTITIONS = {"main": "n[1-3]", "wide": "n[1-4]"}


def needs_slurm() -> None:
    """Skip a test where Slurm is not installed, or cannot be started; fail where it has to be."""
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    why = f"Slurm is not installed: there is no {', '.join(lacking)}" if lacking else ""
    if not why and os.geteuid():
        why = "Slurm's daemons are started by root only"
    if why and os.environ.get("CLUSTERPLAN_NEEDS_SLURM"):
        pytest.fail(why)
    if why:
        pytest.skip(why)


class SlurmCluster:
    """A cluster that runs; made by `slurm_cluster`.

    Parameters
    ----------
    folder
        Where its files are.
    nodes
        Name of each node → its GPUs, such as ``gpu:a100:4``.
    partitions
        Name of each partition → its nodes; the first is the default.
    lines
        Further lines of ``slurm.conf``.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Mapping[str, str] = NODES,
        partitions: Mapping[str, str] = PARTITIONS,
        lines: Sequence[str] = (),
    ) -> None:
        self.folder, self.nodes, self.partitions, self.lines = folder, nodes, partitions, lines
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self.daemons: list[subprocess.Popen[bytes]] = []

    def run(self, *words: str) -> str:
        """Run one of Slurm's commands, and return what it prints."""
        done = self._done(*words)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def _done(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )

    def submit(self, name: str, *options: str) -> int:
        """Submit a job that only waits, and return its number."""
        options = ("--parsable", f"--job-name={name}", "--output=/dev/null", "--mem=10", *options)
        # The job itself is what ends at once when it is told to; a shell around it takes seconds.
        return int(self.run("sbatch", *options, "--wrap", "exec sleep 3600").split(";")[0])

    def jobs(self) -> dict[int, dict[str, Any]]:
        """Return what squeue lists of each job."""
        listed = json.loads(self.run("squeue", "--json"))["jobs"]
        return {job["job_id"]: job for job in listed}

    def state(self, job: int | str) -> str:
        """Return the state of a job and its nodes, as in ``RUNNING n[1-2]``."""
        asked = ("squeue", "--noheader", "--array", "--states=all", f"--jobs={job}", "--format=%T %N")
        return self.run(*asked).strip()

    def expanded(self, nodes: str) -> set[str]:
        """Return the names that a list such as ``n[1-2]`` stands for."""
        return set(self.run("scontrol", "show", "hostnames", nodes).split()) if nodes else set()

    def cancel(self, *jobs: int) -> None:
        """End jobs, and wait until they have left their nodes."""
        self.run("scancel", *map(str, jobs))
        self.wait_for("the end of jobs", lambda: not self.jobs().keys() & set(jobs) or self._ended(jobs))

    def _ended(self, jobs: Sequence[int]) -> bool:
        return all(self.state(job).split()[0] in ("CANCELLED", "COMPLETED") for job in jobs)

    def wait_for_reason(self, job: int, *reasons: str) -> None:
        """Wait until a job waits for one of these reasons."""
        asked = ("squeue", "--noheader", f"--jobs={job}", "--states=PENDING", "--format=%r")
        self.wait_for(f"{job} to wait", lambda: self.run(*asked).startswith(reasons))

    def empty(self) -> None:
        """End all jobs, and wait until every node is idle."""
        self.run("scancel", "--user=root")
        for name in self.nodes:
            self._done("scontrol", "update", f"NodeName={name}", "State=RESUME")
        self.wait_for("idle nodes", self._all_idle)

    def export(self, folder: Path) -> tuple[Path, Path]:
        """Write what sinfo and squeue print, and return both files."""
        files = folder / "nodes.json", folder / "queue.json"
        files[0].write_text(self.run("sinfo", "--json"))
        files[1].write_text(self.run("squeue", "--json"))
        return files

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        until = time.monotonic() + LONGEST_S
        while not holds():
            assert time.monotonic() < until, f"{what}: not within {LONGEST_S:g} s\n{self.run('squeue')}"
            time.sleep(0.3)

    def wait_until(self, states: Mapping[int, str]) -> None:
        """Wait until the jobs have these states, such as ``RUNNING n1``."""
        self.wait_for(f"{states}", lambda: all(self.state(job) == state for job, state in states.items()))

    def script(self, folder: Path, *words: str) -> tuple[int, str]:
        """Run the script ``plan.sh`` in a folder, and return its code and what it says."""
        environment = {**self.environment, "PAUSE": "0.5", "TIMEOUT": "40"}
        done = subprocess.run(
            ["bash", "plan.sh", *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def start(self) -> None:
        """Start all daemons, and wait for the nodes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._configure()
        socket_path = str(self.folder / "munge.socket")
        options = [f"--{name}={self.folder / f'munge.{end}'}" for name, end in _MUNGE.items()]
        self._daemon("munged", "--foreground", "--force", f"--socket={socket_path}", *options)
        self.wait_for("munged", Path(socket_path).exists)
        self._daemon("slurmctld", "-D", "-c", "-i")
        for name in self.nodes:
            self._daemon("slurmd", "-D", "-N", name)
        self.wait_for("nodes", self._all_idle)

    def _all_idle(self) -> bool:
        done = self._done("sinfo", "--noheader", "--Node", "--format=%N %T")
        assert all(daemon.poll() is None for daemon in self.daemons), self._logs()
        lines = set(done.stdout.splitlines())
        return done.returncode == 0 and lines == {f"{name} idle" for name in self.nodes}

    def _daemon(self, *words: str) -> None:
        log = (self.folder / f"{words[0]}-{len(self.daemons)}.log").open("wb")
        with log:
            self.daemons.append(
                subprocess.Popen(words, env=self.environment, stdout=log, stderr=subprocess.STDOUT)
            )

    def _logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in self.folder.glob("*.log"))

    def _configure(self) -> None:
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(1024))
        (self.folder / "munge.key").chmod(0o400)
        host = socket.gethostname().partition(".")[0]
        control, *ports = _free_ports(1 + len(self.nodes))
        lines = [*_CONF, *self.lines, f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={control}"]
        lines.append(f"AuthInfo=socket={self.folder}/munge.socket")
        lines += [f"{key}={self.folder}/{name}" for key, name in _FOLDERS.items()]
        for (name, gres), port in zip(self.nodes.items(), ports, strict=True):
            where = f"NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
            lines.append(f"NodeName={name} {where} CPUs=8 RealMemory=1000 Gres={gres}")
        default = "YES"
        for name, nodes in self.partitions.items():
            lines.append(f"PartitionName={name} Nodes={nodes} Default={default} MaxTime=INFINITE State=UP")
            default = "NO"
        (self.folder / "slurm.conf").write_text("".join(f"{line}\n" for line in lines))
        gres_lines = [
            f"NodeName={name} Name=gpu Type={kind} Count={count} File=/dev/tty[0-{int(count) - 1}]"
            for name, (_, kind, count) in ((name, gres.split(":")) for name, gres in self.nodes.items())
        ]
        (self.folder / "gres.conf").write_text("".join(f"{line}\n" for line in gres_lines))

    def stop(self) -> None:
        """End the jobs and all daemons."""
        if len(self.daemons) > 1 and self.daemons[1].poll() is None:
            self._done("scancel", "--user=root")
            until = time.monotonic() + 15
            while time.monotonic() < until and self._lists_jobs():
                time.sleep(0.3)
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait(10)

    def _lists_jobs(self) -> bool:
        return bool(self._done("squeue", "--noheader").stdout)


_MUNGE = {"key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
_FOLDERS = {
    "StateSaveLocation": "state",
    "SlurmdSpoolDir": "spool-%n",
    "SlurmctldPidFile": "slurmctld.pid",
    "SlurmdPidFile": "slurmd-%n.pid",
}
_CONF = (
    "ClusterName=test",
    "SlurmUser=root",
    "SlurmdUser=root",
    "AuthType=auth/munge",
    "ProctrackType=proctrack/pgid",
    "TaskPlugin=task/none",
    "JobAcctGatherType=jobacct_gather/none",
    "SelectType=select/cons_tres",
    "SelectTypeParameters=CR_Core_Memory",
    "GresTypes=gpu",
    "ReturnToService=2",
    "SwitchType=switch/none",
    "MpiDefault=none",
    "KillWait=1",
    # The nodes claim more than the machine has.
    "SlurmdParameters=config_overrides",
    "SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=1",
)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def slurm_cluster(
    folder: Path,
    nodes: Mapping[str, str] = NODES,
    partitions: Mapping[str, str] = PARTITIONS,
    lines: Sequence[str] = (),
) -> Iterator[SlurmCluster]:
    """Start a cluster whose files are in this folder, and end it whatever happens."""
    needs_slurm()
    cluster = SlurmCluster(folder, nodes, partitions, lines)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


class Planned:
    """The plan for what a cluster lists now, and its script."""

    def __init__(self, cluster: SlurmCluster, folder: Path, **fields: object) -> None:
        self.cluster, self.folder = cluster, folder
        made = import_slurm(*cluster.export(folder)).replace(**fields)
        self.instance = made
        result = clusterplan.solve(made)
        self.entries = {e.job.split()[0]: e for e in result.plan if isinstance(e, JobPlacement)}
        (folder / "plan.sh").write_text(plan_text(made, result, "slurm"))

    def script(self, *words: str) -> tuple[int, str]:
        """Run the script, and return its code and what it says."""
        return self.cluster.script(self.folder, *words)

    def run(self) -> str:
        """Carry the plan out, and return what the script says."""
        code, said = self.script("run")
        assert code == 0, said
        return said

    def actions(self) -> dict[str, str | None]:
        """Return job number → what becomes of it."""
        return {job: entry.action for job, entry in self.entries.items()}

    def differences(self) -> list[str]:
        """Return the jobs that are not where the plan has them."""
        found = []
        for job, entry in self.entries.items():
            state, _, there = self.cluster.state(job).partition(" ")
            nodes = self.cluster.expanded(there)
            if (state == "RUNNING", nodes) != (entry.placed, entry.used_servers):
                found.append(f"{job} is {state} on {sorted(nodes)}, planned {sorted(entry.used_servers)}")
        return found
