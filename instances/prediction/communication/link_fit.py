"""Links from measurements: α and β of a ring inside a server, and of one over the network.

A ring over several servers runs at the pace of the network, one inside a server at that of its links. Both
have 2·X·β·(N−1)/N + 2·α·(N−1) seconds (`ring_s`), so that α and β of each come from non-negative least
squares (Lawson & Hanson 1974) with relative errors: every equation is divided by its measured time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from scipy.optimize import nnls

from ...common.arrays import Floats
from ...common.errors import OptionError
from ..estimate import Estimate
from ..intervals.conformal import student_ends
from ..intervals.levels import OUTSIDE
from .all_reduce import ring_s
from .links import Link


@dataclass(frozen=True)
class SyncTime:
    """A measured all-reduce: on so many devices of so many servers, in so many seconds."""

    devices: int
    servers: int
    seconds: float


@dataclass(frozen=True)
class LinkFit:
    """Fitted links.

    Parameters
    ----------
    inside, network
        The links; None where nothing was measured of one.
    mape, leave_one_out
        Mean absolute relative error of the times, and that of each predicted without its own number of
        devices and servers; None where no others were measured of its link.
    points
        How many measurements there are.
    inside_ends, network_ends
        Ends of the logarithm of measured over predicted time on a number of devices and servers that was not
        measured; None where fewer than two were.
    measured
        The numbers of devices and servers that were measured.
    size
        Bytes that were added up.
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
        """Return the seconds of an all-reduce.

        Raises
        ------
        OptionError
            If nothing was measured of the link that sets the pace.
        """
        link = self.inside if servers == 1 else self.network
        if devices == 1:
            return 0.0
        if link is None:
            where = "inside a server" if servers == 1 else "over several servers"
            raise OptionError(f"no all-reduce {where} was measured; measure one on 2 or more devices")
        return ring_s(link, devices, size)

    def estimate(self, devices: int, servers: int, size: float) -> Estimate:
        """Return the seconds of an all-reduce, with the interval of a placement that was not measured.

        It lies inside what was measured with as many bytes, on a number of devices and of servers that lies
        between measured ones of the same link. Outside, the interval is wider.

        Raises
        ------
        OptionError
            If nothing was measured of the link that sets the pace, or on one number of devices alone.
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
        If there are no measurements on 2 or more devices, or one is not possible.
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
        scores, held = _left_out(own, size)
        ends.append(student_ends(np.array(scores), held) if len(set(held)) > 1 else None)
        errors += _errors(own, _link(own, size), size) if own else []
        held_out += [abs(exp(-score) - 1.0) for score in scores]
    mean = float(np.mean(held_out)) if held_out else None
    places = tuple(dict.fromkeys((point.devices, point.servers) for point in measured))
    return LinkFit(
        links[0], links[1], float(np.mean(errors)), mean, len(measured), ends[0], ends[1], places, size
    )


def _left_out(own: Sequence[SyncTime], size: float) -> tuple[list[float], list[tuple[int, int]]]:
    """Return log(measured/predicted) of points, each predicted without its place, and their places."""
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
    found, _ = nnls(columns / lengths, np.ones(len(points)))
    latency, inverse = (found / lengths).tolist()
    return Link(latency, inverse)


def _errors(points: Sequence[SyncTime], link: Link, size: float) -> list[float]:
    return [abs(ring_s(link, point.devices, size) / point.seconds - 1.0) for point in points]
