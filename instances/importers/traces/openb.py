"""openb as a trace: pods of Alibaba's cluster from their creation to their deletion, on all its servers.

Files as in `import_openb`; pods have creation_time, scheduled_time and deletion_time in seconds beside.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from ...common.fields import Count, Model, Name, NonNegative, PositiveCount
from ...files.reading import fail
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from ..node_restrictions import numbered
from ..openb import MILLI, SOURCE
from .gpu_trace import FREE, Origin, gpu_trace, numbered_rows_of, rows_of

SHORTEST_S = 1.0


class OpenbTraceOptions(ImportOptions):
    """Pods of Alibaba's trace openb by their creation (2023): a scheduling instance, servers as one pool."""

    nodes: Annotated[Path, Option("Servers of the trace, CSV or CSV.gz.", argument="nodes")]
    pods: Annotated[Path, Option("One of its lists of pods, CSV or CSV.gz.", argument="pods")]
    gpus: Annotated[
        PositiveCount | None,
        Option("GPUs of the cluster, with CPUs and memory in proportion. [default: all]"),
    ] = None


class _Node(Model):
    cpu_milli: NonNegative
    memory_mib: NonNegative
    gpu: Count


class _Pod(Model):
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
        """What it asks for, without what it does not."""
        asked = {
            "gpu": self.num_gpu * self.gpu_milli / MILLI,
            "cpu": self.cpu_milli / MILLI,
            "memory_mib": self.memory_mib,
        }
        return {name: amount for name, amount in asked.items() if amount}


@Importer
def import_openb_trace(options: OpenbTraceOptions) -> SchedulingInstance:
    """Return the scheduling instance of the pods of the openb trace that ran and ended."""
    nodes, placed = rows_of(options.nodes, _Node), numbered_rows_of(options.pods, _Pod)
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
        _assumptions(options, pods, len(ran), fit, cluster["gpu"]),
        Origin(str(options.pods), tuple(fitting)),
        (FREE,),
    )


def _ran_s(pod: _Pod) -> float:
    assert pod.scheduled_time is not None
    assert pod.deletion_time is not None
    return pod.deletion_time - pod.scheduled_time


def _job(name: str, pod: _Pod, begin: float) -> dict[str, Any]:
    return {
        "name": name,
        "arrival_s": pod.creation_time - begin,
        "demand": pod.demand,
        "duration_s": max(_ran_s(pod), SHORTEST_S),
    }


def _assumptions(
    options: OpenbTraceOptions, pods: list[_Pod], ran: int, fit: list[_Pod], gpus: float
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
