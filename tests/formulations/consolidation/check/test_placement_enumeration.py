"""Implicit enumeration with useless prices: it still finds what is there, and proves what is not."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pytest
from placements import job, placement, server, three_jobs

from clusterplan.formulations.consolidation.check import bounds as check_certificate
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.check.placement_enumeration import PriceBound, none_better
from clusterplan.formulations.consolidation.classes import Classes
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
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
        assert none_better(classes, bound, VALUE, {"value": cutoff}, cutoff) is answer


def test_it_gives_up_on_what_is_too_large() -> None:
    """More jobs than it looks at, without an answer."""
    jobs = [job(f"j{k}", value=k + 1) for k in range(50)]
    classes = CheckedCluster.of(placement(["value"], [server(gpu=8)], jobs)).classes
    assert none_better(classes, priced(classes, 1.0), VALUE, {}, Fraction(0)) is None


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
        assert none_better(classes, bound, weights, {**best, "migrations": cutoff}, cutoff) is answer


def test_too_few_moves_leave_the_waiting_job_out() -> None:
    """With one move the value is four, and no placement has more."""
    classes = CheckedCluster.of(running(1)).classes
    prices = [[0.0] * len(pieces) for pieces in classes.pieces]
    bound = PriceBound(classes, prices, dict(VALUE), missing=False)
    for value, answer in ((4, False), (5, True)):
        limits = {"value": Fraction(-value), **classes.least_levels()}
        assert none_better(classes, bound, VALUE, limits, Fraction(-value)) is answer


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
    cutoff = check_certificate.level(classes, objective, best)
    assert none_better(classes, bound, weights, {objective: cutoff}, cutoff) is False
    better = cutoff - Fraction(1, 1000)
    assert none_better(classes, bound, weights, {objective: better}, better) is True
