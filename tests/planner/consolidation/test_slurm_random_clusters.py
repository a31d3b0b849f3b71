"""Plans for random clusters of a real Slurm are carried out, and taken back, step by step."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from slurm_cluster import Planned, SlurmCluster, slurm_cluster

import clusterplan
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.common.hostlist import expand_hostlist
from clusterplan.instances.importers.clusters.slurm import import_slurm
from clusterplan.planner.publish import plan_text

pytestmark = pytest.mark.slow

SEEDS = range(10)
OTHER = "n7"
NODES = {**{f"n{k}": "gpu:a100:8" for k in range(1, 7)}, OTHER: "gpu:l4:8"}
PARTITIONS = {"main": "n[1-7]", "wide": "n[1-7]"}
LINES = ("Licenses=matlab:1", "SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0")
"""What the jobs ask for, and a scheduler that soon looks at them again."""
QUIET_S = 1.5
"""So long nothing starts by itself in a cluster that is at rest."""
QUIET_CYCLES = 3
"""So often the scheduler has looked at all jobs meanwhile; on a busy machine that takes it longer."""
RAISED = 4294967000
"""The priority that the script of a plan gives to a job while this has to start."""


class JobNow(NamedTuple):
    """What Slurm says of a job, or of one task of a job array."""

    state: str
    nodes: frozenset[str]
    asks: tuple[str, ...]
    restarts: str
    started: str
    priority: int

    @property
    def runs(self) -> tuple[str, frozenset[str], str, str]:
        """All that changes when a job stops or starts."""
        return self.state, self.nodes, self.restarts, self.started if self.nodes else ""


_ASKS = ("Partition", "ReqNodes", "ExcNodes", "Feature", "Licenses", "NumNodes", "Reservation", "Dependency")
_FIELDS = ("JobArrayID", "JobID", "State", "NodeList", "RestartCnt", "StartTime", "PriorityLong", *_ASKS)
_WIDTH = 80


def jobs_now(cluster: SlurmCluster) -> dict[str, JobNow]:
    """Return what Slurm says of each job by its number, also of those that have ended."""
    form = ",".join(f"{name}:{_WIDTH}" for name in _FIELDS)
    found = {}
    asked = ("squeue", "--noheader", "--array", "--states=all", f"--Format={form}")
    for line in cluster.run(*asked).splitlines():
        words = [line[k * _WIDTH : (k + 1) * _WIDTH].strip() for k in range(len(_FIELDS))]
        number, own, state, nodes, restarts, started, priority, *asks = words
        there = frozenset(expand_hostlist(nodes))
        # A part of a heterogeneous job is called 12+1, and has a number of its own.
        number = own if "+" in number else number
        # Slurm lists the partitions of a job in any order.
        asks[0] = ",".join(sorted(asks[0].split(",")))
        found[number] = JobNow(state, there, tuple(asks), restarts, started, int(priority))
    return found


def nodes_now(cluster: SlurmCluster) -> dict[str, tuple[bool, str]]:
    """Return of each node whether it is drained, and why."""
    lines = cluster.run("scontrol", "--oneliner", "show", "nodes").splitlines()
    found = {}
    for line in lines:
        words = dict(word.partition("=")[::2] for word in line.split())
        found[words["NodeName"]] = ("DRAIN" in words["State"], words.get("Reason", ""))
    return found


def wait_for_rest(cluster: SlurmCluster) -> None:
    """Wait until no job starts or ends by itself any more."""
    seen: list[tuple[int, object]] = []

    def is_quiet() -> bool:
        # The main scheduler is listed first, backfilling after it.
        cycles = int(cluster.run("sdiag").partition("Total cycles:")[2].split()[0])
        now = {number: job.runs for number, job in jobs_now(cluster).items()}
        if (seen and now != seen[-1][1]) or any(runs[0] == "COMPLETING" for runs in now.values()):
            seen.clear()
        seen.append((cycles, now))
        return len(seen) > QUIET_S / 0.3 and cycles >= seen[0][0] + QUIET_CYCLES

    cluster.wait_for("rest", is_quiet)


@dataclass
class RandomCluster:
    """Nodes, partitions and jobs of a seed, in a Slurm that runs.

    Attributes
    ----------
    parts
        Partition → its nodes.
    features
        Node → its features.
    reserved
        The nodes of a reservation that has begun.
    special
        What is done to nodes.
    said
        All that was chosen, a line for each thing.
    """

    cluster: SlurmCluster
    rng: random.Random
    parts: dict[str, list[str]] = field(default_factory=dict)
    features: dict[str, str] = field(default_factory=dict)
    reserved: list[str] = field(default_factory=list)
    special: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def arrange(self) -> None:
        """Choose everything at random, until some nodes are full and some jobs wait."""
        self._choose_nodes()
        rng = self.rng
        if "reserved now" in self.special:
            self._reserve_now()
        first = [*rng.sample(_MOVABLE, 4), rng.choice(_UNMOVABLE)]
        many = 5 * len({*self.parts["main"], *self.parts["wide"]})
        with self._nothing_starts():
            self._submit(first)
            fillers = self._submit(["ordinary"] * many)
        now = jobs_now(self.cluster)
        running = [job for job in fillers if now[str(job)].state == "RUNNING"]
        self._end([job for job in fillers if job not in running][1:])
        with self._nothing_starts():
            self._submit([*rng.sample(_WAITING, 4), *rng.sample(_UNPLANNED, 2)])
            self._take_nodes()
            self._end(self._leaving_holes(running))

    def _leaving_holes(self, running: Sequence[int]) -> list[int]:
        """Return jobs that are to end, so that nearly every node has room and is not empty."""
        now, kept = jobs_now(self.cluster), set[str]()
        ended = []
        for job in self.rng.sample(running, len(running)):
            if now[str(job)].nodes <= kept and self.rng.random() < 0.95:
                ended.append(job)
            kept |= now[str(job)].nodes
        return ended

    @contextmanager
    def _nothing_starts(self) -> Iterator[None]:
        """Let jobs start only at the end, all at once in their order; and wait until they have."""
        for name in self.parts:
            self.cluster.run("scontrol", "update", f"PartitionName={name}", "State=DOWN")
        yield
        for name in self.parts:
            self.cluster.run("scontrol", "update", f"PartitionName={name}", "State=UP")
        wait_for_rest(self.cluster)

    def _take_nodes(self) -> None:
        """Drain a node on which jobs run, and reserve one that has jobs for later."""
        rng = self.rng
        jobs = jobs_now(self.cluster).values()
        used = {name for job in jobs if job.state == "RUNNING" for name in job.nodes}
        free = sorted(used.difference(self.reserved))
        if "drained" in self.special:
            node = free.pop(rng.randrange(len(free)))
            self._say(f"drained {node}")
            self.cluster.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=disk")
        if "reserved later" in self.special:
            node = rng.choice(free)
            self._say(f"reserved later {node}")
            self._reserve("later", node, "now+1hour", "IGNORE_JOBS")

    def clear(self) -> None:
        """Leave an idle cluster without reservations and features."""
        for name in _reservations(self.cluster):
            jobs = self.cluster.run("squeue", "--noheader", "--format=%A", f"--reservation={name}").split()
            self._end(list(map(int, jobs)))
            self.cluster.run("scontrol", "delete", f"ReservationName={name}")
        for name, nodes in PARTITIONS.items():
            self.cluster.run("scontrol", "update", f"PartitionName={name}", f"Nodes={nodes}")
        self.cluster.empty()

    def _end(self, jobs: Sequence[int]) -> None:
        if jobs:
            self._say(f"ended {jobs}")
            self.cluster.cancel(*jobs)

    def _say(self, line: str) -> None:
        self.said.append(line)

    def _choose_nodes(self) -> None:
        rng = self.rng
        same = [name for name in NODES if name != OTHER]
        chosen = rng.sample(same, rng.choice((4, 5, 6)))
        if len(chosen) < 6 and rng.random() < 0.5:
            chosen.insert(rng.randint(0, len(chosen)), OTHER)
        self.special = rng.sample(_SPECIAL, len(chosen) // 3 if len(chosen) > 4 else 0)
        common = rng.randint(2, len(chosen) - 2)
        both, rest = chosen[:common], chosen[common:]
        border = rng.randint(1, len(rest) - 1)
        self.parts = {"main": sorted({*both, *rest[:border]}), "wide": sorted({*both, *rest[border:]})}
        for name, nodes in self.parts.items():
            self._say(f"{name} {nodes}")
            self.cluster.run("scontrol", "update", f"PartitionName={name}", f"Nodes={','.join(nodes)}")
        for node in NODES:
            self.features[node] = rng.choice(("", "fast", "big", "fast,big"))
            words = (f"{which}Features={self.features[node]}" for which in ("Available", "Active"))
            self.cluster.run("scontrol", "update", f"NodeName={node}", *words)

    def _reserve(self, name: str, node: str, start: str, *flags: str) -> None:
        words = (f"ReservationName={name}", f"StartTime={start}", "Duration=60", "Users=root")
        given = [f"Flags={','.join(flags)}"] if flags else []
        self.cluster.run("scontrol", "create", "reservation", *words, f"Nodes={node}", *given)

    def _reserve_now(self) -> None:
        part = self.rng.choice(sorted(self.parts))
        node = self.rng.choice(self.parts[part])
        self.reserved = [node]
        self._say(f"reserved now {node}")
        self._reserve("held", node, "now")
        for gpus in self.rng.choice(((3,), (5, 5))):
            self._job("reserved", part, f"--gres=gpu:{gpus}", "--reservation=held")

    def _job(self, name: str, part: str, *options: str) -> int:
        number = self.cluster.submit(name, f"--partition={part}", *options)
        self._say(f"{number} {name} {part} {' '.join(options)}")
        return number

    def _submit(self, sorts: Sequence[str]) -> list[int]:
        """Submit jobs of these sorts in random order."""
        return [self._submit_one(sort) for sort in self.rng.sample(sorts, len(sorts))]

    def _submit_one(self, sort: str) -> int:
        """Submit a job of a sort, with what else there is to choose at random."""
        rng = self.rng
        part = rng.choice(sorted(self.parts))
        usable = [node for node in self.parts[part] if node not in self.reserved] or self.parts[part]
        few, many = f"--gres=gpu:{rng.randint(1, 2)}", f"--gres=gpu:{rng.choice((6, 7, 8))}"
        two = f"--nodes={min(2, len(usable))}"
        has = sorted({name for node in usable for name in self.features[node].split(",") if name})
        feature = f"--constraint={rng.choice(has)}" if has else "--oversubscribe"
        node = rng.choice(usable)
        others = [name for name in self.parts[part] if name != node]
        excluded = f"--exclude={node}" if set(usable) & set(others) else "--oversubscribe"
        running = [number for number, job in jobs_now(self.cluster).items() if job.state == "RUNNING"]
        after = f"--dependency=afterany:{rng.choice(running).partition('+')[0]}" if running else "--hold"
        options: dict[str, tuple[str, ...]] = {
            "ordinary": (f"--gres=gpu:{rng.choice((1, 1, 2, 3))}",),
            "cpus": (few, f"--cpus-per-task={rng.randint(2, 3)}"),
            "whole": ("--gres=gpu:8",),
            "alone": ("--exclusive", "--nodes=1", few),
            "parts": (few, ":", few, f"--partition={part}"),
            "many parts": (many, ":", many, f"--partition={part}"),
            "array": (few, "--array=0-2"),
            "limited array": (many, f"--array=0-2%{rng.randint(1, 2)}"),
            "pinned": (few, f"--nodelist={node}"),
            "pinned whole": (many, f"--nodelist={node}"),
            "excluded": (few, excluded),
            "excluded whole": (many, excluded),
            "feature": (few, feature),
            "feature whole": (many, feature),
            "licence": (few, "--licenses=matlab:1"),
            "two nodes": (few, two),
            "two whole nodes": (many, two),
            "after": (few, after),
            "fixed": (few, "--no-requeue"),
            "either partition": (many, "--partition=main,wide"),
            "no GPU": (f"--ntasks={rng.randint(1, 3)}",),
        }
        return self._job(sort, part, *options[sort])


_SPECIAL = ("reserved now", "drained", "reserved later")
"""What is done to nodes."""
_MOVABLE = ("alone", "array", "pinned", "excluded", "feature", "two nodes", "cpus")
"""Sorts of jobs that start first and may be moved."""
_UNMOVABLE = ("parts", "licence", "fixed", "no GPU")
"""Sorts of jobs that start first and stay where they are."""
_WAITING = (
    "whole",
    "alone",
    "array",
    "limited array",
    "pinned whole",
    "excluded whole",
    "feature whole",
    "two nodes",
    "two whole nodes",
    "either partition",
)
"""Sorts of jobs that come when the cluster is full."""
_UNPLANNED = ("many parts", "licence", "after", "no GPU")
"""Of these, sorts that no plan has."""


def _reservations(cluster: SlurmCluster) -> list[str]:
    lines = cluster.run("scontrol", "--oneliner", "show", "reservation").splitlines()
    return [line.split()[0].partition("=")[2] for line in lines if line.startswith("ReservationName=")]


class RandomPlan(Planned):
    """The plan for a random cluster, and what the cluster was like before."""

    def __init__(
        self, cluster: SlurmCluster, folder: Path, options: Mapping[str, str], **fields: object
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.cluster, self.folder = cluster, folder
        here = jobs_now(cluster).items()
        self.before = {number: job for number, job in here if job.state in ("PENDING", "RUNNING")}
        self.nodes_before = nodes_now(cluster)
        made = import_slurm(*cluster.export(folder), **_reservation_option(cluster, folder), **options)
        self.instance = made.replace(**fields)
        result = clusterplan.solve(self.instance)
        self.is_possible = result.plan is not None
        self.entries = {e.job.split()[0]: e for e in result.plan or () if isinstance(e, JobPlacement)}
        if self.is_possible:
            (folder / "plan.sh").write_text(plan_text(self.instance, result, "slurm"))

    def drains(self, rng: random.Random) -> Iterator[tuple[str, list[str]]]:
        """Yield nodes on which no other jobs run, each with who may be stopped; idle ones mostly at last."""
        left_out = {name for job, now in self.before.items() if job not in self.entries for name in now.nodes}
        used = {name for job in self.entries for name in self.before[job].nodes}
        servers = {server.name for server in self.instance.servers} - left_out
        groups = [sorted(servers & used), sorted(servers - used)]
        for nodes in reversed(groups) if rng.random() < 0.1 else groups:
            order = rng.sample(nodes, len(nodes))
            yield from ((node, stop) for stop in ([], ["*"]) for node in order)

    def carry_out(self, drained: Sequence[str] = ()) -> None:
        """Carry the plan out, and look at every job and node."""
        code, said = self.script("run")
        faults = [*self.differences(), *self.unexpected(), *self._wrong_nodes(drained)]
        for node in drained:
            left = self.cluster.run("squeue", "--noheader", f"--nodelist={node}").split("\n")
            faults += [f"on {node}, which is drained: {line}" for line in left if line]
        faults += [f"the script ends with {code}"] if code else []
        assert not faults, "\n".join([*faults, self._told(said)])

    def take_back(self) -> None:
        """Go the way back, and look at every job and node."""
        code, said = self.script("back")
        changes = self.instance.drained or set(self.actions().values()) & {"start", "move", "stop"}
        if not changes and "nothing was changed" in said:
            code = 0
        wait_for_rest(self.cluster)
        now, faults = jobs_now(self.cluster), list(self._wrong_nodes(()))
        for number, job in self.before.items():
            there = now[number]
            stranded = f"job {number} cannot return to" in said
            # What waited may have started by itself once it was released.
            stranded |= job.state == "PENDING" and there.state == "RUNNING"
            if (job.state, job.nodes) != (there.state, there.nodes) and not stranded:
                faults.append(f"{number} is {there.state} on {sorted(there.nodes)}, was {job}")
            faults += _changed_wishes(number, job, there)
        faults += [f"the script ends with {code}"] if code else []
        assert not faults, "\n".join([*faults, self._told(said)])

    def differences(self) -> list[str]:
        """Return the jobs that are not where the plan has them.

        Those that the plan leaves out are released at its end, and Slurm may start them in other room.
        """
        now, found = jobs_now(self.cluster), []
        for number, entry in self.entries.items():
            there = now[number]
            if (
                not entry.placed
                and there.state == "RUNNING"
                and there.nodes.isdisjoint(self.instance.drained)
            ):
                continue
            if (there.state == "RUNNING", there.nodes) != (entry.placed, entry.used_servers):
                where = f"{there.state} on {sorted(there.nodes)}"
                found.append(f"{number} is {where}, planned {sorted(entry.used_servers)}")
        return found

    def unexpected(self) -> Iterator[str]:
        """Yield what has become of jobs that the plan does not change, and of what jobs ask for."""
        now = jobs_now(self.cluster)
        for number, job in self.before.items():
            entry, there = self.entries.get(number), now[number]
            action = "keep" if entry is None else entry.action
            if action == "keep" and job.runs != there.runs:
                faulty = f"{number} is {there.state} on {sorted(there.nodes)}, was {job}"
                yield f"{faulty}; it is not planned" if entry is None else faulty
            yield from _changed_wishes(number, job, there)
            restarts = int(there.restarts) - int(job.restarts)
            if restarts != (action in ("move", "stop")):
                yield f"{number} was restarted {restarts} times, planned is {action}"

    def _wrong_nodes(self, drained: Sequence[str]) -> Iterator[str]:
        now = nodes_now(self.cluster)
        for name, state in self.nodes_before.items():
            wanted = (True, now[name][1] if not state[0] else state[1]) if name in drained else state
            if now[name] != wanted:
                yield f"node {name} is {now[name]}, wanted {wanted}"

    def _told(self, said: str) -> str:
        plan = "\n".join(f"{number} {e.action} {dict(e.servers)}" for number, e in self.entries.items())
        before = "\n".join(f"{number} {job}" for number, job in self.before.items())
        queue = self.cluster.run("squeue", "--array", "--states=all", "--format=%i %j %T %N %r %p %n")
        notes = "\n".join(self.instance.assumptions)
        return f"\nbefore:\n{before}\nnotes:\n{notes}\nplan:\n{plan}\nscript:\n{said}\nqueue:\n{queue}"


def _changed_wishes(number: str, job: JobNow, there: JobNow) -> Iterator[str]:
    """Yield what a job that waits as before asks for now, and did not ask for."""
    if not job.state == there.state == "PENDING":
        return
    if job.asks != there.asks:
        yield f"{number} asks for {there.asks}, asked for {job.asks}"
    if not 0 < there.priority < RAISED and job.priority:
        yield f"{number} has priority {there.priority}, had {job.priority}"


def _reservation_option(cluster: SlurmCluster, folder: Path) -> dict[str, Path]:
    """Write what Slurm says of its reservations, and return it as an option of the importer."""
    file = folder / "reservations.txt"
    file.write_text(cluster.run("scontrol", "show", "reservation"))
    return {"reservations": file}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Return a cluster of six nodes with 8 A100 each, and one with 8 L4."""
    with slurm_cluster(tmp_path_factory.mktemp("slurm"), NODES, PARTITIONS, LINES) as started:
        yield started


@pytest.fixture(params=SEEDS)
def random_cluster(cluster: SlurmCluster, request: pytest.FixtureRequest) -> Iterator[RandomCluster]:
    """Return a random cluster, and clear it afterwards."""
    made = RandomCluster(cluster, random.Random(request.param))
    try:
        made.arrange()
        yield made
    finally:
        made.clear()


def test_plans_of_random_clusters_are_carried_out_and_taken_back(
    random_cluster: RandomCluster, tmp_path: Path
) -> None:
    """Once as the cluster is, and once so that a node becomes empty."""
    print("\n".join(random_cluster.said))
    cluster, rng = random_cluster.cluster, random_cluster.rng
    options = {"choice": rng.choice(("gpu", "all"))}
    plan = RandomPlan(cluster, tmp_path, options)
    if not plan.is_possible:
        options["drained"] = "stay"
        plan = RandomPlan(cluster, tmp_path, options)
    assert plan.is_possible
    print(options, plan.actions())
    assert any(job.state == "PENDING" for job in plan.before.values())
    plan.carry_out()
    plan.take_back()
    for node, stop in list(plan.drains(rng)):
        plan = RandomPlan(cluster, tmp_path / node, options, drain=[node], stop=stop)
        print(node, stop, plan.actions())
        if plan.is_possible:
            plan.carry_out([node])
            plan.take_back()
            break
