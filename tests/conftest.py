"""Fixtures that several tests share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from command_line import Command, Done

# A machine that is busy with other work may take long for one example; times are measured elsewhere.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of published data sets; skip where there is none."""
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    given = os.environ.get("CLUSTERPLAN_DATA")
    folder = Path(given) if given else beside
    if not folder.is_dir():
        pytest.skip("no published data: set CLUSTERPLAN_DATA, or put it in ../shared/data")
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Return a function that runs the command in this process, inside an empty folder."""
    from command_line import run_here  # many tests run no command, and it imports every verb

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLUSTERPLAN_DEBUG", raising=False)

    def call(*arguments: object) -> Done:
        done = run_here(*arguments)
        assert "Traceback" not in done.stdout + done.stderr
        assert "internal error" not in done.stderr, done.stderr
        return done

    return call
