"""Importer of Flux: nodes and jobs of a cluster in use as a consolidation instance.

The nodes are what ``flux resource R`` prints, the jobs what ``flux jobs -A -c 0 --json`` does. Neither says
how many GPUs a job asks for or which nodes it may use, so that jobspec and R of each job are read, too, which
``flux job info`` prints. The formats are those of Flux's RFCs: 20 (R), 22 and 29 (sets of numbers and of
hosts), 25 (jobspec), 31 (constraints).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property, lru_cache, reduce
from itertools import chain
from operator import and_, or_
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ...common.errors import InstanceError, one_line, shown, some
from ...common.faults import validated
from ...common.fields import (
    Flag,
    Many,
    ManyNamed,
    Model,
    NonNegative,
    Part,
    PositiveTaskCount,
)
from ...common.hostlist import LONGEST, MAX_HOSTS, expand_hostlist
from ...consolidation.instance import ConsolidationInstance
from ...files.reading import fail, parse_document, read_mapping, read_text
from ..importer import Importer, ImportOptions, Option
from ..node_restrictions import NAMED, note, numbered
from .device_inventory import NO_DEVICES
from .snapshot import (
    CROWDED,
    MAX_SEPARATED,
    OUTSIDE,
    ClusterSnapshot,
    Drained,
    Planned,
    Running,
    SnapshotNode,
    Spread,
    TaskGroup,
    Value,
    Workload,
    emptied_note,
)

MAX_PLACES = 1_000_000
"""Limit of the nodes that jobs hold, each counted once for each job."""
LONGEST_NAME = 150
CoresAndGpus = Counter[str]
"""Amounts of the resources cpu and gpu."""
_RANGE = re.compile("([0-9]{1,9})(?:-([0-9]{1,9}))?")


@lru_cache(maxsize=16)
def numbers(text: str) -> tuple[range, ...]:
    """Return the ranges of a set of numbers such as ``0-3,7``.

    Raises
    ------
    ValueError
        If it is none, or too large.
    """
    found = [_RANGE.fullmatch(part.strip("[]")) for part in text[: LONGEST + 1].split(",") if part]
    ranges = tuple(range(int(m[1]), int(m[2] or m[1]) + 1) for m in found if m is not None)
    if len(text) > LONGEST or not all(found) or not all(ranges) or sum(map(len, ranges)) > MAX_HOSTS:
        raise ValueError(f"has {shown(text)}, no set of at most 65,536 numbers such as 0-3,7")
    return ranges


def among(number: int, text: str) -> bool:
    """Return whether a number is in a set of numbers."""
    return any(number in part for part in numbers(text))


@lru_cache(maxsize=16)
def hosts_of(text: str) -> frozenset[str]:
    """Return the names of a list of hosts."""
    return frozenset(expand_hostlist(text))


class FluxOptions(ImportOptions):
    """Nodes and jobs of a Flux cluster: a consolidation instance."""

    resources: Annotated[Path, Option("What 'flux resource R' prints.", argument="resources")]
    jobs: Annotated[Path, Option("What 'flux jobs -A -c 0 --json' prints.", argument="jobs")]
    specs: Annotated[
        Path,
        Option("A line with id, jobspec and R of each job, as 'flux job info' has them.", argument="specs"),
    ]
    down: Annotated[Path | None, Option("What 'flux resource R -s down' prints: no job starts there.")] = None
    choice: Planned = "gpu"
    running: Running = "move"
    drained: Drained = "empty"
    spread: Spread = "preferred"
    value: Value = "gpus"


class _Children(Part):
    core: str = ""
    gpu: str = ""


class _Ranks(Part):
    rank: str
    children: _Children


class _Execution(Part):
    R_lite: Many[_Ranks]
    nodelist: tuple[str, ...] = ()
    properties: ManyNamed[str, str] = {}


class ResourceSet(Part):
    """Cores and GPUs of some nodes, as R in its version 1."""

    version: Literal[1]
    execution: _Execution

    @property
    def amounts(self) -> dict[int, CoresAndGpus]:
        """Rank of a node → its cores and GPUs in the set."""
        found = defaultdict[int, CoresAndGpus](CoresAndGpus)
        numbers(",".join(entry.rank for entry in self.execution.R_lite))  # not too many in all
        for entry in self.execution.R_lite:
            has = entry.children
            cores, gpus = (sum(map(len, numbers(text))) for text in (has.core, has.gpu))
            for rank in chain(*numbers(entry.rank)):
                found[rank].update(cpu=cores, gpu=gpus)
        return found


class NodeStates(Part):
    """All nodes, and those that are down."""

    all: ResourceSet
    down: ResourceSet | None = None


class JobRecord(Part):
    """A job, as ``flux jobs --json`` lists it."""

    id: int
    state: str
    jobid: str = ""
    name: str = ""
    urgency: NonNegative = 16.0
    priority: NonNegative | None = None
    ranks: str = ""

    @property
    def label(self) -> str:
        """Its id and name."""
        return one_line(f"{self.jobid or self.id} {self.name}")[:LONGEST_NAME]


class JobRecords(Part):
    """The document that holds them."""

    jobs: Many[JobRecord]


class SpecRecord(Part):
    """Jobspec and R of a job."""

    id: int
    jobspec: Any = None
    R: Any = None


class Constraint(Model):
    """A constraint of RFC 31: an operator with its values; of several, each has to hold."""

    properties: tuple[str, ...] = ()
    hostlist: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()
    all: tuple[Constraint, ...] = Field(default=(), alias="and")
    any: tuple[Constraint, ...] = Field(default=(), alias="or")
    no: tuple[Constraint, ...] | None = Field(default=None, alias="not")

    def allows(self, node: tuple[int, str, Mapping[str, str]]) -> bool:
        """Return whether a node satisfies it, of this rank and host; properties have sets of ranks."""
        rank, host, ranks = node
        every, some_of, no = (
            [part.allows(node) for part in own] for own in (self.all, self.any, self.no or ())
        )
        return (
            all(among(rank, ranks.get(w.strip("^"), "")) != w.startswith("^") for w in self.properties)
            and (not self.hostlist or host in hosts_of(",".join(self.hostlist)))
            and (not self.ranks or among(rank, ",".join(self.ranks)))
            and all(every)
            and (not some_of or any(some_of))
            and (self.no is None or not all(no))
        )


class _Vertex(Part):
    type: str
    count: PositiveTaskCount
    exclusive: Flag = False
    parts: tuple[_Vertex, ...] = Field(default=(), alias="with")


class _System(Part):
    constraints: Any = None


class _Attributes(Part):
    system: _System = _System()


class JobSpec(Part):
    """What a job asks for: slots, wherever they are, or some nodes with so many slots on each."""

    resources: tuple[_Vertex]
    attributes: _Attributes = _Attributes()

    @property
    def demand(self) -> CoresAndGpus:
        """The cores and GPUs of a slot, or of all slots of a node.

        Raises
        ------
        ValueError
            If the jobspec has another form.
        """
        (top,) = self.resources
        slots = top.parts if top.type == "node" else (top,)
        asked = Counter({part.type: part.count for slot in slots for part in slot.parts})
        if [slot.type for slot in slots] != ["slot"] or not {"core"} <= asked.keys() <= {"core", "gpu"}:
            raise ValueError("asks for other things than nodes with slots, or slots, of cores and GPUs")
        count = slots[0].count if top.type == "node" else 1
        return Counter(cpu=asked["core"] * count, gpu=asked["gpu"] * count)


class Cluster:
    """The nodes and jobs of a cluster, and which jobs are planned.

    Parameters
    ----------
    options
        Those of the importer.

    Attributes
    ----------
    has, names, down
        Rank of a node → what it has, and its name; the names of those that are down.
    planned, unplanned
        The jobs that are planned, and reason → names of the jobs that are not.
    foreign, others
        Rank of a node → what jobs hold there that are not planned, and their names.
    """

    def __init__(self, options: FluxOptions) -> None:
        source, self.options = str(options.resources), options
        what = "has neither 'execution' nor 'all'; give what flux resource R prints"
        data = read_mapping(options.resources, what)
        if not {"execution", "all"} & data.keys():
            raise fail(source, what)
        data = data if "all" in data else {"all": data}
        if options.down is not None:
            data["down"] = read_mapping(options.down)
        states = validated(NodeStates, data, source)
        self.has, self._listed = states.all.amounts, states.all.execution
        ranks = sorted(self.has)
        hosts = expand_hostlist(",".join(filter(None, self._listed.nodelist)))
        if not ranks or len(hosts) != len(ranks):
            raise ValueError(f"has {len(ranks)} ranks and {len(hosts)} hosts")
        self.names = dict(zip(ranks, numbered(hosts, "{}/{}"), strict=True))
        self.down = {self.names[n] for n in (states.down.amounts if states.down else ()) if n in self.has}
        self._largest = reduce(or_, self.has.values())
        self._choice, self._separated = cache(self._allowed), 0
        self.planned: list[Workload] = []
        self.unplanned = defaultdict[str, list[str]](list)
        self.foreign = defaultdict[int, CoresAndGpus](CoresAndGpus)
        self.others = defaultdict[int, list[str]](list)

    def plan(self, record: JobRecord, spec: SpecRecord | None) -> int:
        """Plan a job, or say why not; return the number of nodes that it holds.

        If what it holds is not known, it is all that its nodes have.
        """
        held: Mapping[int, CoresAndGpus] = {}
        try:
            held = {rank: self.has[rank] for rank in chain(*numbers(record.ranks)) if rank in self.has}
            if spec and spec.R is not None:
                held = validated(ResourceSet, spec.R, "R").amounts
            self.planned.append(self._workload(record, spec, held))
        except (ValueError, InstanceError, RecursionError) as error:
            self.unplanned[str(error).split("\n")[0]].append(record.label)
            for rank, amounts in held.items():
                self.foreign[rank].update(amounts)
                self.others[rank].append(record.label)
        return len(held)

    def _workload(
        self, record: JobRecord, spec: SpecRecord | None, held: Mapping[int, CoresAndGpus]
    ) -> Workload:
        """Return a job as tasks, each a node, or a slot where it asks for no nodes.

        Raises
        ------
        ValueError, InstanceError
            If it cannot be planned; the message says why.
        """
        state = record.state if held or (record.urgency and record.priority != 0) else "held"
        if held and self.options.running == "stay":
            raise ValueError("running and to stay")
        if state != ("RUN" if held else "SCHED"):
            raise ValueError(f"state {state}")
        jobspec = validated(JobSpec, spec and spec.jobspec, "jobspec")
        (top,), demand = jobspec.resources, jobspec.demand
        constraint = json.dumps(jobspec.attributes.system.constraints or {})
        names, least = self._choice(constraint)
        by_node = top.type == "node"
        exclusive = by_node and top.exclusive
        if exclusive:
            demand |= least
        if self.options.choice == "gpu" and not demand["gpu"]:
            raise ValueError("asks for no GPU")
        current: dict[str | None, int] = {}
        for rank, amounts in held.items():
            count = 1 if by_node else amounts["cpu"] // demand["cpu"]
            if amounts == Counter({name: amount * count for name, amount in demand.items()}):
                current[self.names.get(rank)] = count
        if held and (len(current), sum(current.values())) != (len(held), top.count):
            raise ValueError("holds other amounts than it asks for")
        if not names.issuperset(current):
            raise ValueError(OUTSIDE)
        separate = by_node and top.count > 1 and not exclusive and demand + demand <= self._largest
        self._separated += separate
        if separate and self._separated > MAX_SEPARATED:
            raise ValueError(CROWDED)
        return Workload(
            record.label,
            [
                TaskGroup(
                    "tasks",
                    +demand,
                    names,
                    current or {None: top.count},
                    lambda: f"node with {constraint}".replace('"', ""),
                )
            ],
            demand["gpu"] * top.count,
            record.priority,
            must_place=bool(held),
            exclusive=exclusive,
            separate=separate,
        )

    def _allowed(self, text: str) -> tuple[frozenset[str], CoresAndGpus]:
        """Return the nodes that a constraint allows, and the least that any of them has."""
        constraint = validated(Constraint, json.loads(text), "constraints")
        out = self.down if self.options.drained == "stay" else ()
        nodes = {
            name: self.has[rank]
            for rank, name in self.names.items()
            if name not in out and constraint.allows((rank, name.partition("/")[0], self._listed.properties))
        }
        return frozenset(nodes), reduce(and_, nodes.values() or [CoresAndGpus()])

    @property
    def why_not(self) -> Iterator[str]:
        """The reasons why jobs are not planned, each with the jobs."""
        return (f"{why} {len(names)} ({some(names, NAMED)})" for why, names in self.unplanned.items())

    @cached_property
    def snapshot(self) -> ClusterSnapshot:
        """The nodes that take jobs, or are emptied, and the jobs that are planned."""
        emptied = self.down.intersection(chain(*(workload.places for workload in self.planned)))
        taking = frozenset(self.names.values()) - (self.down - emptied)
        within = cache(taking.intersection)
        for workload in self.planned:
            workload.groups[0].nodes = within(workload.groups[0].nodes)
        nodes = [
            SnapshotNode(name, self.has[n], self.foreign[n], others=self.others[n], emptied=name in emptied)
            for n, name in self.names.items()
            if name in taking
        ]
        return ClusterSnapshot(nodes, self.planned, NO_DEVICES, self.options.value, self.options.spread)


def assumptions(cluster: Cluster) -> Iterator[str]:
    """Yield the assumptions under which the instance describes the cluster."""
    snapshot = cluster.snapshot
    moving = "A job that runs must stay placed, but may be moved: cancelled, and submitted again."
    yield from snapshot.planned_notes(cluster.options.choice, "", moving)
    yield "What jobs hold that are not planned is not free, nor are the nodes of a job that does not say it."
    yield (
        "A job is placed in its slots; or, where it asks for nodes, in one share on each of them. One that "
        "asks for whole nodes has nodes of its own, and counts with the least of any that it may use."
    )
    yield from snapshot.notes("slots")
    yield from snapshot.restrictions.sentences("constraints, queue", "slot", "node")
    yield (
        "Flux says nothing of memory or GPU models, and the plan looks at neither. Limits, stopped queues, "
        "and whether all jobs get whole nodes (match-policy), are not in the source."
    )
    emptied = {node.name for node in snapshot.nodes if node.emptied}
    yield from emptied_note(emptied, "drained")
    yield from note(sorted(cluster.down - emptied), "node is", "nodes are", "down and left out", most=10)
    if cluster.unplanned:
        yield f"Jobs that are not planned, and stay where they run: {some(cluster.why_not)}."


@Importer
def import_flux(options: FluxOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Flux cluster."""
    try:
        cluster = Cluster(options)
    except ValueError as error:
        raise fail(str(options.resources), str(error)) from None
    records = validated(JobRecords, read_mapping(options.jobs), str(options.jobs)).jobs
    specs, places = read_specs(options.specs), 0
    # A job may have started after the others were listed; what it holds is not free.
    later = specs.keys() - {record.id for record in records}
    alive = (record for record in records if record.state != "INACTIVE")
    for record in (*alive, *(JobRecord(id=number, state="LATER") for number in sorted(later))):
        if (places := places + cluster.plan(record, specs.get(record.id))) > MAX_PLACES:
            raise fail(str(options.specs), f"has jobs on more than {MAX_PLACES:,} nodes")
    if not cluster.snapshot.nodes:
        raise fail(str(options.resources), "has no node that takes jobs")
    if not cluster.planned:
        raise fail(str(options.jobs), f"has no job to plan, of {len(records)}: {some(cluster.why_not)}")
    source = f"{options.jobs.name} with nodes and jobspecs, as Flux's commands print them"
    return cluster.snapshot.instance(f"flux-{options.jobs.stem}", source, assumptions(cluster), options.jobs)


def read_specs(path: Path) -> dict[int, SpecRecord]:
    """Return jobspec and R of the jobs of a file, by the id of the job."""
    specs = {}
    for line in read_text(path).split("\n"):
        # The line of a job that has ended meanwhile is no JSON.
        with suppress(InstanceError):
            spec = validated(SpecRecord, parse_document(line, str(path), ".json"), str(path))
            specs[spec.id] = spec
    return specs
