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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from ...common.errors import Fault, InstanceError, some
from ...common.faults import validated
from ...common.fields import Count, Flag, Model, Name, NonNegative, PositiveCount, refuse
from ...consolidation.devices import MAX_DEVICES
from ...consolidation.instance import ConsolidationInstance
from ...files.csv_tables import model_rows
from ...files.reading import fail
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from ..node_restrictions import counted, numbered
from ..rejected_entries import RejectedEntries, valid_entries
from .gpu_trace import FREE, Origin, gpu_trace, numbered_rows_of, rows_of

SOURCE = "hkust-adsl/kubernetes-scheduler-simulator (commit 8f3d641, Apache-2.0)"
MILLI = 1000
MAX_AGAIN = 30_000
"""Limit of the pods that are drawn a second time."""

RowT = TypeVar("RowT", bound=Model)
_Gpus = Annotated[Count, Field(le=MAX_DEVICES)]
_Models = Annotated[
    tuple[Name, ...], BeforeValidator(lambda text: tuple(dict.fromkeys(str(text).split("|"))))
]


class OpenbOptions(ImportOptions):
    """Servers and pods of Alibaba's trace openb (2023): a consolidation instance, GPUs in thousandths."""

    nodes: Annotated[Path, Option("Servers of the trace, CSV or CSV.gz.", argument="nodes")]
    pods: Annotated[Path, Option("One of its lists of pods, CSV or CSV.gz.", argument="pods")]
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


class _Node(Model):
    sn: Name
    cpu_milli: NonNegative
    memory_mib: NonNegative
    gpu: _Gpus
    model: Name | None = None


class _Pod(Model):
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


@Importer
def import_openb(options: OpenbOptions) -> ConsolidationInstance:
    """Return the consolidation instance of servers and pods of the openb trace."""
    without_nodes, without_pods = RejectedEntries("server"), RejectedEntries("pod")
    nodes = _rows(options.nodes, _Node, without_nodes)
    listed = _rows(options.pods, _PodOfDevices if options.devices else _Pod, without_pods)
    gpus = MILLI * sum(node.gpu for node in nodes)
    pods = listed if options.load is None else _arrived(listed, gpus, options)
    never = _never_placed(pods, nodes) if options.must_place else []
    dropped = frozenset(never)
    pods = [pod for pod in pods if pod.name not in dropped]
    names = list(numbered((pod.name for pod in pods), "{} ({})"))
    document = {
        "name": f"openb-{options.pods.name.split('.')[0]}",
        "source": f"{options.nodes.name} and {options.pods.name}, in the layout of {SOURCE}",
        "assumptions": [
            *_assumptions(pods, listed, gpus, options),
            *_never_placed_note(never),
            *without_nodes.sentences(),
            *without_pods.sentences(),
        ],
        "objectives": ["servers"] if options.must_place else ["value", "servers"],
        "servers": [
            {"name": node.sn, "gpu_model": node.model, **_capacity(node, options.devices)} for node in nodes
        ],
        "jobs": [
            {
                "name": name,
                "tasks": 1,
                "value": pod.gpu,
                "must_place": options.must_place,
                "gpu_model": list(pod.gpu_spec) or None,
                **_demand(pod, options.devices),
            }
            for name, pod in zip(names, pods, strict=True)
        ],
    }
    return validated(ConsolidationInstance, document, str(options.pods))


def _never_placed(pods: Sequence[_Pod], nodes: Sequence[_Node]) -> list[str]:
    """Return the names of pods that fit on no server and would make the instance infeasible."""
    shapes = {(node.model, node.gpu * MILLI, node.cpu_milli, node.memory_mib) for node in nodes}
    return [
        pod.name
        for pod in dict.fromkeys(pods)
        if not any(
            (not pod.gpu_spec or model in pod.gpu_spec)
            and pod.gpu <= gpu
            and pod.cpu_milli <= cpu
            and pod.memory_mib <= memory
            for model, gpu, cpu, memory in shapes
        )
    ]


def _never_placed_note(names: Sequence[str]) -> Iterator[str]:
    if names:
        are = counted(len(names), "pod fits on no server and is", "pods fit on no server and are")
        yield f"{are} left out, for the others could not all be placed with them: {some(names)}."


def _capacity(node: _Node, devices: bool) -> dict[str, Any]:
    """Return the capacity fields of a server, with GPUs as devices or as one amount."""
    amounts = {"cpu": node.cpu_milli, "memory_mib": node.memory_mib}
    if devices:
        return {"capacity": amounts, "devices": {"gpu": {"count": node.gpu}} if node.gpu else None}
    return {"capacity": {"gpu": MILLI * node.gpu, **amounts}}


def _demand(pod: _Pod, devices: bool) -> dict[str, Any]:
    """Return the demand fields of a pod; for GPUs whole devices, a share of one, or an amount."""
    amounts = {"cpu": pod.cpu_milli, "memory_mib": pod.memory_mib}
    if not devices:
        return {"task_demand": {"gpu": pod.gpu, **amounts}}
    if not pod.gpu:
        return {"task_demand": amounts}
    kind = {"devices": {"gpu": pod.num_gpu}} if pod.gpu_milli == MILLI else {"share": {"gpu": pod.gpu_milli}}
    return {"task_demand": amounts, **kind}


def _rows(path: Path, model: type[RowT], left_out: RejectedEntries) -> list[RowT]:
    """Return the valid rows of a CSV file, without duplicates of the first field, the name.

    Raises
    ------
    InstanceError
        If the file is no such table, or has no valid row.
    """
    misfits: list[Fault] = []
    fields = model.model_fields
    name = next(iter(fields))
    entries = (
        (f"line {line}", cells.get(name, f"line {line}"), {key: cells[key] for key in fields if key in cells})
        for line, cells in model_rows(path, model, misfits)
    )
    rows = list(valid_entries(model, entries, str(path), left_out, lambda row: getattr(row, name)))
    for fault in misfits:
        left_out.add(None, fault.path, Fault(fault.source, "", fault.what))
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
    again = (generator.choice(listed) for _ in itertools.repeat(None))
    arrived: list[_Pod] = []
    asked = 0
    for pod in itertools.chain(shuffled, again):
        asked += pod.gpu
        if asked > options.load * gpus:
            return arrived
        if len(arrived) == len(listed) + MAX_AGAIN:
            raise fail("options", f"takes more than {MAX_AGAIN:,} pods a second time; lower it", "load")
        arrived.append(pod)
    raise AssertionError("random pods end")


def _assumptions(
    pods: Sequence[_Pod], listed: Sequence[_Pod], gpus: int, options: OpenbOptions
) -> Iterator[str]:
    asked = sum(pod.gpu for pod in pods)
    share = f" ({asked / gpus:.2%})" if gpus else ""
    which = f"{min(len(pods), len(listed))} of the {len(listed)} pods of the list"
    shuffled = "" if options.load is None else f", shuffled by seed {options.seed},"
    yield (
        f"{which}{shuffled} are present at once; they ask for {asked / MILLI:,.2f} of "
        f"{gpus / MILLI:,.0f} GPUs{share}. Times are not used."
    )
    if len(pods) > len(listed):
        again = counted(len(pods) - len(listed), "pod comes", "pods come")
        yield f"As the list asks for less, {again} a second time, drawn at random, and count too."
    yield "Shares of GPUs, CPUs and values are in thousandths, memory in MiB. All servers are empty."
    if not options.devices:
        yield (
            "GPUs are pooled: a plan may give a pod that asks for a share of one GPU parts of several GPUs "
            "of a server."
        )
    if options.must_place:
        yield "Every pod must be placed, on the fewest servers."
    else:
        yield "A pod is worth the GPUs that it asks for, one that asks for none nothing, and may be left out."


SHORTEST_S = 1.0


class OpenbTraceOptions(ImportOptions):
    """Pods of Alibaba's trace openb by their creation (2023): a scheduling instance, servers as one pool."""

    nodes: Annotated[Path, Option("Servers of the trace, CSV or CSV.gz.", argument="nodes")]
    pods: Annotated[Path, Option("One of its lists of pods, CSV or CSV.gz.", argument="pods")]
    gpus: Annotated[
        PositiveCount | None,
        Option("GPUs of the cluster, with CPUs and memory in proportion. [default: all]"),
    ] = None


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
    def demand(self) -> dict[str, float]:
        """The positive demands of the pod, by resource."""
        asked = {
            "gpu": self.num_gpu * self.gpu_milli / MILLI,
            "cpu": self.cpu_milli / MILLI,
            "memory_mib": self.memory_mib,
        }
        return {name: amount for name, amount in asked.items() if amount}


@Importer
def import_openb_trace(options: OpenbTraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of the pods of the openb trace that ran and ended."""
    nodes, placed = rows_of(options.nodes, _TraceNode), numbered_rows_of(options.pods, _TracePod)
    pods = list(placed.values())
    gpus = sum(node.gpu for node in nodes)
    if not gpus:
        raise fail(str(options.nodes), "has no GPUs")
    share = 1.0 if options.gpus is None else options.gpus / gpus
    cluster = {
        "gpu": gpus * share,
        "cpu": sum(node.cpu_milli for node in nodes) / MILLI * share,
        "memory_mib": sum(node.memory_mib for node in nodes) * share,
    }
    ran = {
        place: pod
        for place, pod in placed.items()
        if pod.scheduled_time is not None and pod.deletion_time is not None and pod.demand
    }
    fitting = {
        place: pod
        for place, pod in ran.items()
        if all(pod.demand.get(name, 0.0) <= most for name, most in cluster.items())
    }
    fit = list(fitting.values())
    if not fit:
        raise fail(str(options.pods), "has no pod that ran, ended and fits; times are needed of both")
    begin = min(pod.creation_time for pod in fit)
    names = numbered((pod.name for pod in fit), "{} ({})")
    return gpu_trace(
        f"openb-{options.pods.name.split('.')[0]}",
        f"{options.nodes.name} and {options.pods.name}, in the layout of {SOURCE}",
        {"resources": cluster},
        [_job(name, pod, begin) for name, pod in zip(names, fit, strict=True)],
        _trace_assumptions(options, pods, len(ran), fit, cluster["gpu"]),
        Origin(str(options.pods), tuple(fitting)),
        (FREE,),
    )


def _ran_s(pod: _TracePod) -> float:
    assert pod.scheduled_time is not None
    assert pod.deletion_time is not None
    return pod.deletion_time - pod.scheduled_time


def _job(name: str, pod: _TracePod, begin: float) -> dict[str, Any]:
    return {
        "name": name,
        "arrival_s": pod.creation_time - begin,
        "demand": pod.demand,
        "duration_s": max(_ran_s(pod), SHORTEST_S),
    }


def _trace_assumptions(
    options: OpenbTraceOptions, pods: list[_TracePod], ran: int, fit: list[_TracePod], gpus: float
) -> Iterable[str]:
    yield (
        f"{len(fit):,} of the {len(pods):,} pods of the list; a pod arrives when it was created and runs as "
        "long as it did there, from being scheduled to its deletion."
    )
    if options.gpus is not None:
        yield f"The cluster is chosen, not the source's: {gpus:,.0f} GPUs, CPUs and memory in proportion."
    if ran < len(pods):
        yield f"{len(pods) - ran:,} pods that did not run or did not end are left out."
    if len(fit) < ran:
        yield f"{ran - len(fit):,} pods that ask for more than there is are left out."
    short = sum(_ran_s(pod) < SHORTEST_S for pod in fit)
    if short:
        yield f"{short:,} durations under 1 s count as 1 s."
    yield "All servers are one pool: a pod may be given parts of several servers, and of several GPUs."
    if any(pod.gpu_spec for pod in fit):
        yield "Which GPU models a pod may use is not kept."
