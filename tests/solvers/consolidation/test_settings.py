"""The settings of `exact`."""

from __future__ import annotations

import dataclasses

import pytest

from clusterplan.solvers.consolidation.settings import SETTINGS, ExactSettings


def test_nobody_changes_them_on_the_way() -> None:
    """They are frozen, and each is told about."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        SETTINGS.share_of_time_left = 1.0  # type: ignore[misc]
    for field in dataclasses.fields(ExactSettings):
        assert f"    {field.name}\n" in (ExactSettings.__doc__ or "")
    assert 0 < SETTINGS.share_of_time_left < 1
