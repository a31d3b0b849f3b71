"""openb: servers and lists of pods of a production cluster of Alibaba (cluster-trace-gpu-v2023).

For consolidation, all pods are present at once; for scheduling, each is present from its creation to its
deletion.

Both files are CSV, plain or packed by gzip. Servers have the columns sn, cpu_milli, memory_mib, gpu and
model; pods name, cpu_milli, memory_mib, num_gpu, gpu_milli and, in some lists, gpu_spec: the models that
a pod may use, separated by ``|``. Other columns are not used. For scheduling, pods have creation_time,
scheduled_time and deletion_time in seconds beside.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from ...common.errors import Fault, InstanceError, some
from ...common.fields import Count, Fields, Flag, Model, Name, NonNegative, Part, PositiveCount, refuse
from ...consolidation.devices import MAX_DEVICES
from ...consolidation.instance import ConsolidationInstance
from ...files.csv_tables import model_rows
from ...files.reading import fail
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option, RejectedEntries, valid_entries
from ..node_restrictions import counted, numbered
from .trace import FREE, SHORT, SHORTEST_S, TraceSource, rows_of, scheduling

MILLI = 1000
MAX_AGAIN = 30_000
"""Limit of the pods that are drawn a second time."""
AT_ONCE = TraceSource(
    name="openb-{list}",
    files="{nodes.name} and {pods.name}, in the layout of "
    "hkust-adsl/kubernetes-scheduler-simulator (commit 8f3d641, Apache-2.0)",
    sentences=(
        "{taken} of the {listed} pods of the list{shuffled} are present at once; they ask for {asked:,.2f} "
        "of {all_gpus:,.0f} GPUs{share}. Times are not used.",
        (
            "again",
            "As the list asks for less, {again} a second time, drawn at random, and count too.",
        ),
        "Shares of GPUs, CPUs and values are in thousandths, memory in MiB. All servers are empty.",
        (
            "pooled",
            "GPUs are pooled: a plan may give a pod that asks for a share of one GPU parts of several GPUs "
            "of a server.",
        ),
        ("must_place", "Every pod must be placed, on the fewest servers."),
        (
            "may_wait",
            "A pod is worth the GPUs that it asks for, one that asks for none nothing, and may be left out.",
        ),
        ("never", "{never} left out, for the others could not all be placed with them: {names}."),
    ),
    jobs="pods",
)
"""A list of pods that are present at once."""
TRACE = replace(
    AT_ONCE,
    sentences=(
        "{fit:,} of the {listed:,} pods of the list; a pod arrives when it was created and runs as "
        "long as it did there, from being scheduled to its deletion.",
        (
            "gpus",
            "The cluster is chosen, not the source's: {chosen:,.0f} GPUs, CPUs and memory in proportion.",
        ),
        ("idle", "{idle:,} pods that did not run or did not end are left out."),
        ("too_large", "{too_large:,} pods that ask for more than there is are left out."),
        SHORT,
        "All servers are one pool: a pod may be given parts of several servers, and of several GPUs.",
        ("models", "Which GPU models a pod may use is not kept."),
        FREE,
    ),
)

RowT = TypeVar("RowT", bound=Model)
_Gpus = Annotated[Count, Field(le=MAX_DEVICES)]
_Models = Annotated[
    tuple[Name, ...], BeforeValidator(lambda text: tuple(dict.fromkeys(str(text).split("|"))))
]


class OpenbFiles(ImportOptions):
    """The servers of the trace, and one of its lists of pods."""

    nodes: Annotated[Path, Option("Servers of the trace, CSV or CSV.gz.", argument="nodes")]
    pods: Annotated[Path, Option("One of its lists of pods, CSV or CSV.gz.", argument="pods")]


class OpenbTraceOptions(OpenbFiles):
    """Pods of Alibaba's trace openb by their creation (2023): a scheduling instance, servers as one pool."""

    gpus: Annotated[
        PositiveCount | None,
        Option("GPUs of the cluster, with CPUs and memory in proportion. [default: all]"),
    ] = None


class OpenbOptions(OpenbFiles):
    """Servers and pods of Alibaba's trace openb (2023): a consolidation instance, GPUs in thousandths."""

    load: Annotated[
        Annotated[float, Field(gt=0, le=10)] | None,
        Option("Shuffled pods until they ask for so many times all GPUs, such as 1.3. [default: all pods]"),
    ] = None
    seed: Annotated[Count, Option("Of the shuffle.")] = 0
    devices: Annotated[
        Flag,
        Option(
            "GPUs are devices, each whole or shared; pooled: a share may be scattered over several.",
            option="--devices/--pooled",
        ),
    ] = False
    must_place: Annotated[
        Flag, Option("Every pod must be placed, on the fewest servers.", option="--must-place")
    ] = False


class _Node(Part):
    sn: Name
    cpu_milli: NonNegative
    memory_mib: NonNegative
    gpu: _Gpus
    model: Name | None = None


class _Pod(Part):
    name: Annotated[Name, Field(max_length=190)]  # a number may follow
    cpu_milli: NonNegative
    memory_mib: NonNegative
    num_gpu: _Gpus
    gpu_milli: Annotated[Count, Field(le=MILLI)]
    gpu_spec: _Models = ()

    @property
    def gpu(self) -> int:
        """The GPU demand of the pod in thousandths of a GPU."""
        return self.num_gpu * self.gpu_milli


class _PodOfDevices(_Pod):
    @model_validator(mode="after")
    def _check(self) -> _PodOfDevices:
        if self.num_gpu > 1 and self.gpu_milli not in (0, MILLI):
            refuse([("gpu_milli", f"is {self.gpu_milli} of each of {self.num_gpu} GPUs; a share is of one")])
        return self


class _TraceNode(Model):
    cpu_milli: NonNegative
    memory_mib: NonNegative
    gpu: Count


class _TracePod(Model):
    name: Name
    cpu_milli: NonNegative
    memory_mib: NonNegative
    num_gpu: Count
    gpu_milli: Count
    creation_time: NonNegative
    scheduled_time: NonNegative | None = None
    deletion_time: NonNegative | None = None
    gpu_spec: str = ""

    @property
    def ran_s(self) -> float | None:
        """How long the pod ran; None if it did not, or has not ended."""
        if self.scheduled_time is None or self.deletion_time is None:
            return None
        return self.deletion_time - self.scheduled_time

    @property
    def demand(self) -> dict[str, float]:
        """The positive demands of the pod, by resource."""
        asked = {
            "gpu": self.num_gpu * self.gpu_milli / MILLI,
            "cpu": self.cpu_milli / MILLI,
            "memory_mib": self.memory_mib,
        }
        return {name: amount for name, amount in asked.items() if amount}


@Importer
def import_openb(options: OpenbOptions) -> ConsolidationInstance:
    """Return the consolidation instance of servers and pods of the openb trace."""
    bad_nodes, bad_pods = RejectedEntries("server"), RejectedEntries("pod")
    nodes = _rows(options.nodes, _Node, bad_nodes)
    listed = _rows(options.pods, _PodOfDevices if options.devices else _Pod, bad_pods)
    gpus = MILLI * sum(node.gpu for node in nodes)
    arrived = listed if options.load is None else _arrived(listed, gpus, options)
    never = _never_placed(arrived, nodes) if options.must_place else []
    dropped = frozenset(never)
    pods = [pod for pod in arrived if pod.name not in dropped]
    asked = sum(pod.gpu for pod in pods)
    again = max(len(pods) - len(listed), 0)
    facts = {
        "taken": len(pods) - again,
        "listed": len(listed),
        "shuffled": "" if options.load is None else f", shuffled by seed {options.seed},",
        "asked": asked / MILLI,
        "all_gpus": gpus / MILLI,
        "share": f" ({asked / gpus:.2%})" if gpus else "",
        "again": again and counted(again, "pod comes", "pods come"),
        "pooled": not options.devices,
        "may_wait": not options.must_place,
        "never": never
        and counted(len(never), "pod fits on no server and is", "pods fit on no server and are"),
        "names": some(never),
    }
    return AT_ONCE.instance(
        ConsolidationInstance,
        options,
        facts,
        also=[*bad_nodes.sentences(), *bad_pods.sentences()],
        objectives=["servers"] if options.must_place else ["value", "servers"],
        servers=[
            {"name": node.sn, "gpu_model": node.model, **_capacity(node, options.devices)} for node in nodes
        ],
        jobs=[
            {
                "name": name,
                "tasks": 1,
                "value": pod.gpu,
                "must_place": options.must_place,
                "gpu_model": list(pod.gpu_spec) or None,
                **_demand(pod, options.devices),
            }
            for name, pod in zip(numbered((pod.name for pod in pods), "{} ({})"), pods, strict=True)
        ],
    )


def _rows(path: Path, model: type[RowT], left_out: RejectedEntries) -> list[RowT]:
    """Return the valid rows of a CSV file, without duplicates of the first field, the name.

    Raises
    ------
    InstanceError
        If the file is no such table, or has no valid row.
    """
    misfits: list[Fault] = []
    name = next(iter(model.model_fields))
    entries = (
        (f"line {line}", cells.get(name, f"line {line}"), cells)
        for line, cells in model_rows(path, model, misfits)
    )
    rows = list(valid_entries(model, entries, str(path), left_out, lambda row: getattr(row, name)))
    for fault in misfits:
        left_out.add(None, fault.path, replace(fault, path=""))
    if not rows:
        raise InstanceError(misfits)
    return rows


def _arrived(listed: Sequence[_Pod], gpus: int, options: OpenbOptions) -> list[_Pod]:
    """Return pods in random order up to the load, the ratio of demanded to available GPUs.

    If all pods demand less, random ones are repeated, as in the simulator that comes with the trace.
    """
    assert options.load is not None
    if not any(pod.gpu for pod in listed):
        raise fail("options", "no pod asks for a GPU; import all pods", "load")
    generator = random.Random(options.seed)
    shuffled = generator.sample(listed, len(listed))
    again = (generator.choice(listed) for _ in range(MAX_AGAIN + 1))
    arrived: list[_Pod] = []
    asked = 0
    for pod in itertools.chain(shuffled, again):
        asked += pod.gpu
        if asked > options.load * gpus:
            return arrived
        arrived.append(pod)
    raise fail("options", f"takes more than {MAX_AGAIN:,} pods a second time; lower it", "load")


def _never_placed(pods: Sequence[_Pod], nodes: Sequence[_Node]) -> list[str]:
    """Return the names of pods that fit on no server and would make the instance infeasible."""
    shapes = {(node.model, node.gpu * MILLI, node.cpu_milli, node.memory_mib) for node in nodes}
    return [
        name
        for name, pod in {pod.name: pod for pod in pods}.items()
        if not any(
            (not pod.gpu_spec or model in pod.gpu_spec)
            and pod.gpu <= gpu
            and pod.cpu_milli <= cpu
            and pod.memory_mib <= memory
            for model, gpu, cpu, memory in shapes
        )
    ]


def _capacity(node: _Node, devices: bool) -> Fields:
    """Return the capacity fields of a server, with GPUs as devices or as one amount."""
    amounts = {"cpu": node.cpu_milli, "memory_mib": node.memory_mib}
    if devices:
        return {"capacity": amounts, "devices": {"gpu": {"count": node.gpu}} if node.gpu else None}
    return {"capacity": {"gpu": MILLI * node.gpu, **amounts}}


def _demand(pod: _Pod, devices: bool) -> Fields:
    """Return the demand fields of a pod; for GPUs whole devices, a share of one, or an amount."""
    amounts = {"cpu": pod.cpu_milli, "memory_mib": pod.memory_mib}
    if not devices:
        return {"task_demand": {"gpu": pod.gpu, **amounts}}
    if not pod.gpu:
        return {"task_demand": amounts}
    kind = {"devices": {"gpu": pod.num_gpu}} if pod.gpu_milli == MILLI else {"share": {"gpu": pod.gpu_milli}}
    return {"task_demand": amounts, **kind}


@Importer
def import_openb_trace(options: OpenbTraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of the pods of the openb trace that ran and ended."""
    nodes, pods = rows_of(options.nodes, _TraceNode).values(), rows_of(options.pods, _TracePod)
    gpus = sum(node.gpu for node in nodes)
    if not gpus:
        raise fail(str(options.nodes), "has no GPUs")
    share = 1.0 if options.gpus is None else options.gpus / gpus
    pool = {
        "gpu": gpus * share,
        "cpu": sum(node.cpu_milli for node in nodes) / MILLI * share,
        "memory_mib": sum(node.memory_mib for node in nodes) * share,
    }
    ran = {place: pod for place, pod in pods.items() if pod.ran_s is not None and pod.demand}
    fit = {
        place: pod
        for place, pod in ran.items()
        if all(amount <= pool[name] for name, amount in pod.demand.items())
    }
    if not fit:
        raise fail(str(options.pods), "has no pod that ran, ended and fits; times are needed of both")
    begin = min(pod.creation_time for pod in fit.values())
    names = numbered((pod.name for pod in fit.values()), "{} ({})")
    jobs = {
        place: {
            "name": name,
            "arrival_s": pod.creation_time - begin,
            "demand": pod.demand,
            "duration_s": max(pod.ran_s or 0.0, SHORTEST_S),
        }
        for name, (place, pod) in zip(names, fit.items(), strict=True)
    }
    facts = {
        "fit": len(fit),
        "listed": len(pods),
        "chosen": pool["gpu"],
        "idle": len(pods) - len(ran),
        "too_large": len(ran) - len(fit),
        "short": sum((pod.ran_s or 0.0) < SHORTEST_S for pod in fit.values()),
        "models": any(pod.gpu_spec for pod in fit.values()),
    }
    return scheduling(TRACE, options, facts, jobs, resources=pool)
