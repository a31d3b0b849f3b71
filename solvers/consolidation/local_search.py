"""Local search by ruin and recreate (Schrimpf et al. 2000) with simulated annealing, in compiled loops.

A step takes a few servers, mostly with residual capacity, and removes some of the jobs that are on these
alone. Removed and waiting jobs are inserted one after the other, in a random order by size or by value per
size, by best fit for vector bin packing (Panigrahy et al. 2011) with random weights of the resources: the
scarcer a resource, the larger. Running jobs go back to their servers where they fit.

A result that is lexicographically no worse is kept; a worse one with a probability that falls with the loss
and with time (simulated annealing, Kirkpatrick et al. 1983). The best placement seen is the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from ...formulations.common.clock import Clock, check_time
from ...formulations.common.compiled import compiled_without_arrays
from ...formulations.common.objective import TIE_TOLERANCE
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, Plan
from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import OutOfTimeError
from ..common.result import SolveOptions
from .list_heuristics import CAPACITY_TOLERANCE
from .placement_arrays import (
    ACTIVE,
    CURSOR,
    ENTRIES,
    HOMEWARD,
    INSERTED,
    LOAD,
    LOSSES,
    MIGRATIONS,
    MISSING,
    MOVED,
    MUST,
    NEAR,
    RACKS,
    REMOVED,
    SERVERS,
    SLOWDOWN,
    SPREAD,
    STOPS,
    TRAFFIC,
    VALUE,
    ClusterArrays,
    PlacementArrays,
    SearchState,
)

MEAN_MORE, MAX_NEAR = 2.5, 12
"""Servers of a step: how many beyond the first on average, and the most."""
MAX_CLASSES = 300
"""Largest number of classes of waiting jobs that are tried in a step."""
TOGETHER_CHANCE, EMPTIED_CHANCE, DENSITY_CHANCE = 0.5, 0.5, 0.4
"""Chance that servers of one job come together, that one is emptied, and that value per size counts."""
NOISE = 0.1
"""Largest range of the logarithm of the random factor on the size of a job."""
HOME_BONUS, OPENING_PENALTY, CLOSED_PENALTY = 4e6, 1e6, 2e6
"""Amounts that are larger than any weighted residual capacity."""
FIRST_TEMPERATURE, LAST_TEMPERATURE = 0.02, 0.001
"""Temperatures, in units of a job's mean value or of one server, rack or task."""
STEPS_PER_SERVER, STEPS_AT_ONCE = 1000, 1000
"""Steps of a search, and steps at one temperature."""
DRAWS = 1 << 14
"""Random numbers that are drawn for the steps at one temperature."""


@compiled_without_arrays
def _draw(state: SearchState) -> float:
    """Return the next random number from [0, 1)."""
    cursor = state.counts[CURSOR]
    state.counts[CURSOR] = (cursor + 1) % len(state.draws)
    return float(state.draws[cursor])


@compiled_without_arrays
def _weighted(weights: Floats, amounts: Floats, row: int) -> float:
    """Return a row of amounts by resource as one figure."""
    total = 0.0
    for r in range(len(weights)):
        total += weights[r] * amounts[row, r]
    return total


@compiled_without_arrays
def _add_server(cluster: ClusterArrays, state: SearchState, n: int, sign: int, losses: Floats) -> None:
    """Add what a server loses to the losses."""
    if state.head[n] >= 0 or cluster.taken[n]:
        losses[SERVERS] += sign
    losses[TRAFFIC] += sign * max(0.0, state.traffic[n] - cluster.most_traffic)
    scale = cluster.by_scale
    losses[LOAD] -= sign * (_weighted(scale, cluster.free, n) - _weighted(scale, state.left, n)) ** 2


@compiled_without_arrays
def _add_job(cluster: ClusterArrays, state: SearchState, j: int, sign: int, losses: Floats) -> None:
    """Add what a job loses, placed or not, to the losses."""
    c, first = cluster.of_class[j], cluster.first_piece[j]
    pieces, kept = state.pieces[j], 0
    for h in range(cluster.first_home[j], cluster.first_home[j + 1]):
        for p in range(first, first + pieces):
            if state.server[p] == cluster.home[h]:
                kept += min(state.units[p] * cluster.unit_tasks[j], cluster.home_tasks[h])
    losses[MIGRATIONS] -= sign * kept
    if kept < cluster.running[j]:
        losses[MOVED] += sign
        losses[VALUE] += sign * cluster.restart[j]
    if pieces == 0:
        losses[MISSING] += sign * (cluster.priority[c] == MUST)
        losses[STOPS] += sign * (cluster.running[j] > 0)
        return
    losses[VALUE] -= sign * cluster.worth[c]
    losses[SLOWDOWN] += sign * cluster.slower[c, pieces]
    if cluster.fewest[c] >= 0:
        losses[SPREAD] += sign * (pieces - cluster.fewest[c])
    for p in range(first + 1, first + pieces):
        rack = cluster.rack[state.server[p]]
        other = first
        while other < p and cluster.rack[state.server[other]] != rack:
            other += 1
        if other == p:
            losses[RACKS] += sign


@compiled_without_arrays
def _add_piece(cluster: ClusterArrays, state: SearchState, j: int, n: int, units: int) -> None:
    """Place one more piece of a job on a server."""
    c, p = cluster.of_class[j], cluster.first_piece[j] + state.pieces[j]
    state.pieces[j] += 1
    state.server[p], state.units[p] = n, units
    for r in range(cluster.free.shape[1]):
        state.left[n, r] -= units * cluster.demand[c, r]
    state.traffic[n] += units * cluster.rate[c]
    first = state.head[n]
    state.following[p], state.before[p], state.head[n] = first, -1, p
    if first >= 0:
        state.before[first] = p


@compiled_without_arrays
def _remove(cluster: ClusterArrays, state: SearchState, j: int) -> None:
    """Take all pieces of a job off their servers."""
    c, first = cluster.of_class[j], cluster.first_piece[j]
    for p in range(first, first + state.pieces[j]):
        n, units = state.server[p], state.units[p]
        for r in range(cluster.free.shape[1]):
            state.left[n, r] += units * cluster.demand[c, r]
        state.traffic[n] -= units * cluster.rate[c]
        before, following = state.before[p], state.following[p]
        if before >= 0:
            state.following[before] = following
        else:
            state.head[n] = following
        if following >= 0:
            state.before[following] = before
    state.pieces[j] = 0


@compiled_without_arrays
def _enqueue(cluster: ClusterArrays, state: SearchState, j: int) -> None:
    """Add a job to the waiting jobs of its class."""
    c = cluster.of_class[j]
    state.queue[cluster.first_of_class[c] + state.waiting[c]] = j
    if state.waiting[c] == 0:
        state.active[state.counts[ACTIVE]], state.active_at[c] = c, state.counts[ACTIVE]
        state.counts[ACTIVE] += 1
    state.waiting[c] += 1


@compiled_without_arrays
def start(cluster: ClusterArrays, state: SearchState, pieces: Ints, server: Ints, units: Ints) -> None:
    """Place pieces in an empty state; all other jobs that can run wait."""
    for j in range(len(pieces)):
        if pieces[j] == 0 and cluster.most[cluster.of_class[j]] > 0:
            _enqueue(cluster, state, j)
        for p in range(cluster.first_piece[j], cluster.first_piece[j] + pieces[j]):
            _add_piece(cluster, state, j, server[p], units[p])
        _add_job(cluster, state, j, 1, state.total)
    for n in range(len(state.head)):
        _add_server(cluster, state, n, 1, state.total)


@compiled_without_arrays
def _add_near(state: SearchState, n: int) -> None:
    """Add a server to those of the step, unless it is there or they are many."""
    count = state.counts[NEAR]
    if state.at[n] < 0 and count < MAX_NEAR:
        state.near[count], state.at[n] = n, count
        state.counts[NEAR] = count + 1


@compiled_without_arrays
def _choose(cluster: ClusterArrays, state: SearchState) -> None:
    """Choose weights of the resources, and the servers of a step.

    Each time, of two random servers it is the one with more residual capacity. With some chance the other
    servers of one of its jobs come along, or where a job ran that has moved here.
    """
    for k in range(NEAR, ACTIVE):
        state.counts[k] = 0
    share = cluster.home_share
    state.counts[HOMEWARD] = share >= 1.0 or (share > 0.0 and _draw(state) < share)
    for o in range(len(state.loss)):
        state.loss[o] = 0.0
    for r in range(len(state.weights)):
        state.weights[r] = -math.log(1.0 - _draw(state)) * cluster.scarcity[r] * cluster.by_scale[r]
    count = len(state.head)
    size = min(2 + int(-math.log(1.0 - _draw(state)) * MEAN_MORE), MAX_NEAR)
    together = _draw(state) < TOGETHER_CHANCE
    for _ in range(2 * size):
        if state.counts[NEAR] >= size:
            break
        n, other = int(_draw(state) * count), int(_draw(state) * count)
        if _weighted(state.weights, state.left, other) > _weighted(state.weights, state.left, n):
            n = other
        _add_near(state, n)
        p = state.head[n] if together else -1
        while p >= 0:
            j = cluster.owner[p]
            home = cluster.home[cluster.first_home[j]] if cluster.running[j] > 0 else n
            if home != n or state.pieces[j] > 1:
                _add_near(state, home)
                for q in range(cluster.first_piece[j], cluster.first_piece[j] + state.pieces[j]):
                    _add_near(state, state.server[q])
                break
            p = state.following[p]


@compiled_without_arrays
def _ruin(cluster: ClusterArrays, state: SearchState) -> None:
    """Remove a random part of the jobs that are on the servers of the step alone.

    With some chance one server, with little load, is emptied, and gets a penalty.
    """
    chance, emptied, least, old = _draw(state), -1, np.inf, 0
    if cluster.counts_servers and _draw(state) < EMPTIED_CHANCE:
        for h in range(state.counts[NEAR]):
            n = state.near[h]
            load = _weighted(cluster.by_scale, cluster.free, n) - _weighted(cluster.by_scale, state.left, n)
            load *= _draw(state)
            if state.head[n] >= 0 and not cluster.taken[n] and load < least:
                emptied, least = h, load
    for h in range(state.counts[NEAR]):
        state.penalty[h] = CLOSED_PENALTY if h == emptied else 0.0
        p = state.head[state.near[h]]
        while p >= 0:
            j = cluster.owner[p]
            first = cluster.first_piece[j]
            last, here = first + state.pieces[j], h == emptied or _draw(state) < chance
            # A job has one piece on a server, so that the next piece of this server stays.
            p = state.following[p]
            for q in range(first, last):
                here = here and state.at[state.server[q]] >= 0
            if here:
                k = state.counts[REMOVED]
                state.counts[REMOVED] = k + 1
                state.removed[k], state.old_pieces[k] = j, last - first
                for q in range(first, last):
                    state.old_server[old], state.old_units[old] = state.server[q], state.units[q]
                    old += 1
                _add_job(cluster, state, j, -1, state.loss)
                _remove(cluster, state, j)


@compiled_without_arrays
def _add_entries(cluster: ClusterArrays, state: SearchState) -> None:
    """List what is to be inserted, by ascending key.

    It is the removed jobs, the classes of jobs that ran on the servers of the step, and other classes.
    """
    removed, entries = state.counts[REMOVED], state.counts[REMOVED]
    for k in range(removed):
        state.entry[k] = state.removed[k]
    for h in range(state.counts[NEAR]):
        n = state.near[h]
        for k in range(cluster.first_resident[n], cluster.first_resident[n + 1]):
            c = cluster.of_class[cluster.resident[k]]
            if state.waiting[c] > 0:
                state.entry[entries] = -1 - c
                entries += 1
    residents, count = entries, state.counts[ACTIVE]
    first = int(_draw(state) * count)
    for i in range(min(count, MAX_CLASSES)):
        state.entry[entries] = -1 - state.active[(first + i) % count]
        entries += 1
    dense, noise = _draw(state) < DENSITY_CHANCE, NOISE * _draw(state)
    for k in range(entries):
        j = state.entry[k]
        if j < 0:
            j = state.queue[cluster.first_of_class[-1 - j]]
        c = cluster.of_class[j]
        key = max(cluster.units[c] * _weighted(state.weights, cluster.demand, c), TIE_TOLERANCE)
        if dense:
            # Where a running job stays, it loses nothing.
            key = (cluster.worth[c] + (cluster.restart[j] if k < residents else 0.0)) / key
        key *= math.exp(noise * (_draw(state) + _draw(state) - 1.0))
        state.key[k] = -2 * cluster.priority[c] - key / (1.0 + key)
    state.counts[ENTRIES] = entries


@compiled_without_arrays
def insert(cluster: ClusterArrays, state: SearchState, j: int) -> bool:
    """Place a job on the servers of the step, whole or not at all; return whether it was placed.

    The server with the most room comes first, so that it uses few. Of these that with the least weighted
    residual capacity is best; its current one is better, an empty one worse.
    """
    c = cluster.of_class[j]
    left, near = cluster.units[c], state.counts[NEAR]
    for h in range(near):
        n = state.near[h]
        room = left if cluster.allowed[cluster.kind[c], n] else 0
        for r in range(cluster.free.shape[1]):
            if room * cluster.demand[c, r] > state.left[n, r] * CAPACITY_TOLERANCE:
                room = max(0, int(state.left[n, r] * CAPACITY_TOLERANCE / cluster.demand[c, r]))
        if room > 0 and state.head[n] < 0 and not cluster.taken[n] and cluster.only_used[c]:
            room = 0
        state.room[h] = room
    while left > 0 and state.pieces[j] < cluster.most[c]:
        best, best_room, best_rank = -1, 1, np.inf
        for h in range(near):
            room = min(state.room[h], left)
            if room < best_room:
                continue
            n = state.near[h]
            rank = state.penalty[h] + _weighted(state.weights, state.left, n)
            if cluster.counts_servers and state.head[n] < 0 and not cluster.taken[n]:
                rank += OPENING_PENALTY
            for k in range(cluster.first_home[j], cluster.first_home[j + 1]):
                if cluster.home[k] == n:
                    rank -= HOME_BONUS * state.counts[HOMEWARD]
            if room > best_room or rank < best_rank:
                best, best_room, best_rank = h, room, rank
        if best < 0:
            break
        _add_piece(cluster, state, j, state.near[best], best_room)
        state.room[best] = 0
        left -= best_room
    if left > 0 and state.pieces[j] > 0:
        _remove(cluster, state, j)
    return bool(left == 0)


@compiled_without_arrays
def _recreate(cluster: ClusterArrays, state: SearchState) -> None:
    """Insert what is listed, by ascending key (sorted as by Shell 1959): of a class as many jobs as fit."""
    count = state.counts[ENTRIES]
    gap = count // 2
    while gap > 0:
        for k in range(gap, count):
            entry, key, at = state.entry[k], state.key[k], k
            while at >= gap and state.key[at - gap] > key:
                state.entry[at], state.key[at] = state.entry[at - gap], state.key[at - gap]
                at -= gap
            state.entry[at], state.key[at] = entry, key
        gap //= 2
    for k in range(count):
        if state.entry[k] >= 0:
            insert(cluster, state, state.entry[k])
            continue
        c = -1 - state.entry[k]
        while state.waiting[c] > 0:
            # The last of the waiting jobs.
            j = state.queue[cluster.first_of_class[c] + state.waiting[c] - 1]
            if not insert(cluster, state, j):
                break
            # What it lost while it was on no server.
            pieces, state.pieces[j] = state.pieces[j], 0
            _add_job(cluster, state, j, -1, state.loss)
            state.pieces[j] = pieces
            state.waiting[c] -= 1
            if state.waiting[c] == 0:
                state.counts[ACTIVE] -= 1
                other = state.active[state.counts[ACTIVE]]
                state.active[state.active_at[c]], state.active_at[other] = other, state.active_at[c]
            state.inserted[state.counts[INSERTED]] = j
            state.counts[INSERTED] += 1


@compiled_without_arrays
def _accept_or_undo(cluster: ClusterArrays, state: SearchState, temperature: Floats) -> None:
    """Keep a feasible result of a step that is no worse or, by chance, not much worse; undo any other."""
    accepted = state.loss[MOVED] <= 0 or state.total[MOVED] + state.loss[MOVED] <= cluster.most_moved
    if accepted:
        for i in range(len(cluster.order)):
            o = cluster.order[i]
            if abs(state.loss[o]) > TIE_TOLERANCE * max(1.0, abs(state.total[o])):
                accepted = state.loss[o] < -temperature[o] * math.log(1.0 - _draw(state))
                break
    old = 0
    for k in range(0 if accepted else state.counts[INSERTED]):
        _remove(cluster, state, state.inserted[k])
        _enqueue(cluster, state, state.inserted[k])
    for k in range(0 if accepted else state.counts[REMOVED]):
        _remove(cluster, state, state.removed[k])
    for k in range(state.counts[REMOVED]):
        j = state.removed[k]
        for _ in range(0 if accepted else state.old_pieces[k]):
            _add_piece(cluster, state, j, state.old_server[old], state.old_units[old])
            old += 1
        if accepted and state.pieces[j] == 0:
            _enqueue(cluster, state, j)
    for o in range(len(state.total) if accepted else 0):
        state.total[o] += state.loss[o]


@compiled_without_arrays
def anneal(cluster: ClusterArrays, state: SearchState, temperature: Floats, steps: int) -> None:
    """Make some steps of ruin and recreate at one temperature of each loss."""
    for _ in range(steps):
        _choose(cluster, state)
        for h in range(state.counts[NEAR]):
            _add_server(cluster, state, state.near[h], -1, state.loss)
        _ruin(cluster, state)
        _add_entries(cluster, state)
        _recreate(cluster, state)
        for k in range(state.counts[REMOVED]):
            _add_job(cluster, state, state.removed[k], 1, state.loss)
        for k in range(state.counts[INSERTED]):
            _add_job(cluster, state, state.inserted[k], 1, state.loss)
        for h in range(state.counts[NEAR]):
            _add_server(cluster, state, state.near[h], 1, state.loss)
            state.at[state.near[h]] = -1
        _accept_or_undo(cluster, state, temperature)


def first_state(cluster: ClusterArrays, pieces: tuple[Ints, Ints, Ints]) -> SearchState:
    """Return the state of a placement, given by the pieces of each job, their servers and their units."""
    (classes, resources), servers = cluster.demand.shape, len(cluster.free)
    jobs, most = len(cluster.of_class), len(cluster.owner)
    entries = jobs + len(cluster.home) + classes
    sizes = {
        **dict.fromkeys(("server", "units", "following", "before", "old_server", "old_units"), most),
        **dict.fromkeys(("pieces", "queue", "removed", "inserted", "old_pieces"), jobs),
        **dict.fromkeys(("waiting", "active", "active_at"), classes),
        **{"counts": HOMEWARD + 1, "near": MAX_NEAR, "room": MAX_NEAR, "entry": entries},
    }
    floats = {"weights": resources, "penalty": MAX_NEAR, "key": entries, "draws": DRAWS}
    state = SearchState(
        **{name: np.zeros(size, dtype=np.int64) for name, size in sizes.items()},
        **{name: np.zeros(size) for name, size in floats.items()},
        left=cluster.free.copy(),
        traffic=cluster.load.copy(),
        head=np.full(servers, -1),
        at=np.full(servers, -1),
        loss=np.zeros(len(LOSSES)),
        total=np.zeros(len(LOSSES)),
    )
    start(cluster, state, *pieces)
    return state


def improve(
    formulation: ConsolidationFormulation,
    plan: Plan,
    options: SolveOptions,
    clock: Clock,
    stop: Callable[[tuple[float, ...]], bool],
    steps_per_server: int = STEPS_PER_SERVER,
) -> list[JobPlacement]:
    """Improve a plan by local search, lexicographically in its objectives.

    It ends after a number of steps, at the time limit, or when the plan is good enough. The sooner of the
    first two sets the temperature.

    Parameters
    ----------
    plan
        Feasible, but for required jobs that are not placed. The result has fewer of these, or none.
    options
        Solve options, of which the seed is used.
    stop
        Returns whether a plan with these values is good enough.
    """
    arrays, values = PlacementArrays(formulation, plan), np.array(formulation.evaluate(plan))
    best, done, began_s = arrays.pieces(), 0, clock.elapsed_s
    steps, limit_s = steps_per_server * len(arrays.cluster.free), clock.remaining_s
    random = np.random.default_rng(options.seed or 0)
    signs = np.array([1 if objective.sense == "min" else -1 for objective in formulation.objectives])
    with suppress(OutOfTimeError), clock.enforced():
        check_time()
        state = first_state(arrays.cluster, best)
        # What exceeds the largest traffic so far counts as a loss.
        cluster = arrays.cluster._replace(most_traffic=float(state.traffic.max()))
        order, first = cluster.order[: len(signs) + 1], state.total.copy()
        first[MISSING] = 0.0
        scale = np.where(cluster.unit_loss > 0, cluster.unit_loss, 1.0)
        least = state.total - first
        while done < steps and not (least[MISSING] == 0 and stop(tuple(values + signs * least[order[1:]]))):
            share = max(done / steps, (clock.elapsed_s - began_s) / limit_s if limit_s else 0.0)
            cooling = FIRST_TEMPERATURE * (LAST_TEMPERATURE / FIRST_TEMPERATURE) ** share
            state.draws[:] = random.random(DRAWS)
            anneal(cluster, state, cooling * cluster.unit_loss, STEPS_AT_ONCE)
            done += STEPS_AT_ONCE
            if done == STEPS_AT_ONCE:
                began_s = clock.elapsed_s  # the loops are compiled now, once on a machine
            # Sums of many changes differ from each other in the last digits.
            changes = np.round((state.total - first) / scale, 9) * scale
            if changes[order].tolist() < least[order].tolist():
                best, least = (state.pieces.copy(), state.server.copy(), state.units.copy()), changes
            check_time()
    return arrays.plan(*best)
