"""Coefficients of the speed models agree with the formulas of communication."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.common.speed import ps_sync_step_s, ring_allreduce_step_s
from clusterplan.instances.prediction.communication.all_reduce import ring_s
from clusterplan.instances.prediction.communication.coefficients import ps_theta, ring_theta, speed_by_servers
from clusterplan.instances.prediction.communication.links import Link
from clusterplan.instances.prediction.communication.parameter_servers import sharded_s

LINK = Link(2e-5, 1e-9)


@pytest.mark.parametrize("workers", [1, 2, 7, 64])
def test_theta_of_a_ring_is_the_ring(workers: int) -> None:
    theta = ring_theta(LINK, 4e8, per_sample_s=0.01, fixed_s=0.002)
    expected = 0.01 * 256 / workers + 0.002 + ring_s(LINK, workers, 4e8)
    assert ring_allreduce_step_s(theta, 256, 0, workers) == pytest.approx(expected)


@pytest.mark.parametrize(("servers", "workers"), [(1, 1), (2, 8), (5, 7)])
def test_theta_of_parameter_servers_is_theirs_where_they_are_no_more_than_workers(
    servers: int, workers: int
) -> None:
    theta = ps_theta(LINK, 4e8, per_sample_s=0.01, fixed_s=0.002)
    expected = 0.01 * 256 / workers + 0.002 + sharded_s(LINK, servers, workers, 4e8)
    assert ps_sync_step_s(theta, 256, servers, workers) == pytest.approx(expected)


def test_spreading_slows_down_where_the_network_is_slower() -> None:
    fast, slow = Link(0.0, 1e-11), Link(0.0, 1e-9)
    speeds = speed_by_servers(fast, slow, 8, 1e8, compute_s=0.1, servers=[1, 2, 4, 8])
    assert list(speeds) == [1, 2, 4, 8]
    assert speeds[1] == 1.0
    assert 1.0 > speeds[2] > speeds[4] > speeds[8]
    # One server: 0.1 + 2 x 7/8 x 1e8 x 1e-11; two: 0.1 + 2 x 3/4 x 1e-3 + 1e8 x 1e-9.
    assert speeds[2] == pytest.approx((0.1 + 0.00175) / (0.1 + 0.0015 + 0.1))


@pytest.mark.parametrize("servers", [[], [0], [9]])
def test_more_servers_than_devices(servers: list[int]) -> None:
    with pytest.raises(OptionError, match="from 1 to 8"):
        speed_by_servers(LINK, LINK, 8, 1e8, 0.1, servers)
