"""Links: units, and figures that cannot be.

Overlap: between the sum of both times and the longer one.

Parameter servers: the slower side sets the pace.

Formulas of all-reduce beside small computations by hand, identities, and messages that are counted.

Coefficients of the speed models agree with the formulas of communication.

Links from measured all-reduces.
"""

from __future__ import annotations

from math import log, log2
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.common.speed import ring_allreduce_step_s
from clusterplan.instances.prediction.communication import (
    ALGORITHMS,
    Link,
    LinkFit,
    SyncTime,
    all_reduce_s,
    double_tree_s,
    fit_links,
    halving_doubling_s,
    hierarchical_s,
    ring_s,
    ring_theta,
    speed_by_servers,
    step_s,
    tree_s,
)


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


TIMES = st.just(0.0) | st.floats(1e-9, 1e6)


@given(TIMES, TIMES, st.floats(1, 100))
def test_between_the_longer_time_and_the_sum(compute: float, communication: float, exponent: float) -> None:
    seconds = float(step_s(compute, communication, exponent))
    assert max(compute, communication) * (1 - 1e-9) <= seconds <= (compute + communication) * (1 + 1e-9)


def test_ends_and_arrays() -> None:
    assert step_s(3.0, 4.0) == 7.0
    assert step_s(3.0, 4.0, 2.0) == pytest.approx(5.0)
    assert step_s(3.0, 4.0, float("inf")) == 4.0
    assert step_s(np.array([3.0, 0.0]), np.array([4.0, 0.0]), 2.0) == pytest.approx([5.0, 0.0])


def test_an_exponent_below_one_would_slow_both_down() -> None:
    with pytest.raises(OptionError, match="1 or more"):
        step_s(1.0, 1.0, 0.5)


ALL_REDUCE_LINK = Link(latency_s=1.0, seconds_per_byte=10.0)
# Products of smaller figures would be rounded to 0.
FIGURES = st.just(0.0) | st.floats(1e-15, 1)
LINKS = st.builds(Link, FIGURES, FIGURES)
SIZES = st.just(0.0) | st.floats(1e-3, 1e9)


def test_small_computations_by_hand() -> None:
    # 4 devices, 8 bytes: 6 rounds of 2 bytes.
    assert ring_s(ALL_REDUCE_LINK, 4, 8) == 6 * (1 + 20)
    # 2 rounds to reduce (4 and 2 bytes) and 2 to gather.
    assert halving_doubling_s(ALL_REDUCE_LINK, 4, 8) == 2 * ((1 + 40) + (1 + 20))
    assert tree_s(ALL_REDUCE_LINK, 4, 8) == 4 * (1 + 80)
    assert double_tree_s(ALL_REDUCE_LINK, 4, 8) == 4 * 1 + 2 * 80
    # A fifth device hands over all 8 bytes and gets them back.
    assert halving_doubling_s(ALL_REDUCE_LINK, 5, 8) == halving_doubling_s(ALL_REDUCE_LINK, 4, 8) + 2 * (
        1 + 80
    )


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "best"])
def test_one_device_has_nothing_to_add_up(algorithm: str) -> None:
    assert all_reduce_s(ALL_REDUCE_LINK, 1, 100.0, algorithm) == 0.0


def _messages_of_a_ring(devices: int, size: float) -> float:
    """Run a ring all-reduce on numbers; return its seconds on ALL_REDUCE_LINK, and check the sums."""
    held = [[float(d * devices + part) for part in range(devices)] for d in range(devices)]
    sums = [sum(held[d][part] for d in range(devices)) for part in range(devices)]
    seconds = 0.0
    for phase in ("reduce", "gather"):
        for round_ in range(devices - 1):
            shift = 0 if phase == "reduce" else 1
            sent = [((d - round_ + shift) % devices, d) for d in range(devices)]
            values = [held[d][part] for part, d in sent]
            for (part, d), value in zip(sent, values, strict=True):
                to = (d + 1) % devices
                held[to][part] = held[to][part] + value if phase == "reduce" else value
            seconds += ALL_REDUCE_LINK.message_s(size / devices)
    assert all(row == sums for row in held)
    return seconds


@pytest.mark.parametrize("devices", [1, 2, 3, 5, 8])
def test_a_ring_takes_as_long_as_its_messages(devices: int) -> None:
    assert ring_s(ALL_REDUCE_LINK, devices, 24.0) == pytest.approx(_messages_of_a_ring(devices, 24.0))


@given(LINKS, st.integers(1, 10), SIZES)
def test_powers_of_two_move_as_many_bytes_as_a_ring_in_fewer_rounds(
    link: Link, power: int, size: float
) -> None:
    devices = 2**power
    saved = 2 * (devices - 1 - log2(devices)) * link.latency_s
    assert halving_doubling_s(link, devices, size) + saved == pytest.approx(ring_s(link, devices, size))


@given(LINKS, st.integers(1, 2000), SIZES)
def test_none_beats_the_bounds_of_latency_and_bandwidth(link: Link, devices: int, size: float) -> None:
    bound = max(
        2 * (devices - 1) / devices * size * link.seconds_per_byte,
        (devices > 1) * log2(devices) * link.latency_s,
    )
    for algorithm in ALGORITHMS:
        assert all_reduce_s(link, devices, size, algorithm) >= bound * (1 - 1e-12)
        assert all_reduce_s(link, devices, size, "best") <= all_reduce_s(link, devices, size, algorithm)


@given(LINKS, LINKS, st.integers(1, 16), st.integers(1, 16), SIZES)
def test_a_hierarchy_of_one_level_is_a_ring(
    inside: Link, network: Link, devices: int, servers: int, size: float
) -> None:
    assert hierarchical_s(inside, network, [devices], size) == ring_s(inside, devices, size)
    assert hierarchical_s(inside, network, [1] * servers, size) == ring_s(network, servers, size)


def test_a_hierarchy_by_hand() -> None:
    # Inside: 2 x 1 round of 4 bytes at 1 s + 0.5 s a byte; between 3 servers: 4 rounds of 8/3 bytes.
    fast, slow = Link(1.0, 0.5), Link(2.0, 3.0)
    assert hierarchical_s(fast, slow, [2, 2, 2], 8.0) == pytest.approx(2 * 3.0 + 4 * (2 + 8.0))


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: all_reduce_s(ALL_REDUCE_LINK, 2, 1.0, "magic"), "there are best, ring"),
        (lambda: ring_s(ALL_REDUCE_LINK, 0, 1.0), "1 or more"),
        (lambda: ring_s(ALL_REDUCE_LINK, 2, float("nan")), "0 or more"),
        (lambda: hierarchical_s(ALL_REDUCE_LINK, ALL_REDUCE_LINK, [], 1.0), "needs one or more"),
        (lambda: hierarchical_s(ALL_REDUCE_LINK, ALL_REDUCE_LINK, [2, 0], 1.0), "each with 1 or more"),
    ],
)
def test_what_is_not_possible_is_said(call, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        call()


COEFFICIENTS_LINK = Link(2e-5, 1e-9)


@pytest.mark.parametrize("workers", [1, 2, 7, 64])
def test_theta_of_a_ring_is_the_ring(workers: int) -> None:
    theta = ring_theta(COEFFICIENTS_LINK, 4e8, per_sample_s=0.01, fixed_s=0.002)
    expected = 0.01 * 256 / workers + 0.002 + ring_s(COEFFICIENTS_LINK, workers, 4e8)
    assert ring_allreduce_step_s(theta, 256, 0, workers) == pytest.approx(expected)


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
        speed_by_servers(COEFFICIENTS_LINK, COEFFICIENTS_LINK, 8, 1e8, 0.1, servers)


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
