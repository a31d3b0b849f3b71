"""Bounds of the check: by counting, by prices, and by enumeration of placements."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

import pytest
from device_instances import job, placement, server, three_jobs

import clusterplan
from clusterplan.formulations.common.objective import exact_fraction
from clusterplan.formulations.consolidation.certificate import MUST_PLACE, PRICED, CertifiedGoal
from clusterplan.formulations.consolidation.check import bounds as check_certificate
from clusterplan.formulations.consolidation.check.bounds import (
    elementary_bounds,
    elementary_infeasibility,
    goal_bound,
    objective_level,
    price_bounds,
    read_certificate,
    server_value_bounds,
    value_step,
)
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.check.placement_enumeration import PriceBound, no_better_placement
from clusterplan.formulations.consolidation.classes import Classes
from clusterplan.formulations.consolidation.cluster_data import ClusterData
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.brute_force import ConsolidationBruteForce


def goal(objective: str, prices: list[list[float]], **multipliers: float) -> dict[str, Any]:
    """Return the prices of one goal."""
    return {"objective": objective, "prices": prices, "multipliers": multipliers}


def uniform(formulation: ConsolidationFormulation, each: float) -> list[list[float]]:
    """Return a price for each task, whatever its piece."""
    return [[each * float(row.sum()) for row in pieces] for pieces in formulation.classes.pieces]


def test_a_price_of_one_for_each_gpu_is_a_knapsack_bound() -> None:
    """Seven GPUs are free; the jobs ask for eight, worth 3 + 3 + 1; the least worthy pays the difference."""
    checked = CheckedCluster(three_jobs())
    prices = uniform(three_jobs(), 1.0)
    bound = goal_bound(checked.classes, CertifiedGoal.model_validate(goal("value", prices)), {})
    assert bound == -7  # servers are paid 7, jobs a and b pay what they are worth, c pays more and stays out
    prices = uniform(three_jobs(), 0.5)
    bound = goal_bound(checked.classes, CertifiedGoal.model_validate(goal("value", prices)), {})
    assert bound == -6  # 3.5 for the servers, 1.5 left of a and b each, is 6.5, of which integers reach 6


def test_levels_and_steps() -> None:
    """Values are multiples of a common step; a level is one of them."""
    classes = CheckedCluster(three_jobs()).classes
    assert value_step(classes, "value") == 1
    assert objective_level(classes, "value", 6.0000000001) == -6
    instance = placement(["value"], [server(gpu=2)], [job("a", value=0.3), job("b", value=0.2)])
    assert value_step(CheckedCluster.of(instance).classes, "value") == Fraction(1, 10)


def test_bounds_need_earlier_objectives_to_be_proven() -> None:
    """With the value proven, prices of servers count; with a worse plan they do not."""
    formulation = three_jobs()
    checked = CheckedCluster(formulation)
    data = {
        "goals": [
            goal("value", uniform(formulation, 0.5)),
            goal("servers", uniform(formulation, 0.25), value=1),
        ]
    }
    best = price_bounds(checked, data, (6.0, 2.0), (None, 0.0))
    assert best["value"] == 6
    assert best["servers"] <= 2
    assert price_bounds(checked, {"goals": "none"}, (6.0, 2.0), (None, 0.0)) == {}


@pytest.mark.parametrize("data", [{}, {"goals": [goal("value", [[1.0]])]}, {"goals": [goal("fame", [])]}])
def test_what_is_wrong_with_a_form(data: Any) -> None:
    """A missing field, prices of another instance, an unknown objective."""
    assert isinstance(read_certificate(CheckedCluster(three_jobs()), data), str)


GROUPS = [{"name": name, "tasks": 1, "demand": {"gpu": 1}} for name in ("ps", "worker")]
NODE = {"gpu": 1, "any node": 1}


@pytest.mark.parametrize(
    ("jobs", "room", "price", "value", "worth"),
    [
        # Three jobs of a GPU each on one server of two: another is worth at most one job of value 1.
        ([job(f"j{k}", value=1) for k in range(3)], {"gpu": 2}, 1, 2, {"empty server of 2 gpu": 2.0}),
        # A choice of servers is nothing that is bought.
        (
            [job(f"j{k}", 1, NODE, value=1) for k in range(3)],
            {"gpu": 2, "any node": 9},
            1,
            2,
            {"empty server of 2 gpu": 2.0},
        ),
        # Prices prove 1.5 jobs of 0.1, of which no server adds a half.
        ([job(f"j{k}", value=0.1) for k in range(3)], {"gpu": 1}, 0.05, 0.1, {"empty server of 1 gpu": 0.1}),
        # A job of several groups may spread over one more server, which changes more than prices know.
        ([{"name": "j", "groups": GROUPS, "value": 1}], {"gpu": 2}, 1, 1, {}),
    ],
)
def test_an_empty_server_more_is_worth_what_it_is_paid(
    jobs: list[dict[str, Any]], room: dict[str, float], price: float, value: float, worth: dict[str, float]
) -> None:
    """Rounded down to a multiple of the values."""
    instance = placement(["value"], [server(**room)], jobs)
    restrictions = tuple(name for name in room if name != "gpu")
    formulation = ConsolidationFormulation(instance.model_copy(update={"restrictions": restrictions}))
    data = {"goals": [goal("value", uniform(formulation, price))]}
    assert server_value_bounds(CheckedCluster(formulation), data, value) == worth


def test_levels_without_a_step_are_loosened_for_the_rounding_of_doubles() -> None:
    jobs = [job("a", value=0.12345678901234567), job("b", value=0.3, current={"n": 1})]
    instance = placement(["value"], [server(gpu=2)], jobs).model_copy(update={"restart_cost_h": 1e6})
    classes = CheckedCluster(ConsolidationFormulation(instance)).classes
    assert value_step(classes, "value") is None
    # What is lost if all move is far larger than what the plan is worth: so is what rounding leaves.
    for value in (0.42345678901234567, -299999.5765432109):
        exactly = -exact_fraction(value) - classes.offset("value")
        assert objective_level(classes, "value", value) - exactly >= Fraction(29, 10**8)


def test_after_an_objective_that_is_not_proven_no_level_counts() -> None:
    instance = placement(["spread", "value", "servers"], [server(gpu=2)], [job("a", value=1)])
    formulation = ConsolidationFormulation(instance)
    data = {"goals": [goal("servers", uniform(formulation, 1), value=1)]}
    for spread, proven in ((0.0, True), (None, False)):
        found = price_bounds(CheckedCluster(formulation), data, (0.0, 1.0, 1.0), (spread, 1.0, None))
        assert ("servers" in found) == proven


@pytest.mark.parametrize("must_place", [False, True])
def test_a_limit_on_traffic_that_a_plan_keeps_is_not_refuted(must_place: bool) -> None:
    """The next multiple of the step above a limit that does not do, and no more."""
    jobs = [job(f"j{k}", traffic_gbit_per_s=0.2, must_place=must_place) for k in range(3)]
    objectives = ["traffic"] if must_place else ["value", "traffic"]
    # Servers without room, so that counting alone does not prove it.
    servers = [{**server(gpu=3), "count": 2}, *(server(name, gpu=0) for name in "xy")]
    instance = placement(objectives, servers, jobs)
    formulation, counted = ConsolidationFormulation(instance), 0.2 * must_place
    found = clusterplan.solve(instance, "exact", SolveOptions(threads=1))
    values = tuple(record.value for record in found.objectives)
    assert values == ((0.4,) if must_place else (3.0, 0.4))
    claim = (found.certificate or {})["traffic"]
    free = {**claim["goal"], "prices": [[0.0] * len(own) for own in claim["goal"]["prices"]]}
    # Prices of 0 prove that no job is missing at least, which refutes nothing.
    for goal, below, bound in (
        (claim["goal"], 0.2, 0.4),
        (claim["goal"], 0.3, 0.4),
        (claim["goal"], 0.4, counted),
        (claim["goal"], 0.5, counted),
        (free, 0.2, counted),
    ):
        certificate = {**(found.certificate or {}), "traffic": {**claim, "goal": goal, "below": below}}
        assert formulation.certified_bounds(certificate, values)[-1] == bound


def test_the_value_is_bounded_by_a_fractional_knapsack() -> None:
    """Of five GPUs the denser job takes two, and the other three of its four."""
    jobs = [job("dense", 2, value=6), job("thin", 4, value=4), job("never", 9, value=100)]
    checked = CheckedCluster.of(placement(["value", "traffic"], [server(gpu=5)], jobs))
    assert elementary_bounds(checked) == (9.0, 0.0)


def test_a_speed_above_one_may_be_won() -> None:
    """Slowdown is at least what all jobs win together at their best."""
    jobs = [job("a", value=2, speed_by_servers={1: 1.5}), job("b", value=2, speed_by_servers={1: 0.5})]
    assert elementary_bounds(CheckedCluster.of(placement(["slowdown"], [server(gpu=2)], jobs))) == (-1.0,)


def test_jobs_that_overfill_a_resource_together() -> None:
    """Each fits, both do not; without must_place nothing is wrong."""
    jobs = [job("a", 2, must_place=True), job("b", 2, must_place=True)]
    found = elementary_infeasibility(ClusterData(placement(["value"], [server(gpu=3)], jobs)))
    assert found is not None
    assert found.reasons == ("gpu: jobs that must be placed need 4; 3 are free",)
    free = [{**asked, "must_place": False} for asked in jobs]
    assert elementary_infeasibility(ClusterData(placement(["value"], [server(gpu=3)], free))) is None


def fewest(made: ConsolidationInstance, *values: float) -> float | None:
    """Return the bound on the last objective."""
    return elementary_bounds(CheckedCluster.of(made), values or None)[-1]


def test_the_largest_servers_are_counted_first() -> None:
    """Nine GPUs: five and three do not hold them, four more do."""
    servers = [server("a", gpu=5), server("b", gpu=3), server("c", gpu=4), server("d", gpu=1)]
    jobs = [job(f"j{k}", 3, must_place=True) for k in range(3)]
    assert fewest(placement(["servers"], servers, jobs)) == 2
    jobs.append(job("more", must_place=True))
    assert fewest(placement(["servers"], servers, jobs)) == 3


def test_each_resource_counts() -> None:
    """One server has the GPUs, and only two have the memory."""
    servers = [server(name, gpu=8, memory=4) for name in "abc"]
    jobs = [job("j", 5, {"gpu": 1, "memory": 1}, must_place=True)]
    assert fewest(placement(["servers"], servers, jobs)) == 2


def test_jobs_of_a_gpu_model_need_servers_of_it() -> None:
    """Two small servers of the model and the largest of the others; together they would fit on one."""
    small = [{**server(f"s{k}", gpu=1), "gpu_model": "T4"} for k in range(3)]
    large = [{**server(f"l{k}", gpu=8), "gpu_model": "A10"} for k in range(3)]
    jobs = [job("t", 2, gpu_model="T4", must_place=True), job("any", 6, must_place=True)]
    assert fewest(placement(["servers"], [*small, *large], jobs)) == 3


def test_optional_jobs_count_as_far_as_the_value_needs_them() -> None:
    """A value of seven needs the dear job and, of the cheap one, what is missing; the free one never."""
    servers = [server(f"n{k}", gpu=2) for k in range(6)]
    jobs = [job("dear", 2, value=6), job("cheap", 4, value=4), job("free", 4, value=0)]
    made = placement(["value", "servers"], servers, jobs)
    assert fewest(made) == 0
    assert [fewest(made, value, 9.0) for value in (0.0, 4.0, 6.0, 7.0, 10.0)] == [0, 1, 1, 2, 3]
    backwards = placement(["servers", "value"], servers, jobs)
    assert elementary_bounds(CheckedCluster.of(backwards), (3.0, 10.0))[0] == 0


def test_a_server_is_needed_for_what_asks_for_nothing() -> None:
    """A task without a demand is on a server, too."""
    made = placement(["servers"], [server(gpu=2)], [job("j", demand={"gpu": 0}, must_place=True)])
    assert fewest(made) == 1


@pytest.mark.parametrize("must", [0.0, 0.4, 1.0])
def test_no_plan_needs_fewer_servers(must: float) -> None:
    """Whichever feasible plan gives the value, the best plan keeps the bound."""
    reached = 0
    for seed in range(8):
        draw = random.Random(seed)
        unlike = [round(draw.uniform(0.1, 2), 3) for _ in range(4)]
        servers: list[dict[str, Any]] = [
            {
                **server(f"n{k}", gpu=draw.choice([2, 3.5]), cpu=draw.choice([2, 4.7])),
                "gpu_model": draw.choice("AB"),
            }
            for k in range(3)
        ]
        jobs = [
            job(
                f"j{k}", draw.randint(1, 2), {"gpu": draw.choice(unlike), "cpu": draw.choice(unlike)},
                must_place=draw.random() < must, value=draw.randint(0, 3), gpu_model=draw.choice([None, "A"]),
            )
            for k in range(3)
        ]  # fmt: skip
        made = placement(["value", "servers"], servers, jobs)
        best = clusterplan.solve(made, solver="brute-force")
        if best.plan is None:
            continue
        for solver in ("brute-force", "best-fit"):
            values = [record.value for record in clusterplan.solve(made, solver=solver).objectives]
            if values:
                known = [value for value in values if value is not None]
                bound = ConsolidationFormulation(made).certified_bounds(None, known)[1]
                assert bound is not None
                value = best.objectives[1].value
                assert value is not None
                assert bound <= value, seed
                reached += bound == value
    assert reached > 2


@pytest.mark.parametrize(("jobs", "like"), [(1, ""), (3, " and 2 jobs like it")])
def test_jobs_that_never_fit_are_named_once(jobs: int, like: str) -> None:
    listed = [job(f"j{k}", demand={"gpu": 8}, must_place=True) for k in range(jobs)]
    found = elementary_infeasibility(ClusterData(placement(["value"], [server(gpu=4)], listed)))
    assert found is not None
    assert found.reasons[0].startswith(f"job 'j0'{like} must be placed, but ")


AFTER_VALUE = ("spread", "servers", "slowdown", "stops", "migrations", "traffic")


def drawn(draw: random.Random) -> ConsolidationInstance:
    """Return two or three servers and three jobs, most of which run now."""
    servers = [
        {
            "name": f"s{k}",
            "capacity": {"gpu": draw.choice([2, 2, 3])},
            "traffic_gbit_per_s": draw.choice([0, 1]),
        }
        | draw.choice([{}, {"in_use": True}])
        for k in range(draw.choice([2, 3]))
    ]
    left = {server["name"]: server["capacity"]["gpu"] for server in servers}
    jobs = []
    for k in range(3):
        tasks = draw.choice([1, 2, 2, 3])
        job: dict[str, Any] = {"name": f"j{k}", "tasks": tasks, "task_demand": {"gpu": 1}}
        job |= {"value": draw.choice([1, 2, 3]), "spread": draw.choice(["free", "preferred", "required"])}
        job |= {"traffic_gbit_per_s": draw.choice([0, 1, 2])}
        for _ in range(tasks if draw.random() < 0.8 else 0):
            fits = [name for name, free in left.items() if free]
            if fits:
                name = draw.choice(fits)
                left[name] -= 1
                job.setdefault("current", {})[name] = job.get("current", {}).get(name, 0) + 1
        job |= draw.choice([{}, {"speed_by_servers": {"1": 1, "2": 0.5}}, {"must_place": True}])
        jobs.append(job)
    objectives = ["value", *draw.sample(AFTER_VALUE, 2)]
    more = draw.choice([{}, {"restart_cost_h": 0.5}, {"restart_cost_h": 2, "max_moves": 1}])
    head = {"schema_version": 1, "kind": "consolidation", "name": "any", "objectives": objectives}
    made = clusterplan.parse_instance({**head, "servers": servers, "jobs": jobs, **more})
    assert isinstance(made, ConsolidationInstance)
    return made


def any_prices(
    draw: random.Random, classes: Classes, objective: str, earlier: Sequence[str]
) -> dict[str, Any]:
    """Return prices and multipliers that nobody has derived from anything."""
    scale = draw.choice([0.3, 1.0, 1.0])
    prices = [
        [scale * int(counts.sum()) * draw.choice([0.9, 1.0, 1.0, 1.1]) for counts in pieces]
        for pieces in classes.pieces
    ]
    multipliers = {name: draw.choice([0.0, 0.5, 1.0, 3.0]) for name in earlier}
    if classes.moves is not None:
        multipliers["moves"] = draw.choice([0.0, 0.5, 2.0])
    return {"objective": objective, "prices": prices, "multipliers": multipliers}


def any_tree(
    draw: random.Random, classes: Classes, objective: str, earlier: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a tree that branches on any jobs, and has any prices in its leaves."""
    if draw.random() < 0.6 or not classes.jobs:
        if draw.random() < 0.3:
            return [{"leaf": any_prices(draw, classes, MUST_PLACE, [*earlier, objective])}]
        return [{"leaf": any_prices(draw, classes, objective, earlier)}]
    children = (any_tree(draw, classes, objective, earlier) for _ in range(2))
    return [{"job": draw.randrange(len(classes.jobs)), "most": draw.randint(0, 1)}, *chain(*children)]


def certificate(formulation: ConsolidationFormulation, draw: random.Random) -> dict[str, Any]:
    """Return any prices for each objective, and a tree, of which sometimes the first node is missing."""
    classes, earlier, goals = CheckedCluster(formulation).classes, list[str](), list[dict[str, Any]]()
    for objective in formulation.instance.objectives:
        if objective in PRICED:
            tree = any_tree(draw, classes, objective, earlier)[draw.choice([0, 0, 0, 1]) :]
            goals.append(any_prices(draw, classes, objective, earlier) | {"tree": tree})
            earlier.append(objective)
    return {"goals": goals}


@pytest.mark.parametrize("number", [30, pytest.param(150, marks=pytest.mark.slow)])
def test_any_prices_bound_every_objective(number: int) -> None:
    draw, tight = random.Random(0), 0
    for index in range(number):
        instance = drawn(draw)
        best = clusterplan.solve(instance, "brute-force")
        formulation = ConsolidationFormulation(instance)
        values = None if best.plan is None else formulation.evaluate(best.plan)
        for _ in range(4):
            bounds = formulation.certified_bounds(certificate(formulation, draw), values)
            if values is None:
                continue
            for objective, bound, value in zip(formulation.objectives, bounds, values, strict=True):
                if bound is not None:
                    assert not math.isinf(bound), index
                    beyond = bound - value if objective.sense == "min" else value - bound
                    assert beyond <= 1e-9, (index, objective.name, bound, value)
                    tight += abs(beyond) <= 1e-9
    assert tight > 3 * number


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
