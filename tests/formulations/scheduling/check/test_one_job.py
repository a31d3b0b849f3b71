"""What one job costs at least, against all its schedules in whole seconds, and linear programmes.

The hull of configurations and the heap of work by cost, beside what is plain and slow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import linprog

from clusterplan.formulations.scheduling.check.one_job import (
    nonpreemptive_cost_bounds,
    preemptive_cost_bounds,
)
from clusterplan.formulations.scheduling.cost_of_work import cost_hull, cost_rate
from clusterplan.instances.common.arrays import Floats

END = 40
"""No schedule of a random job below has a reason to end later."""


def draw(rng: np.random.Generator) -> tuple[Floats, Floats, int, int, float]:
    """Return edges, costs a second in each cell, arrival, duration and weight, all small and whole."""
    cells = int(rng.integers(1, 10))
    edges = np.concatenate([[0], np.sort(rng.choice(np.arange(1, 20), cells - 1, replace=False))])
    price = np.append(rng.integers(0, 8, cells - 1), 0)
    if rng.random() < 0.3:
        price = price * (rng.random(cells) < 0.5)
    weight = float(rng.integers(0, 4))
    arrival = int(rng.integers(0, 20)) if rng.random() < 0.5 else 0
    return edges.astype(float), price.astype(float), arrival, int(rng.integers(1, 8)), weight


def seconds(edges: Floats, price: Floats) -> Floats:
    """Return the cost of each whole second until the end of time."""
    return price[np.searchsorted(edges, np.arange(END), side="right") - 1]


def cheapest_seconds(cost: Floats, r: int, p: int, weight: float, ends: range | None = None) -> float:
    """Return the least cost over all ends of the cheapest seconds before it."""
    ends = range(r + p, END + 1) if ends is None else ends
    return min(weight * (c - r) + float(np.sort(cost[r:c])[:p].sum()) for c in ends if c >= r + p)


def cheapest_window(cost: Floats, starts: list[int], r: int, p: int, weight: float) -> float:
    """Return the least cost over these starts of a run without a break."""
    return min(weight * (s + p - r) + float(cost[s : s + p].sum()) for s in starts)


def one(function: Callable[..., Floats], edges: Floats, price: Floats, r: float, p: float, w: float) -> float:
    """Return what the compiled loop says of a rigid job."""
    column = [np.array([float(x)]) for x in (r, p, w)]
    first, rows = np.array([0, 1]), (np.ones((1, 1)), np.ones(1))
    return float(function(np.append(edges, np.inf), price[:, None], *column, first, *rows)[0])


def least(function: Callable[..., Floats], cost: Floats, r: int, p: int, weight: float) -> float:
    """Return the least cost of a job by all ends, or all starts, in whole seconds."""
    if function is preemptive_cost_bounds:
        return cheapest_seconds(cost, r, p, weight)
    return cheapest_window(cost, list(range(r, END - p)), r, p, weight)


@pytest.mark.parametrize("function", [preemptive_cost_bounds, nonpreemptive_cost_bounds])
@pytest.mark.parametrize("seed", range(20))
def test_a_job_costs_what_its_cheapest_seconds_or_its_cheapest_window_cost(
    seed: int, function: Callable[..., Floats]
) -> None:
    """There is no cheaper end or start between whole seconds."""
    rng = np.random.default_rng(seed)
    for _ in range(50):
        edges, price, r, p, w = draw(rng)
        truth = least(function, seconds(edges, price), r, p, w)
        assert truth * (1 - 1e-10) - 1e-10 <= one(function, edges, price, r, p, w) <= truth


def test_the_random_jobs_tell_sweeps_that_leave_something_out() -> None:
    """Of windows the starts with an end at an edge, of both the time after the last edge."""
    rng = np.random.default_rng(0)
    wrong = dict.fromkeys(("edges only", "no open cell for windows", "no open cell"), 0)
    for _ in range(2000):
        edges, price, r, p, w = draw(rng)
        cost, last = seconds(edges, price), int(edges[-1])
        window = one(nonpreemptive_cost_bounds, edges, price, r, p, w)
        at_edges = [r, *(int(e) for e in edges if e >= r)]
        wrong["edges only"] += cheapest_window(cost, at_edges, r, p, w) > window + 1e-6
        closed = [s for s in range(r, END - p) if s < max(last, r + 1)]
        wrong["no open cell for windows"] += cheapest_window(cost, closed, r, p, w) > window + 1e-6
        spread = one(preemptive_cost_bounds, edges, price, r, p, w)
        ends = range(r + p, max(last, r + p) + 1)
        wrong["no open cell"] += cheapest_seconds(cost, r, p, w, ends) > spread + 1e-6
    assert min(wrong.values()) >= 2, wrong


def least_by_programmes(
    edges: Floats, price: Floats, usage: Floats, speed: Floats, r: float, work: float, weight: float
) -> float:
    """Return the least cost of a malleable job: a linear programme for each cell in which it may end."""
    rates, found, far = usage @ price.T, np.inf, edges[-1] + 1e4
    ends = np.append(edges[1:], far)
    for last in range(len(edges)):
        if ends[last] <= r:
            continue
        cells = [g for g in range(last + 1) if ends[g] > r]
        count = len(cells) * len(speed)
        # The end, then seconds in each cell with each configuration.
        cost = np.append(weight, np.concatenate([rates[:, g] for g in cells]))
        upper, limit = np.zeros((len(cells), 1 + count)), np.zeros(len(cells))
        for row, g in enumerate(cells):
            upper[row, 1 + row * len(speed) : 1 + (row + 1) * len(speed)] = 1.0
            limit[row] = ends[g] - max(edges[g], r)
        upper[-1, 0], limit[-1] = -1.0, -max(edges[last], r)
        does = np.append(0.0, np.tile(speed, len(cells)))[None]
        bounds = [(max(edges[last], r), ends[last]), *[(0, None)] * count]
        solved = linprog(cost, upper, limit, does, [work], bounds)
        if solved.status == 0:
            found = min(found, solved.fun - weight * r)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_a_malleable_job_costs_what_linear_programmes_say(seed: int) -> None:
    """On two resources, with configurations that may be useless."""
    rng = np.random.default_rng(seed)
    for _ in range(4):
        cells, configs = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        edges = np.append(0.0, np.cumsum(rng.integers(1, 6, cells - 1))).astype(float)
        price = rng.integers(0, 6, (cells, 2)).astype(float)
        price[-1] = 0
        usage = rng.integers(0, 4, (configs, 2)).astype(float)
        speed = np.sort(rng.integers(1, 4, configs)).astype(float)
        r, work, weight = float(rng.integers(0, 12)), float(rng.integers(1, 15)), float(rng.integers(0, 3))
        truth = least_by_programmes(edges, price, usage, speed, r, work, weight)
        columns = [np.array([x]) for x in (r, work, weight)]
        given = (np.append(edges, np.inf), price, *columns, np.array([0, configs]), usage, speed)
        found = float(preemptive_cost_bounds(*given)[0])
        assert found == pytest.approx(truth, rel=1e-7, abs=1e-6)
        windows = float(nonpreemptive_cost_bounds(*given)[0])
        assert windows >= found * (1 - 1e-9)


def test_huge_prices_and_times_lower_the_figure_and_never_raise_it() -> None:
    """Where rounding hides everything, what is left is the fastest run."""
    edges = np.array([0.0, 1e3, 1e12])
    for level in (1e16, 1e100, 1e300):
        price = np.array([level, 1.0, 0.0])
        # It waits for 1,000 s, and then pays 10.
        for function in (preemptive_cost_bounds, nonpreemptive_cost_bounds):
            assert 10 * (1 - 1e-9) <= one(function, edges, price, 0, 10, 1.0) <= 1020
    assert one(preemptive_cost_bounds, edges, np.array([1.0, 1.0, 0.0]), 0, 0.0, 1.0) == 0


@pytest.mark.parametrize("seed", range(30))
def test_no_mixture_of_configurations_is_below_the_hull(seed: int) -> None:
    """At the speed of each configuration it is the least that any two, or one and idleness, cost."""
    rng = np.random.default_rng(seed)
    price, usage = rng.integers(0, 4, 2).astype(float), rng.integers(0, 5, (6, 2)).astype(float)
    speed = np.sort(rng.integers(1, 7, 6)).astype(float)
    pieces, corners = np.empty((4, 6)), np.empty((2, 7))
    count = cost_hull(price, usage, speed, pieces, corners)
    assert (np.diff(pieces[0, :count]) > 0).all()
    assert not pieces[3, :count].any()
    s, c = np.append(0.0, speed), np.array([0.0, *(cost_rate(price, row) for row in usage)])
    ends = np.append(0, 1 + pieces[2, :count].astype(int))
    assert np.diff(s[ends]) == pytest.approx(pieces[1, :count])
    assert np.diff(c[ends]) == pytest.approx(pieces[0, :count] * pieces[1, :count])
    for at in speed:
        below, above = np.nonzero(s <= at)[0][:, None], np.nonzero(s >= at)[0]
        share = np.divide(
            at - s[below],
            s[above] - s[below],
            where=s[above] > s[below],
            out=np.ones((len(below), len(above))),
        )
        least = (c[below] * (1 - share) + c[above] * share).min()
        assert np.interp(at, s[ends], c[ends]) == pytest.approx(least)
