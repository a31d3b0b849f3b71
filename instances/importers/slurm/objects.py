"""The parts of Slurm's nodes and jobs that the importer reads, under the names that Slurm gives them.

A number may be plain or ``{"set": …, "infinite": …, "number": …}``, a list may be one text with commas, and
the newer ``sinfo --json`` has blocks where ``scontrol show nodes --json`` has one field for each figure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from ...common.fields import Many, Part
from ...common.hostlist import expand_hostlist
from ...common.printable import shown

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
        what = "is {given}, not a number from 0 to 1e15, plain or as (set, infinite, number)"
        raise PydanticCustomError("number", what, {"given": shown(value)})
    return float(value)


def _as_words(value: Any, between: str = ",") -> Any:
    if isinstance(value, str):
        return tuple(word.strip() for word in re.split(f"[{between}]", value) if word.strip())
    return () if value is None else value


def _as_hosts(value: Any) -> Any:
    """Return the names of nodes that a text, or a list of texts, stands for."""
    items = [value] if isinstance(value, str) else value
    if items is None:
        return ()
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        what = "is {given}, not a list of nodes such as 'n[001-004,7]'"
        raise PydanticCustomError("hosts", what, {"given": shown(value)})
    return tuple(name for item in items for name in expand_hostlist(item))


def _text(parse: Callable[[str], Any]) -> BeforeValidator:
    """Return what reads a text, or nothing as empty text."""
    return BeforeValidator(
        lambda value: parse(value or "") if value is None or isinstance(value, str) else value
    )


def _amount(text: str, unit: int) -> float:
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"has the amount {text[:20]!r}; write a number such as 4 or 16G")
    power = _UNITS[match[2]] - unit if match[2] else 0
    return float(Decimal(match[1]) * Decimal(1024) ** power)


def parse_gres(text: str) -> dict[str, float]:
    """Return GPUs by type of a text such as ``gpu:a100:4(S:0-1),gpu:2,mps:400``; no type is empty text.

    Raises
    ------
    ValueError
        If the count of a GPU is none.
    """
    found: dict[str, float] = defaultdict(float)
    # What stands in brackets, such as (IDX:0,2-3), says which ones and may hold commas.
    for part in re.sub(r"\([^()]*\)", "", "" if text in _NO_GRES else text).split(","):
        words = re.split(r"[:=]", part.strip().removeprefix("gres/").removeprefix("gres:"))
        if words[0] != "gpu":
            continue
        kind, count = (words[1] if len(words) > 2 else "", words[-1] if len(words) > 1 else "1")
        if len(words) == 2 and not count[:1].isdigit():
            kind, count = count, "1"
        found[kind] += _amount(count, 0)
    return dict(found)


def parse_shards(text: str) -> float:
    """Return the shards of GPUs of a text such as ``gpu:a100:4,shard:a100:40(10/10,0/10)``.

    Raises
    ------
    ValueError
        If a count of shards is none.
    """
    found = 0.0
    for part in re.sub(r"\([^()]*\)", "", "" if text in _NO_GRES else text).split(","):
        words = re.split(r"[:=]", part.strip().removeprefix("gres/").removeprefix("gres:"))
        if words[0] == "shard":
            found += _amount(words[-1] if len(words) > 1 else "1", 0)
    return found


def parse_places(text: str) -> tuple[int, ...]:
    """Return the numbers of the GPUs of a text such as ``gpu:a100:3(IDX:0,2-3)``; none if it has none."""
    found: list[int] = []
    for listed in re.findall(r"(?:^|[,/])gpu[^,()]*\(IDX:([0-9,-]+)\)", text):
        for part in listed.split(","):
            low, _, high = part.partition("-")
            # A server has few devices; what is no number below is of no use.
            if re.fullmatch(r"[0-9]{1,3}(-[0-9]{1,3})?", part):
                found += range(int(low), int(high or low) + 1)
    return tuple(found)


def parse_tres(text: str) -> dict[str, float]:
    """Return what a text such as ``cpu=4,mem=16G,node=1,gres/gpu=2`` lists; memory is in MiB.

    Raises
    ------
    ValueError
        If an entry has no amount.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, sign, amount = part.strip().rpartition("=")
        if sign and (name in ("cpu", "mem", "node", "gres/shard") or name.startswith("gres/gpu")):
            found[name] = _amount(amount, 2 if name == "mem" else 0)
    return found


Number = Annotated[float | None, BeforeValidator(_as_number)]
Words = Annotated[Many[str], BeforeValidator(_as_words)]
States = Annotated[Many[str], BeforeValidator(lambda value: _as_words(value, ",+"))]
Hosts = Annotated[tuple[str, ...], BeforeValidator(_as_hosts)]
Gres = Annotated[dict[str, float], _text(parse_gres)]
Shards = Annotated[float, _text(parse_shards)]
Places = Annotated[tuple[int, ...], _text(parse_places)]
Tres = Annotated[dict[str, float], _text(parse_tres)]


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
    gres: Gres = {}
    gres_used: Gres = {}
    features: Words = ()
    active_features: Words = ()
    shards: Shards = Field(default=0.0, validation_alias="gres")
    shards_used: Shards = Field(default=0.0, validation_alias="gres_used")


class NodeRecords(Part):
    """The document that holds them."""

    nodes: Many[NodeRecord]


class _State(Part):
    state: States


class _Nodes(Part):
    nodes: Hosts


class _Range(Part):
    minimum: Number
    allocated: Number = None


class _Gres(Part):
    total: Gres = {}
    used: Gres = {}
    shards: Shards = Field(default=0.0, validation_alias="total")
    shards_used: Shards = Field(default=0.0, validation_alias="used")


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
    state_reason: str | None = None
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
    tres_per_job: Gres = {}
    tres_per_node: Gres = {}
    tres_per_socket: Gres = {}
    tres_per_task: Gres = {}
    gres_detail: Many[Gres] | None = None
    shards_per_job: Shards = Field(default=0.0, validation_alias="tres_per_job")
    shards_per_node: Shards = Field(default=0.0, validation_alias="tres_per_node")
    shards_per_socket: Shards = Field(default=0.0, validation_alias="tres_per_socket")
    shards_per_task: Shards = Field(default=0.0, validation_alias="tres_per_task")
    places_detail: Many[Places] | None = Field(default=None, validation_alias="gres_detail")
    shards_detail: Many[Shards] | None = Field(default=None, validation_alias="gres_detail")
    array_job_id: Number = None
    array_task_id: Number = None
    array_task_string: str | None = None
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
    qos: str | None = None
    licenses: str | None = None
    resv_name: str | None = None
    dependency: str | None = None
    admin_comment: str | None = None


class JobRecords(Part):
    """The document that holds them; each is a `JobRecord`, if it is valid."""

    jobs: tuple[Any, ...]
