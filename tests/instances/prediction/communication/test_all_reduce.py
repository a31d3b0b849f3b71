"""Formulas of all-reduce beside small computations by hand, identities, and messages that are counted."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.communication.all_reduce import (
    ALGORITHMS,
    all_reduce_s,
    double_tree_s,
    halving_doubling_s,
    hierarchical_s,
    ring_s,
    tree_s,
)
from clusterplan.instances.prediction.communication.links import Link

LINK = Link(latency_s=1.0, seconds_per_byte=10.0)
# Products of smaller figures would be rounded to 0.
FIGURES = st.just(0.0) | st.floats(1e-15, 1)
LINKS = st.builds(Link, FIGURES, FIGURES)
SIZES = st.just(0.0) | st.floats(1e-3, 1e9)


def test_small_computations_by_hand() -> None:
    # 4 devices, 8 bytes: 6 rounds of 2 bytes.
    assert ring_s(LINK, 4, 8) == 6 * (1 + 20)
    # 2 rounds to reduce (4 and 2 bytes) and 2 to gather.
    assert halving_doubling_s(LINK, 4, 8) == 2 * ((1 + 40) + (1 + 20))
    assert tree_s(LINK, 4, 8) == 4 * (1 + 80)
    assert double_tree_s(LINK, 4, 8) == 4 * 1 + 2 * 80
    # A fifth device hands over all 8 bytes and gets them back.
    assert halving_doubling_s(LINK, 5, 8) == halving_doubling_s(LINK, 4, 8) + 2 * (1 + 80)


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "best"])
def test_one_device_has_nothing_to_add_up(algorithm: str) -> None:
    assert all_reduce_s(LINK, 1, 100.0, algorithm) == 0.0


def _messages_of_a_ring(devices: int, size: float) -> float:
    """Run a ring all-reduce on numbers; return its seconds on LINK, and check the sums."""
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
            seconds += LINK.message_s(size / devices)
    assert all(row == sums for row in held)
    return seconds


@pytest.mark.parametrize("devices", [1, 2, 3, 5, 8])
def test_a_ring_takes_as_long_as_its_messages(devices: int) -> None:
    assert ring_s(LINK, devices, 24.0) == pytest.approx(_messages_of_a_ring(devices, 24.0))


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
        (lambda: all_reduce_s(LINK, 2, 1.0, "magic"), "there are best, ring"),
        (lambda: ring_s(LINK, 0, 1.0), "1 or more"),
        (lambda: ring_s(LINK, 2, float("nan")), "0 or more"),
        (lambda: hierarchical_s(LINK, LINK, [], 1.0), "needs one or more"),
        (lambda: hierarchical_s(LINK, LINK, [2, 0], 1.0), "each with 1 or more"),
    ],
)
def test_what_is_not_possible_is_said(call, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        call()
