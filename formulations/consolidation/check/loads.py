"""Bounds on the traffic of servers by counting: what has to be somewhere, and what residues cannot even out.

All amounts are counted in their largest common unit, so that they are whole numbers, with sum S over tasks
and servers. On P servers some load is at least ⌈S/P⌉, and at least the largest task. The k largest tasks, of
sum T, are on k servers at most, so that the others share what these leave: the smallest load is at most
⌊(S − T)/(P − k)⌋ for each k < P, and for k = 1 also with the largest load as T.

Residues. If all tasks but a few are multiples of a step g, a load is modulo g the sum ρ of the few that are
there. For each way to spread these few, the loads are g·m + ρ, where only the sum M of the whole numbers m is
known. The largest load and the difference are both least where the m differ by at most one and the larger
ones are with the smaller ρ: a load that is moved up or down by g leaves the window of g that all others are
in. The least over all ways is a bound. (Optimus, EuroSys'18, section 5.3 states the objectives, no bound.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate, chain, combinations_with_replacement, islice

from ..classes import common_divisor, exact_fraction
from ..cluster_data import ClusterData

MAX_SIZES = 60
"""Sizes, the most frequent ones, of which the common divisors of any two are tried as a step."""
MAX_ODD_TASKS = 6
"""Largest number of tasks that are no multiples of a step; they can be spread in at most 203 ways."""


def load_bounds(data: ClusterData) -> tuple[float, float]:
    """Return lower bounds on the largest traffic of a server, and on its excess over the smallest [Gbit/s].

    Tasks that a plan may leave out count for nothing; the difference is then at least 0.
    """
    jobs, required = data.instance.jobs, data.instance.requires
    before = [exact_fraction(server.traffic_gbit_per_s) for server in data.servers.values()]
    rates = Counter[Fraction]()
    for group in (group for job in jobs if required(job) for group in job.task_groups):
        rates[exact_fraction(group.traffic_gbit_per_s)] += group.tasks
    unit = common_divisor([*before, *rates]) or Fraction(1)
    sizes = Counter({int(rate / unit): tasks for rate, tasks in rates.items() if rate})
    there, count = [int(rate / unit) for rate in before], len(before)
    total = sum(there) + sum(size * tasks for size, tasks in sizes.items())
    largest = max(*there, min(there) + max(sizes, default=0), -(-total // count))
    difference = 0
    if sizes and not any(there):
        least, difference = _residue_bounds(sizes, total, count)
        largest = max(largest, least)
    smallest = min(_most_on_the_emptiest(sizes, total, count), (total - largest) // max(1, count - 1))
    difference = max(difference, largest - smallest) if count > 1 and all(map(required, jobs)) else 0
    return float(largest * unit), float(difference * unit)


def _most_on_the_emptiest(sizes: Counter[int], total: int, servers: int) -> int:
    """Return the most that the emptiest server can have: an even share of what the largest tasks leave."""
    rows = ([size] * min(sizes[size], servers) for size in sorted(sizes, reverse=True))
    sums = accumulate(islice(chain.from_iterable(rows), servers - 1), initial=0)
    return min((total - held) // (servers - k) for k, held in enumerate(sums))


def _residue_bounds(sizes: Counter[int], total: int, servers: int) -> tuple[int, int]:
    """Return bounds on the largest load and on the difference of loads, by the residues of few tasks."""
    frequent = [size for size, _ in sizes.most_common(MAX_SIZES)]
    largest, difference = 0, 0
    for step in {math.gcd(a, b) for a, b in combinations_with_replacement(frequent, 2)}:
        odd = Counter({size % step: 0 for size in sizes if size % step})
        for size, tasks in sizes.items():
            odd[size % step] += tasks * bool(size % step)
        if odd.total() <= MAX_ODD_TASKS:
            spreads = _spreads(odd.elements(), step, servers)
            ends = [_even_loads(residues, total, step, servers) for residues in spreads]
            largest = max(largest, min(high for high, _ in ends))
            difference = max(difference, min(high - low for high, low in ends))
    return largest, difference


def _spreads(residues: Iterable[int], step: int, servers: int) -> set[tuple[int, ...]]:
    """Return the residues of the loads that hold odd tasks, in rising order, for all ways to spread these."""
    spreads: set[tuple[int, ...]] = {()}
    for residue in residues:
        joined = {
            (*loads[:n], (loads[n] + residue) % step, *loads[n + 1 :])
            for loads in spreads
            for n in range(len(loads))
        }
        alone = {(*loads, residue) for loads in spreads if len(loads) < servers}
        spreads = {tuple(sorted(loads)) for loads in joined | alone}
    return spreads


def _even_loads(residues: tuple[int, ...], total: int, step: int, servers: int) -> tuple[int, int]:
    """Return the largest and the smallest of the most even loads with these residues, in rising order.

    All other loads are multiples of the step; the first and the last of them stand for all.
    """
    each, more = divmod((total - sum(residues)) // step, servers)
    others = servers - len(residues)
    loads = [
        (each + (n < more)) * step + (residues[n - others] if n >= others else 0)
        for n in {0, max(0, others - 1), *range(others, servers)}
    ]
    return max(loads), min(loads)
