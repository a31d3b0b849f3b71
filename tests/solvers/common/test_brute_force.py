"""Brute force refuses what it could never enumerate."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import TooLargeError
from clusterplan.solvers.common.brute_force import MOST, refuse_many


def test_many_things_are_refused_with_a_way_out() -> None:
    refuse_many(MOST, "jobs")
    with pytest.raises(TooLargeError, match=r"201 jobs.*--solver exact"):
        refuse_many(MOST + 1, "jobs")
