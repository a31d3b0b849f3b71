"""Slurm's nodes, from either of the two layouts in which its commands print them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...common.errors import refuse_faults
from ...common.faults import validated
from ...common.fields import repeated
from ...files.reading import fail, read_mapping
from .objects import NodeRecord, NodeRecords, SinfoRow, SinfoRows

UNUSABLE = frozenset(
    (
        "BLOCKED",
        "DOWN",
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "DYNAMIC_FUTURE",
        "ERROR",
        "FAIL",
        "FAILED",
        "FAILING",
        "FUTURE",
        "INVALID",
        "INVALID_REG",
        "MAINT",
        "MAINTENANCE",
        "MAN_POWER_DOWN",
        "NOT_RESPONDING",
        "POWERING_DOWN",
        "POWER_DOWN",
        "POWER_DRAIN",
        "REBOOT_ISSUED",
        "REBOOT_REQUESTED",
        "RESERVED",
        "UNKNOWN",
    )
)
"""States in which a node takes no job, or only those of its reservation."""


@dataclass
class SlurmNode:
    """A node.

    Parameters
    ----------
    name
        Its NodeName.
    states
        In capitals.
    cpus, memory_mib, gpus
        What it has for jobs; GPUs by type.
    used_cpus, used_memory_mib
        What its jobs hold; None where the source does not say.
    used_gpus
        What its jobs hold.
    partitions
        Those that contain it.
    used_by_type
        The GPUs that its jobs hold, by type.
    shards, used_shards
        Shards of its GPUs, and what its jobs hold of them.
    features
        Those that are active, of all that it may have.
    """

    name: str
    states: frozenset[str]
    cpus: float
    memory_mib: float
    gpus: dict[str, float]
    used_cpus: float | None
    used_memory_mib: float | None
    used_gpus: float
    partitions: set[str] = field(default_factory=set)
    used_by_type: dict[str, float] = field(default_factory=dict)
    shards: float = 0.0
    used_shards: float = 0.0
    features: frozenset[str] = frozenset()

    @property
    def usable(self) -> bool:
        """Whether it takes jobs."""
        return not self.states & UNUSABLE

    @property
    def gpu_model(self) -> str | None:
        """The type of its GPUs, if they have one."""
        types = [kind for kind, count in self.gpus.items() if count]
        return (types[0] or None) if len(types) == 1 else None


def read_nodes(path: Path) -> list[SlurmNode]:
    """Return the nodes of a file, each once.

    Raises
    ------
    InstanceError
        If the file is wrong; one fault a line.
    """
    source = str(path)
    what = "has neither 'nodes' nor 'sinfo'; give what scontrol show nodes --json or sinfo --json prints"
    data = read_mapping(path, what)
    if not {"nodes", "sinfo"} & set(data):
        raise fail(source, "the first file lists jobs; nodes are wanted" if "jobs" in data else what)
    if "nodes" in data:
        records = validated(NodeRecords, {"nodes": data["nodes"]}, source).nodes
        twice = "{value!r} is listed twice; each node may stand once"
        refuse_faults(source, repeated((record.name for record in records), "nodes", what=twice))
        return list(map(_from_record, records))
    nodes: dict[str, SlurmNode] = {}
    for node in _from_rows(validated(SinfoRows, {"sinfo": data["sinfo"]}, source).sinfo):
        known = nodes.setdefault(node.name, node)
        known.partitions |= node.partitions
    return list(nodes.values())


def _states(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word.upper().rstrip("*~#!%$@^-") for word in words)


def _from_record(record: NodeRecord) -> SlurmNode:
    cpus = record.cpus if record.effective_cpus is None else record.effective_cpus
    return SlurmNode(
        name=record.name,
        states=_states(record.state + record.state_flags),
        cpus=cpus or 0.0,
        memory_mib=max(0.0, (record.real_memory or 0.0) - (record.specialized_memory or 0.0)),
        gpus=record.gres,
        used_cpus=record.alloc_cpus,
        used_memory_mib=record.alloc_memory,
        used_gpus=sum(record.gres_used.values()),
        partitions=set(record.partitions),
        used_by_type=record.gres_used,
        shards=record.shards,
        used_shards=record.shards_used,
        features=frozenset(record.active_features or record.features),
    )


def _from_rows(rows: tuple[SinfoRow, ...]) -> Iterator[SlurmNode]:
    """Return the nodes of each row; only a row of one node says what its jobs hold of CPUs and memory.

    The GPUs in use are the same on all nodes of a row, as sinfo puts only such nodes together.
    """
    for row in rows:
        alone = len(row.nodes.nodes) == 1
        for name in row.nodes.nodes:
            yield SlurmNode(
                name=name,
                states=_states(row.node.state),
                cpus=row.cpus.minimum or 0.0,
                memory_mib=row.memory.minimum or 0.0,
                gpus=row.gres.total,
                used_cpus=row.cpus.allocated if alone or row.cpus.allocated == 0 else None,
                used_memory_mib=row.memory.allocated if alone else None,
                used_gpus=sum(row.gres.used.values()),
                partitions={row.partition.name.rstrip("*")}
                if row.partition and row.partition.name
                else set(),
                used_by_type=row.gres.used,
                shards=row.gres.shards,
                used_shards=row.gres.shards_used,
                features=frozenset(row.features.active or row.features.total),
            )
