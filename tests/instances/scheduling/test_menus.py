"""Menus of configurations."""

from __future__ import annotations

import numpy as np

from clusterplan.instances.scheduling.generate import generate_scheduling


def test_a_rigid_job_has_one_configuration() -> None:
    instance = generate_scheduling(20, 8, seed=3)
    menus, table = instance.menus(), instance.table()
    assert menus.first.tolist() == list(range(21))
    assert np.array_equal(menus.usage, table.total_demand)
    assert set(menus.speed.tolist()) == {1.0}
    assert np.array_equal(menus.work, table.duration_s)
    assert set(menus.labels) == {""}
