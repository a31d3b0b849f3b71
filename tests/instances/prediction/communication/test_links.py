"""Links: units, and figures that cannot be."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.communication.links import Link


def test_a_network_of_100_gbit_moves_12_5_gigabytes_a_second() -> None:
    link = Link.of_network(100, latency_s=2e-6)
    assert link.message_s(12.5e9) == pytest.approx(1.0 + 2e-6)
    assert link.gbit_per_s == pytest.approx(100)
    assert Link.of_bandwidth(12.5).message_s(0) == 0
    assert Link(0.0, 0.0).gbit_per_s == float("inf")


@pytest.mark.parametrize("figures", [(-1.0, 1.0), (0.0, float("nan")), (float("inf"), 0.0)])
def test_figures_that_cannot_be(figures: tuple[float, float]) -> None:
    with pytest.raises(OptionError, match="must be from 0"):
        Link(*figures)


def test_a_bandwidth_of_nothing() -> None:
    with pytest.raises(OptionError, match="greater than 0"):
        Link.of_network(0.0)
