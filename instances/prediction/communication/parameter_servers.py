"""Parameter servers: the seconds in which w workers push gradients and pull parameters of X bytes."""

from __future__ import annotations

from ...common.errors import OptionError
from .links import Link


def sharded_s(link: Link, servers: int, workers: int, size: float) -> float:
    """Return the seconds of a push and a pull with parameters spread evenly over the servers.

    A server receives X/p bytes of each of w workers over its one link, and a worker sends X bytes over its
    own: the slower of both sets the pace, 2·(α + X·β·max(1, w/p)) (Li et al. 2014; Optimus, EuroSys'18,
    section 3.2, has the servers' side).

    Raises
    ------
    OptionError
        If there is no server or no worker.
    """
    if servers < 1 or workers < 1:
        raise OptionError(f"{servers} parameter servers and {workers} workers: each must be at least 1")
    return 2 * link.message_s(size * max(1.0, workers / servers))
