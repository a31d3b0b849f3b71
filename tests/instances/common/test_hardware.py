"""Geometries of devices against NVIDIA's tables."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from clusterplan.instances.common.hardware import GEOMETRIES, Geometry

MIG_USER_GUIDE = {
    "a30-24": {"1g.6gb": 4, "2g.12gb": 2, "4g.24gb": 1},
    "a100-40": {"1g.5gb": 7, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1},
    "a100-80": {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
    "h100-80": {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
}
"""Column "Number of Instances Available" of the section "Supported MIG Profiles"."""


def test_each_profile_fits_as_often_as_nvidia_says() -> None:
    """On an empty device, with nothing else."""
    found = {name: {p: g.most(p) for p in g.profiles} for name, g in GEOMETRIES.items()}
    assert found == MIG_USER_GUIDE


def test_starts_are_those_of_lgipp() -> None:
    """Size and starts as ``nvidia-smi mig -lgipp`` lists them for an A100 of 40 GB."""
    profiles = GEOMETRIES["a100-40"].profiles
    assert {name: (p.starts, p.size) for name, p in profiles.items()} == {
        "1g.5gb": ((0, 1, 2, 3, 4, 5, 6), 1),
        "1g.10gb": ((0, 2, 4, 6), 2),
        "2g.10gb": ((0, 2, 4), 2),
        "3g.20gb": ((0, 4), 4),
        "4g.20gb": ((0,), 4),
        "7g.40gb": ((0,), 8),
    }


def test_taken_slots_leave_less() -> None:
    """A 3g.20gb in front leaves one behind, and three of 1g.5gb, for slot 7 is nobody's."""
    geometry = GEOMETRIES["a100-40"]
    taken = geometry.profiles["3g.20gb"].mask(0)
    assert taken == 0b1111
    assert (geometry.most("3g.20gb", taken), geometry.most("1g.5gb", taken)) == (1, 3)
    assert geometry.most("4g.20gb", taken) == 0
    assert geometry.most("no such profile") == 0


def test_a_profile_that_leaves_the_device_is_refused() -> None:
    """With the place and the words."""
    with pytest.raises(ValidationError, match="3 slots from 2 on are more than the 4 there are"):
        Geometry.model_validate({"slots": 4, "profiles": {"x": {"size": 3, "starts": [2]}}})
