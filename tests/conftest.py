"""Fixtures that several tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

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
