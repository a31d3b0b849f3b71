"""Nodes as scontrol and sinfo print them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.slurm.nodes import SlurmNode, read_nodes

NODE = {
    "name": "n1",
    "state": ["IDLE"],
    "cpus": 8,
    "real_memory": 4096,
    "gres": "gpu:a100:4",
    "alloc_cpus": 2,
}


def read(folder: Path, document: Any) -> list[SlurmNode]:
    """Return the nodes of a document."""
    (folder / "n.json").write_text(json.dumps(document))
    return read_nodes(folder / "n.json")


def test_a_node_of_scontrol(tmp_path: Path) -> None:
    """CPUs, memory without what is kept for the system, GPUs by type."""
    (node,) = read(tmp_path, {"nodes": [NODE | {"specialized_memory": 96}]})
    assert (node.cpus, node.memory_mib, node.gpus, node.used_cpus) == (8, 4000, {"a100": 4}, 2)
    assert (node.usable, node.gpu_model) == (True, "a100")
    (down,) = read(tmp_path, {"nodes": [NODE | {"state": ["DOWN*"]}]})
    assert not down.usable


def test_rows_of_sinfo(tmp_path: Path) -> None:
    """What nodes of one row hold is only known where the row has one node, or holds nothing."""
    row = {"node": {"state": ["MIXED"]}, "nodes": {"nodes": ["n[1-2]"]}, "partition": {"name": "p*"}}
    row |= {"cpus": {"minimum": 8, "allocated": 6}, "memory": {"minimum": 100, "allocated": 50}, "gres": {}}
    nodes = read(tmp_path, {"sinfo": [row]})
    assert [(node.name, node.used_cpus, node.partitions) for node in nodes] == [
        ("n1", None, {"p"}),
        ("n2", None, {"p"}),
    ]
    (alone,) = read(tmp_path, {"sinfo": [row | {"nodes": {"nodes": ["n1"]}}]})
    assert (alone.used_cpus, alone.used_memory_mib) == (6, 50)


def test_what_is_no_list_of_nodes(tmp_path: Path) -> None:
    """Files given in the wrong order, nodes that stand twice."""
    for document, words in (
        ({"jobs": []}, "the first file lists jobs"),
        ({}, "neither 'nodes' nor 'sinfo'"),
        ({"nodes": [NODE, NODE]}, "'n1' is listed twice"),
    ):
        with pytest.raises(InstanceError, match=words):
            read(tmp_path, document)
