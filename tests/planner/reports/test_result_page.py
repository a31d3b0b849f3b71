"""The files of a frontier: large documents are packed, and read like plain ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.planner.pareto import pareto
from clusterplan.planner.reports import result_page
from clusterplan.planner.stored_results import read_results, verify_stored


def test_a_large_document_is_packed_and_verified_like_a_plain_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever an earlier run has left is gone."""
    instance = generate_scheduling(6, 4, seed=1)
    frontier = pareto(instance, least=32, most=33)
    for most, name, gone in (
        (10**9, "frontier.json", "frontier.json.gz"),
        (10, "frontier.json.gz", "frontier.json"),
        (10**9, "frontier.json", "frontier.json.gz"),
    ):
        monkeypatch.setattr(result_page, "MOST_PLAIN", most)
        written = result_page.write(instance, frontier, tmp_path)
        assert tmp_path / name in written
        assert not (tmp_path / gone).exists()
        (stored,) = read_results(tmp_path / name)
        assert verify_stored(instance, stored, name).ok


def test_a_damaged_packed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "frontier.json.gz"
    path.write_bytes(b"\x1f\x8b nothing")
    with pytest.raises(InstanceError, match="gzip"):
        read_results(path)
