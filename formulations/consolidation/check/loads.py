"""Bounds on the traffic of servers by counting: what has to be somewhere, and what residues cannot even out.

All amounts are counted in their largest common unit, so that they are whole numbers, with sum S over tasks
and servers. On P servers some load is at least ⌈S/P⌉, and at least the largest task. The k largest tasks, of
sum T, are on k servers at most, so that the others share what these leave: the smallest load is at most
⌊(S − T)/(P − k)⌋ for each k < P, and for k = 1 also with the largest load as T.

Whole steps. For any step g, ⌊·/g⌋ of a load is at least the sum of ⌊b/g⌋ over its tasks of size b (a dual
feasible function, Lueker 1983), so that the largest load is at least g·⌈Σ⌊b/g⌋/P⌉. In the same way the
smallest is at most g·⌊Σ⌈b/g⌉/P⌋.

Residues. If all tasks but a few are multiples of a step g, a load is modulo g the sum ρ of the few that are
there. For each way to spread these few, the loads are g·m + ρ, where only the sum M of the whole numbers m is
known. The largest load, and its excess over the smallest, are least where the m differ by at most one and
the larger are with the smaller ρ: a load moved up or down by g leaves the window of g that all others
are in. The least over all ways is a bound. (The objectives are of Optimus, EuroSys'18, section 5.3.)
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import accumulate, chain, combinations_with_replacement, islice

from ...common.objective import common_divisor, exact_fraction
from ..cluster_data import ClusterData

MAX_SIZES = 60
"""Sizes, the most frequent ones, of which the common divisors of any two are tried as a step."""
MAX_SERVERS = 100
"""Largest number of servers for which residues are spread."""
MAX_ODD_TASKS = 6
"""Largest number of tasks that are no multiples of a step; they can be spread in at most 203 ways."""


def load_bounds(data: ClusterData) -> tuple[float, float]:
    """Return lower bounds on the largest traffic of a server, and on its excess over the smallest [Gbit/s].

    What is on a server already counts as a task that may go anywhere. Tasks that a plan may leave out count
    for nothing, and the excess is then at least 0.
    """
    instance, count = data.instance, len(data.servers)
    rates = Counter(exact_fraction(server.traffic_gbit_per_s) for server in data.servers.values())
    for group in (group for job in instance.jobs if instance.requires(job) for group in job.task_groups):
        rates[exact_fraction(group.traffic_gbit_per_s)] += group.tasks
    unit = common_divisor(rates) or Fraction(1)
    sizes = Counter({int(rate / unit): tasks for rate, tasks in rates.items() if rate})
    total = sum(size * tasks for size, tasks in sizes.items())
    frequent = [size for size, _ in sizes.most_common(MAX_SIZES)]
    steps = {1, *(math.gcd(a, b) for a, b in combinations_with_replacement(frequent, 2))}
    largest, excess = _residue_bounds(sizes, steps, total, count) if count <= MAX_SERVERS else (0, 0)

    def evened_out(step: int) -> int:
        """Return the bound by whole steps on the largest load or, with a negative step, on the smallest."""
        whole = sum(size // step * tasks for size, tasks in sizes.items())
        return step * -(-whole // count)

    largest = max(largest, *sizes, *map(evened_out, steps))
    smallest = min(evened_out(-step) for step in steps)
    if count > 1:
        # What the emptiest server has at most: an even share of what the k largest tasks leave.
        rows = ([size] * min(sizes[size], count) for size in sorted(sizes, reverse=True))
        sums = accumulate(islice(chain.from_iterable(rows), count - 1), initial=0)
        shares = [(total - held) // (count - k) for k, held in enumerate(sums)]
        excess = max(excess, largest - min(*shares, smallest, (total - largest) // (count - 1)))
    return float(largest * unit), float(excess * unit * all(map(instance.requires, instance.jobs)))


def _residue_bounds(sizes: Counter[int], steps: set[int], total: int, servers: int) -> tuple[int, int]:
    """Return bounds on the largest load, and on its excess, by the residues of few tasks."""
    largest = excess = 0
    for step in steps:
        rows = ([size % step] * min(sizes[size], MAX_ODD_TASKS + 1) for size in sizes if size % step)
        odd = [*islice(chain.from_iterable(rows), MAX_ODD_TASKS + 1)]
        if len(odd) > MAX_ODD_TASKS:
            continue
        # Residues of the loads in rising order, for all ways to spread the odd tasks.
        spreads = {(0,) * servers}
        for residue in odd:
            spreads = {
                tuple(sorted((*loads[:n], (loads[n] + residue) % step, *loads[n + 1 :])))
                for loads in spreads
                for n in map(loads.index, {*loads})
            }
        ends = []
        for residues in spreads:
            each, more = divmod((total - sum(residues)) // step, servers)
            loads = [(each + (n < more)) * step + residue for n, residue in enumerate(residues)]
            ends.append((max(loads), max(loads) - min(loads)))
        largest, excess = map(max, (largest, excess), map(min, zip(*ends, strict=True)))
    return largest, excess
