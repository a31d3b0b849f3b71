"""Gavel's command for both kinds of instance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.importers import import_gavel_either
from clusterplan.instances.importers.traces.gavel import import_gavel_consolidation

CLUSTER = {"gpu_type": "v100", "servers": 2, "gpus_per_server": 4}


def write(folder: Path) -> tuple[Path, Path]:
    """Write a speed table and a trace of one job."""
    speeds = {"('A', 2)": {"null": 2.0}}
    apart = {"('A', 2)": {"null": 1.0}}
    (folder / "s.json").write_text(json.dumps({"v100": speeds, "v100_unconsolidated": apart}))
    (folder / "t.trace").write_text("\t".join(["A", "c", "-n", "0", "100", "0", "2"]) + "\n")
    return folder / "s.json", folder / "t.trace"


def test_the_kind_decides(tmp_path: Path) -> None:
    """Each kind has the instance of its own importer."""
    files = write(tmp_path)
    assert import_gavel_either(*files, capacity={"v100": 4}).kind == "allocation"
    instance = import_gavel_either(*files, kind="consolidation", **CLUSTER)
    assert instance == import_gavel_consolidation(*files, **CLUSTER)
    assert instance.jobs[0].speed_by_servers == {1: 1.0, 2: 0.5}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "--capacity is missing; --kind allocation needs --capacity"),
        ({"kind": "consolidation"}, "--gpu-type is missing"),
        ({"kind": "consolidation", **CLUSTER, "capacity": {"v100": 1}}, "--capacity goes with --kind alloc"),
        ({"capacity": {"v100": 1}, "servers": 2}, "--servers goes with --kind consolidation only"),
    ],
)
def test_options_go_with_their_kind(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    """Those that are missing, and those of the other kind."""
    with pytest.raises(OptionError, match=words):
        import_gavel_either(*write(tmp_path), **options)
