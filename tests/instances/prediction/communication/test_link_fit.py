"""Links from measured all-reduces."""

from __future__ import annotations

from math import log
from pathlib import Path

import pandas as pd
import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.communication.all_reduce import ring_s
from clusterplan.instances.prediction.communication.link_fit import LinkFit, SyncTime, fit_links
from clusterplan.instances.prediction.communication.links import Link

SIZE = 4e8


def test_links_that_made_the_measurements_are_found_again() -> None:
    inside, network = Link(5e-6, 1e-11), Link(4e-5, 1e-9)
    points = [
        SyncTime(devices, servers, ring_s(inside if servers == 1 else network, devices, SIZE))
        for servers in (1, 2, 3)
        for devices in (3, 4, 8, 16)
    ]
    fit = fit_links([*points, SyncTime(1, 1, 0.5)], SIZE)
    assert fit.points == 12
    assert fit.mape == pytest.approx(0, abs=1e-9)
    for found, true in ((fit.inside, inside), (fit.network, network)):
        assert found is not None
        assert found.latency_s == pytest.approx(true.latency_s)
        assert found.seconds_per_byte == pytest.approx(true.seconds_per_byte)
    assert fit.seconds(32, 4, SIZE) == pytest.approx(ring_s(network, 32, SIZE))
    assert fit.seconds(1, 1, SIZE) == 0.0


def test_what_was_not_measured_is_said() -> None:
    fit = fit_links([SyncTime(2, 1, 0.1)], SIZE)
    assert fit.leave_one_out is None
    with pytest.raises(OptionError, match="over several servers was measured"):
        fit.seconds(4, 2, SIZE)


@pytest.mark.parametrize(
    ("points", "what"),
    [
        ([], "2 or more devices"),
        ([SyncTime(1, 1, 1.0)], "2 or more devices"),
        ([SyncTime(2, 3, 1.0)], "no more than devices"),
        ([SyncTime(2, 1, 0.0)], "a time above 0"),
    ],
)
def test_measurements_that_cannot_be(points: list[SyncTime], what: str) -> None:
    with pytest.raises(OptionError, match=what):
        fit_links(points, SIZE)


def _pollux(folder: Path) -> LinkFit:
    rows = pd.read_csv(folder / "placements.csv", dtype={"placement": str})
    means = rows.groupby("placement")["sync_time"].mean()
    points = [SyncTime(sum(map(int, place)), len(place), float(s)) for place, s in means.items()]
    return fit_links(points, SIZE)


@pytest.mark.parametrize(("name", "most"), [("bert", 0.10), ("deepspeech2", 0.10), ("imagenet", 0.27)])
def test_placements_of_pollux_that_were_left_out(shared_data: Path, name: str, most: float) -> None:
    fit = _pollux(shared_data / "pollux" / name)
    assert fit.points == 107
    assert fit.leave_one_out is not None
    assert fit.leave_one_out <= most
    assert fit.inside is not None
    assert fit.network is not None
    assert fit.network.seconds_per_byte > fit.inside.seconds_per_byte


def test_an_estimate_has_the_interval_of_a_new_placement() -> None:
    points = [SyncTime(n, 2, 0.01 * n + 0.002 * (-1) ** n) for n in range(2, 9)]
    fit = fit_links(points, 1e6)
    one = fit.estimate(8, 2, 1e6)
    assert one.inside
    assert one.low < one.seconds < one.high
    assert one.seconds == fit.seconds(8, 2, 1e6)
    assert fit.estimate(1, 1, 1e6).high == 0.0
    with pytest.raises(OptionError, match="measure another"):
        fit_links([SyncTime(4, 1, 0.01)], 1e6).estimate(8, 1, 1e6)


def test_more_devices_servers_or_bytes_than_measured_are_outside_and_wider() -> None:
    points = [SyncTime(n, 2, 0.01 * n + 0.002 * (-1) ** n) for n in range(2, 9)]
    points += [SyncTime(n, 1, 0.001 * n + 0.0002 * (-1) ** n) for n in range(2, 17)]
    fit = fit_links(points, 1e6)
    within, alone = fit.estimate(6, 2, 1e6), fit.estimate(16, 1, 1e6)
    assert within.inside
    assert alone.inside
    for devices, servers, size in ((9, 2, 1e6), (6, 3, 1e6), (6, 2, 2e6), (17, 1, 1e6)):
        far, near = fit.estimate(devices, servers, size), within if servers > 1 else alone
        assert not far.inside
        for end, own in ((far.low, near.low), (far.high, near.high)):
            assert log(end / far.seconds) == pytest.approx(1.5 * log(own / near.seconds))
