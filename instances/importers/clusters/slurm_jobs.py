"""Jobs of Slurm: data model of its records, and the identical tasks of which a job consists.

The records of nodes are here, too, with Slurm's field names. A number may be plain or
``{"set": …, "infinite": …, "number": …}``, a list may be one text with commas, and the newer ``sinfo
--json`` has blocks where ``scontrol show nodes --json`` has one field for each figure.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import floor
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, InstanceOf

from ...common.fields import NONE_NAMED, Listed, Many, Part, unfit
from ...common.hostlist import expand_hostlist

LARGEST = 1e15
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGTP]?)[A-Za-z]?")
_NO_GRES = ("", "(null)", "N/A")


def _as_number(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.get("infinite") is True or value.get("set") is not True:
            return None
        value = value.get("number")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise unfit("is {given}, not a number from 0 to 1e15, plain or as (set, infinite, number)", value)
    return float(value)


def _as_words(value: Any, between: str = ",") -> Any:
    if isinstance(value, str):
        return tuple(word.strip() for word in re.split(f"[{between}]", value) if word.strip())
    return () if value is None else value


def _as_hosts(value: Any) -> Any:
    """Return the node names that a host list, or a list of them, denotes."""
    items = [value] if isinstance(value, str) else value
    if items is None:
        return ()
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise unfit("is {given}, not a list of nodes such as 'n[001-004,7]'", value)
    return tuple(name for item in items for name in expand_hostlist(item))


def _text(parse: Callable[[str], Any]) -> BeforeValidator:
    """Return a validator that parses text, and None like empty text."""
    return BeforeValidator(
        lambda value: parse(value or "") if value is None or isinstance(value, str) else value
    )


def _amount(text: str, unit: int) -> float:
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"has the amount {text[:20]!r}; write a number such as 4 or 16G")
    power = _UNITS[match[2]] - unit if match[2] else 0
    return float(Decimal(match[1]) * Decimal(1024) ** power)


@dataclass(frozen=True, eq=False)
class Gres:
    """Generic resources of a node or job.

    Attributes
    ----------
    gpus
        GPU type, empty if it is not named → GPUs.
    shards
        Shards of GPUs.
    places
        The indices of the GPUs, if they are listed.
    """

    gpus: Mapping[str, float] = NONE_NAMED
    shards: float = 0.0
    places: tuple[int, ...] = ()


def parse_gres(text: str) -> Gres:
    """Return the GPUs and shards of a text such as ``gpu:a100:3(IDX:0,2-3),gpu:2,shard:a100:40(10/10)``.

    Raises
    ------
    ValueError
        If the count of GPUs or shards is no number.
    """
    gpus: dict[str, float] = defaultdict(float)
    shards = 0.0
    # Text in brackets, such as (IDX:0,2-3), gives indices and may contain commas.
    for part in re.sub(r"\([^()]*\)", "", "" if text in _NO_GRES else text).split(","):
        name, *words = re.split(r"[:=]", part.strip().removeprefix("gres/").removeprefix("gres:"))
        if name == "shard":
            shards += _amount(words[-1] if words else "1", 0)
        elif name == "gpu":
            if len(words) == 1 and not words[0][:1].isdigit():
                words.append("1")
            gpus[words[0] if len(words) > 1 else ""] += _amount(words[-1] if words else "1", 0)
    return Gres(dict(gpus), shards, _places(text))


def _as_gres(value: Any) -> Gres:
    if value is not None and not isinstance(value, str):
        raise unfit("is {given}, not a text such as 'gpu:a100:4'", value)
    return parse_gres(value or "")


def _places(text: str) -> tuple[int, ...]:
    """Return the GPU indices of a text such as ``gpu:a100:3(IDX:0,2-3)``; empty if it has none."""
    indices: list[int] = []
    for listed in re.findall(r"(?:^|[,/])gpu[^,()]*\(IDX:([0-9,-]+)\)", text):
        for part in listed.split(","):
            low, _, high = part.partition("-")
            # A server has few devices; other texts are ignored.
            if re.fullmatch(r"[0-9]{1,3}(-[0-9]{1,3})?", part):
                indices += range(int(low), int(high or low) + 1)
    return tuple(indices)


def parse_tres(text: str) -> dict[str, float]:
    """Return the amounts of a text such as ``cpu=4,mem=16G,node=1,gres/gpu=2``; memory is in MiB.

    Raises
    ------
    ValueError
        If an entry has no amount.
    """
    amounts: dict[str, float] = {}
    for part in text.split(","):
        name, sign, amount = part.strip().rpartition("=")
        if sign and (name in ("cpu", "mem", "node", "gres/shard") or name.startswith("gres/gpu")):
            amounts[name] = _amount(amount, 2 if name == "mem" else 0)
    return amounts


Number = Annotated[float | None, BeforeValidator(_as_number)]
Words = Annotated[Many[str], BeforeValidator(_as_words)]
States = Annotated[Many[str], BeforeValidator(lambda value: _as_words(value, ",+"))]
Hosts = Annotated[tuple[str, ...], BeforeValidator(_as_hosts)]
Resources = Annotated[InstanceOf[Gres], BeforeValidator(_as_gres)]
Tres = Annotated[dict[str, float], _text(parse_tres)]
Text = Annotated[str, _text(str)]


class NodeRecord(Part):
    """A node, as ``scontrol show nodes --json`` and the older ``sinfo --json`` list it."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    state: States
    state_flags: States = ()
    partitions: Words = ()
    cpus: Number
    effective_cpus: Number = None
    real_memory: Number
    specialized_memory: Number = None
    alloc_cpus: Number = None
    alloc_memory: Number = None
    gres: Resources = Gres()
    gres_used: Resources = Gres()
    features: Words = ()
    active_features: Words = ()


class NodeRecords(Part):
    """The document that holds them."""

    nodes: Many[NodeRecord]


class _Reservation(Part):
    nodes: Hosts = Field(default=(), validation_alias="node_list")


class ReservationRecords(Part):
    """The document that ``scontrol show reservation --json`` prints."""

    reservations: Many[_Reservation]


class _State(Part):
    state: States


class _Nodes(Part):
    nodes: Hosts


class _Range(Part):
    minimum: Number
    allocated: Number = None


class _Gres(Part):
    total: Resources = Gres()
    used: Resources = Gres()


class _Features(Part):
    total: Words = ()
    active: Words = ()


class _Partition(Part):
    name: str | None = None


class SinfoRow(Part):
    """Nodes that are alike, as the newer ``sinfo --json`` lists them, once for each of their partitions."""

    node: _State
    nodes: _Nodes
    cpus: _Range
    memory: _Range
    gres: _Gres = _Gres()
    features: _Features = _Features()
    partition: _Partition | None = None


class SinfoRows(Part):
    """The document that holds them."""

    sinfo: Many[SinfoRow]


class JobRecord(Part):
    """A job, as ``squeue --json`` lists it."""

    job_id: Annotated[int, Field(ge=0)]
    name: str | None = None
    job_state: States
    state_reason: Text = ""
    partition: Words = ()
    nodes: Hosts = ()
    node_count: Number = None
    tasks: Number = None
    sockets_per_node: Number = None
    cpus: Number = None
    memory_per_node: Number = None
    memory_per_cpu: Number = None
    tres_req_str: Tres = {}
    tres_alloc_str: Tres = {}
    tres_per_job: Resources = Gres()
    tres_per_node: Resources = Gres()
    tres_per_socket: Resources = Gres()
    tres_per_task: Resources = Gres()
    gres_detail: Listed[Resources] = ()
    array_job_id: Number = None
    array_task_id: Number = None
    array_task_string: Text = ""
    het_job_id: Number = None
    excluded_nodes: Hosts = ()
    required_nodes: Hosts = ()
    required_switches: Number = None
    features: Any = None
    exclusive: Any = None
    shared: Any = None
    priority: Number = None
    batch_flag: Any = None
    requeue: Any = None
    array_max_tasks: Number = None
    qos: Text = ""
    licenses: str | None = None
    resv_name: str | None = None
    dependency: str | None = None
    admin_comment: str | None = None

    @property
    def reason(self) -> str:
        """The first reason why it waits; empty without one."""
        return self.state_reason.split(",")[0].strip()


class JobRecords(Part):
    """The document that holds them; each is a `JobRecord`, if it is valid."""

    jobs: tuple[Any, ...]


EQUAL_SHARES = "A job is placed in equal shares"
"""First words of the assumption that jobs with GPUs are placed in shares, not in Slurm's tasks."""
PLACED = "clusterplan"
"""The comment that the script of a plan sets on jobs whose nodes it chooses."""
MAX_ARRAY_TASKS = 1_000
"""Limit of the planned tasks of a pending array."""
LONGEST_NAME = 150
WAITING_FOR_RESOURCES = ("", "None", "Priority", "Resources", "ReqNodeNotAvail")

_FEATURE = re.compile(r"[A-Za-z0-9_.:-]+")
_ARRAY_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([1-9][0-9]{0,8}))?)?")


@dataclass(frozen=True)
class SlurmJob:
    """A job of the queue, or one task of a job array, to be placed as equal tasks.

    Parameters
    ----------
    name
        Its id and name.
    tasks
        The number of equal shares in which it is placed.
    cpus, memory_gib, gpus
        The demand of each share.
    gpu_model
        The only type of GPU that it requests.
    current
        Node → tasks there; empty for a waiting job.
    shards, profile
        If GPUs are planned as devices: the demand of each share for one GPU.
    unclear
        Why this demand is not clear; empty if it is.
    record
        Slurm's record of the job.
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
    unclear: str = ""
    record: JobRecord = field(kw_only=True)


def is_running(record: JobRecord) -> bool:
    """Return whether a job runs on its nodes and is not completing."""
    return "RUNNING" in record.job_state and "COMPLETING" not in record.job_state and bool(record.nodes)


def is_waiting(record: JobRecord) -> bool:
    """Return whether a job is pending."""
    return "PENDING" in record.job_state and "REVOKED" not in record.job_state


def waits_for_resources(record: JobRecord) -> bool:
    """Return whether a waiting job could start if its resources were free."""
    return record.reason in WAITING_FOR_RESOURCES


def why_it_stays(record: JobRecord) -> str:
    """Return why a running job cannot be requeued and started elsewhere; empty if it can."""
    if record.batch_flag in (False, 0):
        return "interactive"
    if record.requeue in (False, 0):
        return "Requeue=0"
    # As soon as it stops, the next task of its array starts.
    return "array with a limit of running tasks" if record.array_max_tasks else unmodelled(record)


def unmodelled(record: JobRecord) -> str:
    """Return what Slurm would look at before it starts a job, and no plan can; empty if there is nothing."""
    asks = {
        "part of a heterogeneous job": record.het_job_id,
        "needs licences": record.licenses,
        "needs a reservation": record.resv_name,
        "starts after others": record.dependency and is_waiting(record),
        "needs switches": record.required_switches,
        "needs several types of GPU": len(types_of(record)) > 1,
        "needs certain nodes and others": named_nodes(record) and not needed_nodes(record),
        "needs features that are no plain list": record.features and not _features_of(record)[0],
        "needs nodes of its own, and does not say how many": is_exclusive(record)
        and _job(record, "").tasks != nodes_of(record),
    }
    return next((what for what, is_asked in asks.items() if is_asked), "")


def is_exclusive(record: JobRecord) -> bool:
    """Return whether a job requests exclusive nodes; older versions express it by sharing with none."""
    flags = [value if isinstance(value, list) else [value] for value in (record.exclusive, record.shared)]
    return any(flag is True or flag == "true" for flag in flags[0]) or "none" in flags[1]


def is_by_node(record: JobRecord) -> bool:
    """Return whether a job requests its GPUs per node or socket, on several nodes."""
    asks = record.tres_per_node.gpus or record.tres_per_socket.gpus or record.tres_per_node.shards
    return bool(asks) and nodes_of(record) > 1


def named_nodes(record: JobRecord) -> frozenset[str]:
    """Return the names of the nodes that a job requests, without those that a plan's script chose."""
    return frozenset() if record.admin_comment == PLACED else frozenset(record.required_nodes)


def needed_nodes(record: JobRecord) -> frozenset[str]:
    """Return the nodes that a job is restricted to: those it names, if it needs no more; else none."""
    named = named_nodes(record)
    asked = _whole(record.tres_req_str.get("node") or record.node_count)
    return named if asked <= len(named) else frozenset()


def _features_of(record: JobRecord) -> tuple[list[str], Callable[[Iterable[bool]], bool]]:
    """Return the features that a job requests, and whether it needs `all` or `any`; none if no plain list.

    Slurm writes ``a&b`` or ``a,b`` if all are required, and ``a|b`` if one is. Other forms have brackets,
    counts or both signs.
    """
    text = record.features if isinstance(record.features, str) else ""
    for between, enough in (("&,", all), ("|", any)):
        words = re.split(f"[{between}]", text)
        if all(map(_FEATURE.fullmatch, words)):
            return words, enough
    return [], all


def has_features(record: JobRecord, features: Collection[str]) -> bool:
    """Return whether a node's features satisfy a job's request."""
    words, enough = _features_of(record)
    return enough(word in features for word in words)


def jobs_of(record: JobRecord) -> Iterator[SlurmJob]:
    """Yield the job of a record, or one job for each task of a job array."""
    tasks = array_tasks(record)
    if not tasks:
        member = record.array_job_id and record.array_task_id is not None
        identity = f"{record.array_job_id:.0f}_{record.array_task_id:.0f}" if member else str(record.job_id)
        yield _job(record, identity)
    for task in tasks[:MAX_ARRAY_TASKS]:
        yield _job(record, f"{record.job_id}_{task}")


def array_tasks(record: JobRecord) -> Sequence[int]:
    """Return the indices of the pending array tasks of a record; empty if it is no job array.

    Of a list that Slurm has cut with an ellipsis, only the listed ones.
    """
    text = record.array_task_string
    if record.array_task_id is not None or not is_waiting(record):
        return []
    indices: list[int] = []
    for part in text.partition("%")[0].strip("[] ").split(","):
        match = _ARRAY_RANGE.fullmatch(part.strip())
        if match is not None and len(indices) <= MAX_ARRAY_TASKS:
            low, high, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
            indices += range(low, min(high, low + step * MAX_ARRAY_TASKS) + 1, step)
    return indices


def _job(record: JobRecord, identity: str) -> SlurmJob:
    running, tres, nodes = is_running(record), _tres(record), nodes_of(record)
    gpus = tres.get("gres/gpu", sum(typed(tres).values())) or _untracked(record, _gpus_in)
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
    """Return the number of nodes that a job has or requests."""
    listed = len(record.nodes) if is_running(record) else _tres(record).get("node") or record.node_count
    return _whole(listed)


def places_of(record: JobRecord, node: str) -> tuple[int, ...]:
    """Return the GPU indices of a running job on a node; empty if Slurm does not list them."""
    listed = record.gres_detail
    if len(listed) != len(record.nodes) or node not in record.nodes:
        return ()
    return tuple(sorted(set(listed[record.nodes.index(node)].places)))


def shards_of(record: JobRecord) -> float:
    """Return the number of GPU shards that a job has or requests on all its nodes."""
    return _tres(record).get("gres/shard") or _untracked(record, lambda gres: gres.shards)


def typed(tres: Mapping[str, float]) -> dict[str, float]:
    """Return GPU type → number of GPUs, for the TRES entries that name a type."""
    return {name.partition(":")[2]: count for name, count in tres.items() if name.startswith("gres/gpu:")}


def _gpus_in(gres: Gres) -> float:
    return sum(gres.gpus.values())


def _untracked(record: JobRecord, amount: Callable[[Gres], float]) -> float:
    """Return an amount of a job from the fields of its generic resources, if it is not tracked as TRES."""
    in_use = sum(map(amount, record.gres_detail)) if is_running(record) else 0.0
    per_node = amount(record.tres_per_node)
    per_socket = amount(record.tres_per_socket) * _whole(record.sockets_per_node)
    asked = amount(record.tres_per_job) or (per_node or per_socket) * nodes_of(record)
    return in_use or asked or amount(record.tres_per_task) * _whole(record.tasks)


def types_of(record: JobRecord) -> list[str]:
    """Return the GPU types that a job requests; newer versions of Slurm list them in other fields."""
    requests = (record.tres_per_node, record.tres_per_job, record.tres_per_task, record.tres_per_socket)
    beside = dict.fromkeys(
        kind for request in requests for kind, count in request.gpus.items() if kind and count
    )
    return [*typed(record.tres_req_str)] or [*beside]


def _whole(number: float | None) -> int:
    return max(1, round(number or 1))


def _tasks(record: JobRecord, gpus: float, nodes: int) -> int:
    """Return the number of equal tasks into which a job is divided for its placement.

    One for each task if GPUs are requested by task, for each node if by node, or else for each GPU; a job
    without GPUs has its own tasks.
    """
    if not gpus:
        return _whole(record.tasks)
    shares = _whole(gpus)
    if record.tres_per_task.gpus:
        shares = _whole(record.tasks)
    elif record.tres_per_node.gpus:
        shares = nodes
    # Shares must be equal; if the GPUs cannot be divided so, each GPU is one share.
    return shares if gpus % shares == 0 else _whole(gpus)


def spread_over(record: JobRecord, tasks: int) -> dict[str, int]:
    """Return the number of tasks on each node, in proportion to its GPUs, or evenly if these are unknown."""
    listed = Counter(record.nodes)
    gpus = list(map(_gpus_in, record.gres_detail))
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
