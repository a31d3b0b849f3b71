"""Enumeration of placements by the check, and its Lagrangian bound."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pytest
from device_instances import job, placement, server, three_jobs

from clusterplan.formulations.consolidation.check import bounds as check_certificate
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.check.placement_enumeration import PriceBound, no_better_placement
from clusterplan.formulations.consolidation.classes import Classes
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.brute_force import ConsolidationBruteForce

VALUE = {"value": Fraction(1)}


def priced(classes: Classes, each: float) -> PriceBound:
    """Return the bound of equal prices for all tasks."""
    prices = [[each * float(row.sum()) for row in pieces] for pieces in classes.pieces]
    return PriceBound(classes, prices, dict(VALUE), missing=False)


@pytest.mark.parametrize("each", [0.5, 1.0])
def test_the_best_value_is_proven(each: float) -> None:
    """Six can be reached and seven cannot, for whichever prices."""
    classes = CheckedCluster(three_jobs()).classes
    bound = priced(classes, each)
    for value, answer in ((6, False), (7, True)):
        cutoff = Fraction(-value)
        assert no_better_placement(classes, bound, VALUE, {"value": cutoff}, cutoff) is answer


def test_it_gives_up_on_what_is_too_large() -> None:
    """More jobs than it looks at, without an answer."""
    jobs = [job(f"j{k}", value=k + 1) for k in range(50)]
    classes = CheckedCluster.of(placement(["value"], [server(gpu=8)], jobs)).classes
    assert no_better_placement(classes, priced(classes, 1.0), VALUE, {}, Fraction(0)) is None


def running(moves: int) -> ConsolidationInstance:
    """Two servers of four GPUs; two jobs of one run on each, and one that waits needs all four of one."""
    jobs = [job(f"r{k}", value=1, current={f"s{k % 2}": 1}, must_place=True) for k in range(4)]
    waits = job("w", demand={"gpu": 4}, value=4)
    servers = [server("s0", gpu=4), server("s1", gpu=4)]
    made = placement(["value", "migrations", "servers"], servers, [*jobs, waits])
    return made.replace(max_moves=moves)


@pytest.mark.parametrize(("moves", "fewest"), [(4, 2), (2, 2)])
def test_the_fewest_migrations_are_proven_whatever_the_prices(moves: int, fewest: int) -> None:
    """Two jobs have to leave a server for the one that waits."""
    classes = CheckedCluster.of(running(moves)).classes
    weights = {"migrations": Fraction(1)}
    prices = [[0.0] * len(pieces) for pieces in classes.pieces]
    bound = PriceBound(classes, prices, dict(weights), missing=False)
    best = {"value": Fraction(-8), **classes.least_levels()}
    for most, answer in ((fewest, False), (fewest - 1, True)):
        cutoff = Fraction(most) - classes.offset("migrations")
        assert no_better_placement(classes, bound, weights, {**best, "migrations": cutoff}, cutoff) is answer


def test_too_few_moves_leave_the_waiting_job_out() -> None:
    """With one move the value is four, and no placement has more."""
    classes = CheckedCluster.of(running(1)).classes
    prices = [[0.0] * len(pieces) for pieces in classes.pieces]
    bound = PriceBound(classes, prices, dict(VALUE), missing=False)
    for value, answer in ((4, False), (5, True)):
        limits = {"value": Fraction(-value), **classes.least_levels()}
        assert no_better_placement(classes, bound, VALUE, limits, Fraction(-value)) is answer


@pytest.mark.parametrize("objective", ["value", "migrations"])
@pytest.mark.parametrize("seed", range(25))
def test_with_running_jobs_the_best_is_that_of_all_placements(seed: int, objective: str) -> None:
    """Random jobs of up to three tasks on three servers, of which some run; no prices."""
    draw = random.Random(seed)
    free, jobs = {f"s{k}": 4 for k in range(3)}, []
    for number in range(4):
        tasks, gpus = draw.randint(1, 3), draw.randint(1, 3)
        now: Counter[str] = Counter()
        for _ in range(tasks * draw.randint(0, 1)):
            places = [name for name, left in free.items() if left >= gpus]
            if places:
                name = draw.choice(places)
                free[name] -= gpus
                now[name] += 1
        whole = now.total() == tasks
        more = {"current": dict(now), "must_place": whole and draw.random() < 0.7, "restart_s": 900}
        extra = more if now else {}
        jobs.append(job(f"j{number}", tasks, {"gpu": gpus}, value=draw.randint(1, 5), **extra))
    instance = placement([objective], [server(name, gpu=4) for name in free], jobs)
    formulation = ConsolidationFormulation(instance)
    found = ConsolidationBruteForce().solve(formulation, SolveOptions(), Clock(None))
    assert found.plan is not None
    (best,) = formulation.evaluate(found.plan)
    classes = CheckedCluster.of(instance).classes
    weights = {objective: Fraction(1)}
    bound = PriceBound(classes, [[0.0] * len(p) for p in classes.pieces], dict(weights), missing=False)
    cutoff = check_certificate.objective_level(classes, objective, best)
    assert no_better_placement(classes, bound, weights, {objective: cutoff}, cutoff) is False
    better = cutoff - Fraction(1, 1000)
    assert no_better_placement(classes, bound, weights, {objective: better}, better) is True


PREFERRED = placement(
    ["value", "spread"], [server("n", gpu=2), server("m", gpu=2)], [job("a", 3, spread="preferred")]
)


def test_the_cheapest_pattern_of_a_job() -> None:
    """Three tasks in pieces of one (price 2) and two (price 3): two and one cost 5, and one extra server."""
    classes = CheckedCluster.of(PREFERRED).classes
    assert classes.pieces[0].tolist() == [[1], [2]]
    weights = {"spread": Fraction(1)}
    bound = PriceBound(classes, [[2.0, 3.0]], weights, missing=False)
    assert bound.job(classes.jobs[0]) == 5  # m_j is two, and so are the servers
    assert PriceBound(classes, [[1.0, 3.0]], weights, missing=False).job(classes.jobs[0]) == 4


def test_servers_are_paid_for_the_best_pattern() -> None:
    """A server of two GPUs holds one piece of two, or two pieces of one, whichever is paid more."""
    classes = CheckedCluster.of(PREFERRED).classes
    for prices, paid in (([2.0, 3.0], 4), ([1.0, 3.0], 3)):
        bound = PriceBound(classes, [prices], {}, missing=False)
        assert {Fraction(worth, bound.scale) for worth in bound.paid()} == {Fraction(paid)}
        assert bound.value() == -2 * paid  # the job stays out


def test_prices_that_cannot_be_added_up_are_refused() -> None:
    """Rather than to leave 64 bits."""
    classes = CheckedCluster.of(PREFERRED).classes
    with pytest.raises(TooLargeError):
        PriceBound(classes, [[1e18, 1e18]], {}, missing=False)


def test_prices_have_as_many_binary_places_as_sums_leave_room_for() -> None:
    """A server holds four tasks of either job, eight in all: 58 bits, less those of 32 prices."""
    jobs = [job("a", 4, spread="preferred"), job("b", 4, demand={"gpu": 1, "cpu": 1}, spread="preferred")]
    classes = CheckedCluster.of(placement(["value", "spread"], [server("n", gpu=8, cpu=8)], jobs)).classes
    for largest, scale in ((2.0**30, 2**22), (1.7 * 2.0**30, 2**22), (2.0**52, 1)):
        prices = [[largest] * len(pieces) for pieces in classes.pieces]
        assert PriceBound(classes, prices, {}, missing=False).scale == scale
    with pytest.raises(TooLargeError):
        PriceBound(classes, [[2.0**53] * len(pieces) for pieces in classes.pieces], {}, missing=False)


def test_what_a_job_is_worth_at_home_leaves_64_bits_for_sums_too() -> None:
    """Of the job that would lose most; the other does not run."""
    jobs = [job("a", current={"n": 1}, value=1), job("b", value=1)]
    instance = placement(["value"], [server("n", gpu=2)], jobs).model_copy(update={"restart_cost_h": 2.0**40})
    classes = CheckedCluster.of(instance).classes
    lost = max(one.restart for one in classes.jobs)
    assert lost > 2**39
    bound = PriceBound(classes, [[1.0] * len(p) for p in classes.pieces], {"value": Fraction(1)}, False)
    assert bound.scale * lost * 4 <= 2**58
