"""Coefficients of the speed models of allocation from a link, and speeds by number of servers.

A step of the global batch M on w workers takes c·M/w + h seconds of computation, c for each sample and h
however few, and its communication. Both models of speed are linear in the same terms as the formulas of this
package, so that θ is read off; see `instances.allocation.speed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...common.errors import OptionError
from .all_reduce import hierarchical_s
from .links import Link
from .overlap import step_s


def ring_theta(link: Link, size: float, per_sample_s: float, fixed_s: float = 0.0) -> tuple[float, ...]:
    """Return θ of `ring_allreduce`: exactly `ring_s`, for θ2·(w−1)/w is its β part and θ3·(w−1) its α part.

    Parameters
    ----------
    size
        Bytes of the gradients.
    per_sample_s, fixed_s
        Computation of one sample, and that of a step however small its batch.
    """
    return (per_sample_s, fixed_s, 2 * size * link.seconds_per_byte, 2 * link.latency_s)


def ps_theta(link: Link, size: float, per_sample_s: float, fixed_s: float = 0.0) -> tuple[float, ...]:
    """Return θ of `ps_sync`: `sharded_s` wherever there are no more servers than workers.

    With more servers than workers it is too fast: there a worker's own link sets the pace.
    """
    return (per_sample_s, fixed_s + 2 * link.latency_s, 2 * size * link.seconds_per_byte, 0.0, 0.0)


def speed_by_servers(
    inside: Link, network: Link, devices: int, size: float, compute_s: float, servers: Sequence[int]
) -> Mapping[int, float]:
    """Return the speed of a job on so many servers, relative to the smallest number of them.

    Parameters
    ----------
    devices
        Of the job, spread as evenly as can be.
    size
        Bytes of the gradients.
    compute_s
        Seconds of the computation of a step on each device.
    servers
        Numbers of servers that are of interest; at most `devices`.

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
