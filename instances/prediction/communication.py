"""Communication times of all-reduce and parameter servers from α and β of links, and fits of links.

A message of X bytes takes α + β·X seconds on a link (Hockney 1994). An all-reduce sums X bytes of each of N
devices; with parameter servers, w workers push gradients and pull parameters of X bytes. A part of the
communication overlaps with the computation.

All-reduce, with α and β of the slowest link, and additions that take no time (Thakur, Rabenseifner &
Gropp 2005):

==================== =====================================================================================
``ring``             2·(N−1)·α + 2·(N−1)/N·X·β                       (Patarasuk & Yuan 2009)
``halving_doubling`` 2·log2 N·α + 2·(N−1)/N·X·β, N a power of two; else the largest power of two N′ below,
                     and 2·(α + X·β) more, for the others first hand over what they hold, and at last
                     receive the sum                                 (Rabenseifner 2004)
``tree``             2·⌈log2 N⌉·(α + X·β): a binomial reduction, then a binomial broadcast
``double_tree``      2·⌈log2 N⌉·α + 2·X·β: two trees, each for half of the bytes, in pieces so short that
                     filling the tree takes its latency alone        (Sanders, Speck & Träff 2009)
==================== =====================================================================================

No algorithm moves fewer than 2·(N−1)/N·X bytes through each device; `ring` and `halving_doubling` do not
move more.

Coefficients of the speed models. A step of the global batch M on w workers takes c·M/w + h seconds of
computation, c for each sample and h however few, and its communication. Both models of speed are linear
in the same terms as the formulas of this package, so that θ is read off; see `common.speed`.

Fits of links. A ring over several servers runs at the pace of the network, one inside a server at that of
its links. Both have 2·X·β·(N−1)/N + 2·α·(N−1) seconds (`ring_s`), so that α and β of each come from
non-negative least squares (Lawson & Hanson 1974) with relative errors: every equation is divided by its
measured time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, log, log2
from typing import Any

import numpy as np
from scipy.optimize import nnls

from ..common.arrays import Floats
from ..common.errors import OptionError
from .calibration import OUTSIDE, Estimate, student_ends

BITS = 8
GIGA = 1e9
LINK_ENDS = (1.0, 2.0)
"""Interval of measured time over the data sheet's, which gives the best case; up to twice as long."""


@dataclass(frozen=True)
class Link:
    """A network or device link, by its latency α and its inverse bandwidth β.

    Parameters
    ----------
    latency_s
        α, seconds of the shortest message.
    seconds_per_byte
        β, the inverse of the bandwidth in bytes per second, in one direction.

    Raises
    ------
    OptionError
        If a figure is negative or not finite.
    """

    latency_s: float
    seconds_per_byte: float

    def __post_init__(self) -> None:
        for name in ("latency_s", "seconds_per_byte"):
            if not 0.0 <= getattr(self, name) < 1e9:
                raise OptionError(f"link: {name} is {getattr(self, name)}; it must be from 0 to 1e9")

    @classmethod
    def of_bandwidth(cls, gbyte_per_s: float, latency_s: float = 0.0) -> Link:
        """Return the link with a bandwidth in 1e9 bytes per second.

        Raises
        ------
        OptionError
            If the bandwidth is not positive.
        """
        if not gbyte_per_s > 0:
            raise OptionError(f"link: bandwidth is {gbyte_per_s} GB/s; it must be greater than 0")
        return cls(latency_s, 1.0 / (gbyte_per_s * GIGA))

    @classmethod
    def of_network(cls, gbit_per_s: float, latency_s: float = 0.0) -> Link:
        """Return the link with a bandwidth in 1e9 bits per second, the unit of networks."""
        return cls.of_bandwidth(gbit_per_s / BITS, latency_s)

    @property
    def gbit_per_s(self) -> float:
        """Bandwidth in 1e9 bits per second; infinite if β is 0."""
        return BITS / (self.seconds_per_byte * GIGA) if self.seconds_per_byte else float("inf")

    def message_s(self, size: float) -> float:
        """Return the seconds of one message of `size` bytes: α + β·size."""
        return self.latency_s + self.seconds_per_byte * size


def step_s(compute_s: Any, communication_s: Any, exponent: float = 1.0) -> Any:
    """Return the step time in seconds with partly overlapped computation and communication.

    It is (a^γ + b^γ)^(1/γ) (Pollux, section 3.2).

    Parameters
    ----------
    compute_s, communication_s
        Numbers, or arrays of one shape.
    exponent
        γ: 1 for no overlap (the sum), infinity for full overlap (the maximum).

    Raises
    ------
    OptionError
        If γ is below 1.
    """
    if not exponent >= 1.0:
        raise OptionError(f"overlap: the exponent is {exponent}; it must be 1 or more")
    longer, shorter = np.maximum(compute_s, communication_s), np.minimum(compute_s, communication_s)
    if np.isinf(exponent):
        return longer
    # Divided by the longer one, so that no power overflows.
    share = np.divide(shorter, longer, out=np.zeros_like(longer, dtype=float), where=np.asarray(longer) > 0)
    return longer * (1.0 + share**exponent) ** (1.0 / exponent)


def _checked(devices: int, size: float) -> None:
    if devices < 1 or not 0.0 <= size < float("inf"):
        raise OptionError(f"all-reduce of {size} bytes on {devices} devices: needs 0 or more on 1 or more")


def ring_s(link: Link, devices: int, size: float) -> float:
    """Return the seconds of a ring all-reduce of `size` bytes."""
    _checked(devices, size)
    return 2 * (devices - 1) * link.message_s(size / devices)


def halving_doubling_s(link: Link, devices: int, size: float) -> float:
    """Return the seconds of an all-reduce of `size` bytes by recursive halving and doubling."""
    _checked(devices, size)
    rounds = devices.bit_length() - 1
    power = 1 << rounds
    exchanged = size * (power - 1) / power
    core = 2 * (rounds * link.latency_s + exchanged * link.seconds_per_byte)
    return core + (2 * link.message_s(size) if devices > power else 0.0)


def tree_s(link: Link, devices: int, size: float) -> float:
    """Return the seconds of an all-reduce of `size` bytes by a binomial reduction and broadcast."""
    _checked(devices, size)
    return 2 * ceil(log2(devices)) * link.message_s(size)


def double_tree_s(link: Link, devices: int, size: float) -> float:
    """Return the seconds of an all-reduce by two pipelined trees, each for half of `size` bytes."""
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
    """Return the seconds of a hierarchical all-reduce of `size` bytes: within and between servers.

    First a ring reduce-scatter inside each server; then devices with the same part sum it over the servers,
    all rings at a time through the one link of each server; at last a ring all-gather inside each server. One
    server has no second step, servers with one device no first and third.

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


def ring_theta(link: Link, size: float, per_sample_s: float, fixed_s: float = 0.0) -> tuple[float, ...]:
    """Return the coefficients θ of the speed model `ring_allreduce` for this link and gradient size.

    They equal `ring_s`: θ2·(w−1)/w is its β term, θ3·(w−1) its α term.

    Parameters
    ----------
    size
        Bytes of the gradients.
    per_sample_s, fixed_s
        Seconds of computation for each sample, and for a step regardless of its batch.
    """
    return (per_sample_s, fixed_s, 2 * size * link.seconds_per_byte, 2 * link.latency_s)


def speed_by_servers(
    inside: Link, network: Link, devices: int, size: float, compute_s: float, servers: Sequence[int]
) -> Mapping[int, float]:
    """Return number of servers → speed of a job spread over them, relative to the smallest number.

    Parameters
    ----------
    devices
        Devices of the job, spread as evenly as possible.
    size
        Bytes of the gradients.
    compute_s
        Seconds of the computation of a step on each device.
    servers
        Numbers of servers; at most `devices`.

    Raises
    ------
    OptionError
        If a number of servers is below 1 or above `devices`.
    """
    if not servers or min(servers) < 1 or max(servers) > devices:
        raise OptionError(f"servers {list(servers)}: must be from 1 to {devices}, the devices of the job")
    times = {}
    for count in sorted(set(servers)):
        most, rest = divmod(devices, count)
        spread = [most + 1] * rest + [most] * (count - rest)
        times[count] = step_s(compute_s, hierarchical_s(inside, network, spread, size))
    first = next(iter(times.values()))
    if not first:
        raise OptionError("speed_by_servers: a step takes no time; give compute_s greater than 0")
    return {count: first / seconds for count, seconds in times.items()}


@dataclass(frozen=True)
class SyncTime:
    """A measured all-reduce: number of devices, number of servers, and seconds."""

    devices: int
    servers: int
    seconds: float


@dataclass(frozen=True)
class LinkFit:
    """Links fitted to measured all-reduces, with the errors of the fit.

    Parameters
    ----------
    inside, network
        The links; None without measurements of one.
    mape, leave_one_out
        Mean absolute relative error of the times, and that of each predicted without its own number of
        devices and servers; None without other measurements of its link.
    points
        Number of measurements.
    inside_ends, network_ends
        Ends of the interval of the logarithm of measured over predicted time for a new number of devices and
        servers; None if fewer than two were measured.
    measured
        The numbers of devices and servers that were measured.
    size
        Bytes of the measured all-reduces.
    """

    inside: Link | None
    network: Link | None
    mape: float
    leave_one_out: float | None
    points: int
    inside_ends: tuple[float, float] | None = None
    network_ends: tuple[float, float] | None = None
    measured: tuple[tuple[int, int], ...] = ()
    size: float | None = None

    def seconds(self, devices: int, servers: int, size: float) -> float:
        """Return the predicted seconds of an all-reduce of `size` bytes.

        Raises
        ------
        OptionError
            If there are no measurements of the link that it uses.
        """
        link = self.inside if servers == 1 else self.network
        if devices == 1:
            return 0.0
        if link is None:
            where = "inside a server" if servers == 1 else "over several servers"
            raise OptionError(f"no all-reduce {where} was measured; measure one on 2 or more devices")
        return ring_s(link, devices, size)

    def estimate(self, devices: int, servers: int, size: float) -> Estimate:
        """Return the predicted seconds of an all-reduce on an unmeasured placement, with interval.

        It lies inside the measured range if the bytes are equal and the numbers of devices and servers lie
        between measured ones of the same link. Outside, the interval is wider.

        Raises
        ------
        OptionError
            If the link that it uses was not measured, or on only one number of devices.
        """
        seconds = self.seconds(devices, servers, size)
        ends = self.inside_ends if servers == 1 else self.network_ends
        if devices == 1:
            return Estimate(0.0, 0.0, 0.0, True, "no other device")
        if ends is None:
            raise OptionError(
                "an interval needs all-reduces on two numbers of devices or servers; measure another"
            )
        own = np.array([place for place in self.measured if (place[1] > 1) == (servers > 1)])
        place = np.array([devices, servers])
        within = bool(((own.min(axis=0) <= place) & (place <= own.max(axis=0))).all()) and size == self.size
        factor = 1.0 if within else OUTSIDE
        low, high = factor * min(ends[0], 0.0), factor * max(ends[1], 0.0)
        basis = f"{self.points} measured all-reduces"
        return Estimate(seconds, seconds * exp(low), seconds * exp(high), within, basis)


def fit_links(points: Sequence[SyncTime], size: float) -> LinkFit:
    """Fit the links to measured all-reduces of `size` bytes.

    Raises
    ------
    OptionError
        If there are no measurements on 2 or more devices, or one is invalid.
    """
    for point in points:
        if not (1 <= point.servers <= point.devices and 0.0 < point.seconds < float("inf")):
            raise OptionError(f"{point}: needs 1 or more servers, no more than devices, and a time above 0")
    if not size > 0:
        raise OptionError(f"size {size}: an all-reduce that was measured has more than 0 bytes")
    measured = [point for point in points if point.devices > 1]
    if not measured:
        raise OptionError("no all-reduce on 2 or more devices was measured")
    links: list[Link | None] = []
    ends: list[tuple[float, float] | None] = []
    errors: list[float] = []
    held_out: list[float] = []
    for several in (False, True):
        own = [point for point in measured if (point.servers > 1) == several]
        links.append(_link(own, size) if own else None)
        scores, places_out = _left_out(own, size)
        ends.append(student_ends(np.array(scores), places_out) if len(set(places_out)) > 1 else None)
        errors += _errors(own, _link(own, size), size) if own else []
        held_out += [abs(exp(-score) - 1.0) for score in scores]
    mean = float(np.mean(held_out)) if held_out else None
    places = tuple(dict.fromkeys((point.devices, point.servers) for point in measured))
    return LinkFit(
        links[0], links[1], float(np.mean(errors)), mean, len(measured), ends[0], ends[1], places, size
    )


def _left_out(own: Sequence[SyncTime], size: float) -> tuple[list[float], list[tuple[int, int]]]:
    """Return log(measured/predicted) and placement (devices, servers) of points by leave-one-out.

    Each point is predicted without all points of its placement.
    """
    scores, places = [], []
    for place in dict.fromkeys((point.devices, point.servers) for point in own):
        others = [point for point in own if (point.devices, point.servers) != place]
        if not others:
            continue
        link = _link(others, size)
        for point in own:
            if (point.devices, point.servers) == place:
                scores.append(log(point.seconds / ring_s(link, point.devices, size)))
                places.append(place)
    return scores, places


def _columns(points: Sequence[SyncTime], size: float) -> Floats:
    devices = np.array([point.devices for point in points], dtype=float)
    return np.stack([2 * (devices - 1), 2 * size * (devices - 1) / devices], axis=1)


def _link(points: Sequence[SyncTime], size: float) -> Link:
    seconds = np.array([point.seconds for point in points])
    columns = _columns(points, size) / seconds[:, None]
    lengths = np.linalg.norm(columns, axis=0)  # α and β are of very unlike sizes
    solution, _ = nnls(columns / lengths, np.ones(len(points)))
    latency, inverse = (solution / lengths).tolist()
    return Link(latency, inverse)


def _errors(points: Sequence[SyncTime], link: Link, size: float) -> list[float]:
    return [abs(ring_s(link, point.devices, size) / point.seconds - 1.0) for point in points]
