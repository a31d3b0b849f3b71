"""All-reduce: the seconds in which N devices add up X bytes that each of them holds.

With α and β of the slowest link, and additions that take no time (Thakur, Rabenseifner & Gropp 2005):

==================== =====================================================================================
``ring``             2·(N−1)·α + 2·(N−1)/N·X·β                       (Patarasuk & Yuan 2009)
``halving_doubling`` 2·log2 N·α + 2·(N−1)/N·X·β, N a power of two; else the largest power of two N′ below,
                     and 2·(α + X·β) more, for the others first hand over what they hold, and at last
                     receive the sum                                 (Rabenseifner 2004)
``tree``             2·⌈log2 N⌉·(α + X·β): a binomial reduction, then a binomial broadcast
``double_tree``      2·⌈log2 N⌉·α + 2·X·β: two trees, each for half of the bytes, in pieces so short that
                     filling the tree takes its latency alone        (Sanders, Speck & Träff 2009)
==================== =====================================================================================

No algorithm moves fewer than 2·(N−1)/N·X bytes through each device; `ring` and `halving_doubling` do not move
more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2

from ...common.errors import OptionError
from .links import Link


def _checked(devices: int, size: float) -> None:
    if devices < 1 or not 0.0 <= size < float("inf"):
        raise OptionError(f"all-reduce of {size} bytes on {devices} devices: needs 0 or more on 1 or more")


def ring_s(link: Link, devices: int, size: float) -> float:
    """Return the seconds of a ring all-reduce of `size` bytes."""
    _checked(devices, size)
    return 2 * (devices - 1) * link.message_s(size / devices)


def halving_doubling_s(link: Link, devices: int, size: float) -> float:
    """Return the seconds of recursive halving and doubling of `size` bytes."""
    _checked(devices, size)
    rounds = devices.bit_length() - 1
    power = 1 << rounds
    exchanged = size * (power - 1) / power
    core = 2 * (rounds * link.latency_s + exchanged * link.seconds_per_byte)
    return core + (2 * link.message_s(size) if devices > power else 0.0)


def tree_s(link: Link, devices: int, size: float) -> float:
    """Return the seconds of a binomial reduction and broadcast of `size` bytes."""
    _checked(devices, size)
    return 2 * ceil(log2(devices)) * link.message_s(size)


def double_tree_s(link: Link, devices: int, size: float) -> float:
    """Return the seconds of two pipelined trees, each for half of `size` bytes."""
    _checked(devices, size)
    if devices == 1:
        return 0.0
    return 2 * (ceil(log2(devices)) * link.latency_s + size * link.seconds_per_byte)


ALGORITHMS: dict[str, Callable[[Link, int, float], float]] = {
    "ring": ring_s,
    "halving_doubling": halving_doubling_s,
    "tree": tree_s,
    "double_tree": double_tree_s,
}
"""Algorithms of a flat all-reduce by name."""


def all_reduce_s(link: Link, devices: int, size: float, algorithm: str = "ring") -> float:
    """Return the seconds of an all-reduce of `size` bytes.

    Parameters
    ----------
    algorithm
        One of `ALGORITHMS`, or ``best``: the fastest of them, as libraries choose.

    Raises
    ------
    OptionError
        If there is no such algorithm.
    """
    if algorithm == "best":
        return min(seconds(link, devices, size) for seconds in ALGORITHMS.values())
    if algorithm not in ALGORITHMS:
        raise OptionError(f"all-reduce {algorithm!r}: unknown; there are best, {', '.join(ALGORITHMS)}")
    return ALGORITHMS[algorithm](link, devices, size)


def hierarchical_s(inside: Link, network: Link, servers: Sequence[int], size: float) -> float:
    """Return the seconds of a hierarchical all-reduce over servers.

    Devices of a server first share out the sum of what they hold (reduce-scatter, a ring); then devices of
    the same part add up over the servers, all rings at a time through the one link of each server; at last
    the devices of a server exchange the parts (all-gather, a ring). One server has no second step, servers
    with one device no first and third.

    Parameters
    ----------
    inside, network
        The link between devices of a server, and that of each server to the others, shared by its devices.
    servers
        Devices on each server; the largest sets the pace inside.
    size
        Bytes on each device.

    Raises
    ------
    OptionError
        If there is no server, or one without devices.
    """
    if not servers or min(servers) < 1:
        raise OptionError(f"servers with {list(servers)} devices: needs one or more, each with 1 or more")
    # Reduce-scatter and all-gather take half of a ring all-reduce each.
    return ring_s(inside, max(servers), size) + ring_s(network, len(servers), size)
