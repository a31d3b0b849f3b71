"""Slurm's jobs as jobs of identical tasks: what a task is, what it demands, and where tasks run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor

from .objects import JobRecord

SHARES = "A job is placed in equal shares"
"""How the assumption begins that says that what is placed of jobs with GPUs are not Slurm's tasks."""
PLACED = "clusterplan"
"""The comment that the script of a plan gives to jobs whose nodes it chooses."""
MOST_ARRAY_TASKS = 1_000
"""Of a pending array, so many are planned."""
LONGEST_NAME = 150
WAITING_FOR_RESOURCES = ("", "None", "Priority", "Resources", "ReqNodeNotAvail")

_FEATURE = re.compile(r"[A-Za-z0-9_.:-]+")
_ARRAY_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([1-9][0-9]{0,8}))?)?")


@dataclass(frozen=True)
class SlurmJob:
    """A job, or one task of a job array.

    Parameters
    ----------
    name
        Its id and name.
    tasks
        How many equal shares it is placed in.
    cpus, memory_gib, gpus
        What each of them demands.
    gpu_model
        The only type of GPU that it asks for.
    current
        Node → tasks there; empty for a job that waits.
    shards, profile
        Where GPUs are planned as devices: what each of them demands of one GPU.
    record
        What Slurm says of it.
    """

    name: str
    tasks: int
    cpus: float
    memory_gib: float
    gpus: float
    gpu_model: str | None
    current: dict[str, int] = field(default_factory=dict)
    shards: int = 0
    profile: str = ""
    record: JobRecord = field(kw_only=True)


def is_running(record: JobRecord) -> bool:
    """Return whether a job runs on its nodes, and is not about to leave them."""
    return "RUNNING" in record.job_state and "COMPLETING" not in record.job_state and bool(record.nodes)


def waits(record: JobRecord) -> bool:
    """Return whether a job waits."""
    return "PENDING" in record.job_state and "REVOKED" not in record.job_state


def waits_for_resources(record: JobRecord) -> bool:
    """Return whether a waiting job could start if there were room."""
    return (record.state_reason or "").split(",")[0].strip() in WAITING_FOR_RESOURCES


def why_it_stays(record: JobRecord) -> str:
    """Return why a running job cannot be requeued, and then started elsewhere; nothing if it can."""
    if record.batch_flag in (False, 0) and record.batch_flag is not None:
        return "interactive"
    if record.requeue in (False, 0) and record.requeue is not None:
        return "Requeue=0"
    if record.het_job_id:
        return "part of a heterogeneous job"
    # As soon as it stops, the next task of its array takes its turn.
    return "array with a limit of running tasks" if record.array_max_tasks else ""


def is_by_node(record: JobRecord) -> bool:
    """Return whether a job asks for GPUs on each of several nodes."""
    asks = record.tres_per_node or record.tres_per_socket or record.shards_per_node
    return bool(asks) and nodes_of(record) > 1


def named_nodes(record: JobRecord) -> frozenset[str]:
    """Return the nodes that a job asks for itself; not those on which the script of a plan has placed it."""
    return frozenset() if record.admin_comment == PLACED else frozenset(record.required_nodes)


def needed_nodes(record: JobRecord) -> frozenset[str]:
    """Return the nodes that a job is placed on only: those it names, if it asks for no more than these."""
    named = named_nodes(record)
    asked = _whole(record.tres_req_str.get("node") or record.node_count)
    return named if asked <= len(named) else frozenset()


def has_features(record: JobRecord, features: Collection[str]) -> bool:
    """Return whether a node with these features will do; never where a job's wish is no list of features.

    Slurm writes ``a&b`` or ``a,b`` where all are needed, and ``a|b`` where one is. Other forms have brackets,
    counts or both signs.
    """
    text = record.features if isinstance(record.features, str) else ""
    for between, enough in (("&,", all), ("|", any)):
        words = re.split(f"[{between}]", text)
        if all(map(_FEATURE.fullmatch, words)):
            return enough(word in features for word in words)
    return False


def jobs_of(record: JobRecord) -> Iterator[SlurmJob]:
    """Return the job of a record, or the tasks of the array that it stands for."""
    tasks = array_tasks(record)
    if not tasks:
        member = record.array_job_id and record.array_task_id is not None
        identity = f"{record.array_job_id:.0f}_{record.array_task_id:.0f}" if member else str(record.job_id)
        yield _job(record, identity)
    for task in tasks[:MOST_ARRAY_TASKS]:
        yield _job(record, f"{record.job_id}_{task}")


def array_tasks(record: JobRecord) -> Sequence[int]:
    """Return the numbers of the array tasks that still wait in one record; empty if it is no such record.

    Of a list that Slurm has cut short with an ellipsis, those that it names.
    """
    text = record.array_task_string or ""
    if record.array_task_id is not None or not waits(record):
        return []
    found: list[int] = []
    for part in text.partition("%")[0].strip("[] ").split(","):
        match = _ARRAY_RANGE.fullmatch(part.strip())
        if match is not None and len(found) <= MOST_ARRAY_TASKS:
            low, high, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
            found += range(low, min(high, low + step * MOST_ARRAY_TASKS) + 1, step)
    return found


def _job(record: JobRecord, identity: str) -> SlurmJob:
    running, tres, nodes = is_running(record), _tres(record), nodes_of(record)
    gpus = tres.get("gres/gpu", sum(_typed(tres).values())) or _untracked_gpus(record, nodes)
    asked = types_of(record)
    cpus = tres.get("cpu") or record.cpus or 0.0
    memory = tres.get("mem")
    if memory is None:
        memory = (record.memory_per_node or 0.0) * nodes or (record.memory_per_cpu or 0.0) * cpus
    tasks = _tasks(record, gpus, nodes)
    label = record.name if record.name and record.name.isprintable() else ""
    return SlurmJob(
        name=f"{identity} {label}".strip()[:LONGEST_NAME].strip(),
        tasks=tasks,
        cpus=cpus / tasks,
        memory_gib=memory / 1024 / tasks,
        gpus=gpus / tasks,
        gpu_model=asked[0] if len(asked) == 1 else None,
        current=spread_over(record, tasks) if running else {},
        record=record,
    )


def _tres(record: JobRecord) -> dict[str, float]:
    return record.tres_alloc_str if is_running(record) and record.tres_alloc_str else record.tres_req_str


def nodes_of(record: JobRecord) -> int:
    """Return how many nodes a job has or asks for."""
    listed = len(record.nodes) if is_running(record) else _tres(record).get("node") or record.node_count
    return _whole(listed)


def places_of(record: JobRecord, node: str) -> tuple[int, ...]:
    """Return the numbers of the GPUs that a running job has on a node, if Slurm lists them."""
    listed = record.places_detail or ()
    if len(listed) != len(record.nodes) or node not in record.nodes:
        return ()
    return tuple(sorted(set(listed[record.nodes.index(node)])))


def shards_of(record: JobRecord) -> float:
    """Return the shards of GPUs that a job has or asks for on all its nodes."""
    held = sum(record.shards_detail or ()) if is_running(record) else 0.0
    per_node = record.shards_per_node or record.shards_per_socket * _whole(record.sockets_per_node)
    asked = record.shards_per_job or per_node * nodes_of(record)
    return _tres(record).get("gres/shard") or held or asked or record.shards_per_task * _whole(record.tasks)


def _typed(tres: Mapping[str, float]) -> dict[str, float]:
    """Return the GPUs by type, where types are named."""
    return {name.partition(":")[2]: count for name, count in tres.items() if name.startswith("gres/gpu:")}


def _untracked_gpus(record: JobRecord, nodes: int) -> float:
    """Return the GPUs of a job where Slurm is not configured to track them, and lists them nowhere else."""
    held = sum(sum(gres.values()) for gres in record.gres_detail or ()) if is_running(record) else 0.0
    per_node = sum(record.tres_per_node.values())
    per_socket = sum(record.tres_per_socket.values()) * _whole(record.sockets_per_node)
    per_task = sum(record.tres_per_task.values()) * _whole(record.tasks)
    return held or sum(record.tres_per_job.values()) or (per_node or per_socket) * nodes or per_task


def types_of(record: JobRecord) -> list[str]:
    """Return the types of GPU that a job asks for; newer versions say them only beside the request."""
    requests = (record.tres_per_node, record.tres_per_job, record.tres_per_task, record.tres_per_socket)
    beside = dict.fromkeys(kind for request in requests for kind, count in request.items() if kind and count)
    return [*_typed(record.tres_req_str)] or [*beside]


def _whole(number: float | None) -> int:
    return max(1, round(number or 1))


def _tasks(record: JobRecord, gpus: float, nodes: int) -> int:
    """Return in how many equal shares a job is placed.

    One for each task that asks for GPUs, or each node where they are asked for by node, or else each GPU; a
    job without GPUs has its own tasks.
    """
    if not gpus:
        return _whole(record.tasks)
    shares = _whole(gpus)
    if record.tres_per_task:
        shares = _whole(record.tasks)
    elif record.tres_per_node:
        shares = nodes
    # Shares must be alike; where GPUs do not divide so, each GPU is one.
    return shares if gpus % shares == 0 else _whole(gpus)


def spread_over(record: JobRecord, tasks: int) -> dict[str, int]:
    """Return how many of the tasks are on each node: by its GPUs, or evenly where they are unknown."""
    listed = Counter(record.nodes)
    gpus = [sum(gres.values()) for gres in record.gres_detail or ()]
    weights = dict(zip(record.nodes, gpus, strict=True)) if len(gpus) == len(record.nodes) else {}
    if len(listed) < len(record.nodes) or not sum(weights.values()):
        weights = dict.fromkeys(listed, 1.0)
    whole = sum(weights.values())
    shares = {node: tasks * weight / whole for node, weight in weights.items()}
    placed = {node: floor(share) for node, share in shares.items()}
    # Largest remainders: the tasks left over go to the largest fractions.
    by_rest = sorted(shares, key=lambda node: placed[node] - shares[node])
    for node in by_rest[: tasks - sum(placed.values())]:
        placed[node] += 1
    return {node: count for node, count in placed.items() if count}
