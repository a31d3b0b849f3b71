"""Bounds on a placement: combinatorial ones, and those that the prices of a certificate prove.

Combinatorial bounds: the fewest servers for a total demand are the largest servers whose residual capacities
add up to it, resource by resource. Jobs that need a GPU model are counted on the servers of that model. Where
a value is to be kept, jobs may be left out as long as the value of the others does not fall below it; the
demand that is left out is at most that of a fractional knapsack (Dantzig 1957).

Certified bounds follow from prices of pieces, whatever solver computed them. Bounds on objectives that only
take integer multiples of some step are rounded to the next multiple. Where the prices do not close the gap to
the value of a plan, implicit enumeration tries to close it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from ....instances.common.errors import TooLargeError
from ....instances.consolidation.job import PlacementJob
from ...common.formulation import parsed_certificate
from ...common.objective import (
    TIE_TOLERANCE,
    Bounds,
    Diagnosis,
    Values,
    agree,
    common_divisor,
    exact_fraction,
    loosened,
    within,
)
from ..certificate import (
    MUST_PLACE,
    PRICED,
    CertifiedGoal,
    CertifiedTraffic,
    ConsolidationCertificate,
    PricedPieces,
)
from ..classes import Classes, job_value
from ..cluster_data import ClusterData, limit_traffic, traffic_step
from ..explain import tasks_on_shapes, unplaceable_text
from .classes import CheckedCluster, ClassMismatch
from .loads import load_bounds
from .moves import move_bounds
from .placement_enumeration import (
    ByObjective,
    PlacedRanges,
    PriceBound,
    no_better_placement,
    node_budget,
    placed_ranges,
)
from .server_prices import NodeBudget

JobCounts = Sequence[tuple[PlacementJob, int]]
"""Representatives of equal jobs, and the number of jobs of each."""


def fewest_servers_by_demand(data: ClusterData, jobs: JobCounts, value: float | None) -> int:
    """Return a lower bound on the number of used servers from the total demand of the placed jobs.

    Parameters
    ----------
    jobs
        Those that can be placed.
    value
        Least total value of the placed jobs; None if only jobs that must be placed count.
    """
    spare: Fraction | None = None
    if value is not None:
        worth = sum((job_value(job) * count for job, count in jobs), Fraction(0))
        # Values are sums of floats, so jobs worth the rounding error may be left out as well.
        spare = max(Fraction(0), worth - exact_fraction(value)) + worth * exact_fraction(TIE_TOLERANCE)
    fewest = 0
    # Jobs that accept several models share servers with those that accept one of these.
    models = {job.gpu_model for job, _ in jobs if isinstance(job.gpu_model, str)}
    for resource in data.instance.resource_names:
        free: dict[str | None, Counter[Fraction]] = {}
        for model in (None, *sorted(models)):
            free[model] = Counter()
            for shape, count in data.shapes(model, free=True).items():
                free[model][exact_fraction(loosened(dict(shape).get(resource, 0.0)))] += count
        # Servers of several models are disjoint; the remaining demand may be on any server.
        needed = Counter[Fraction]()
        for model in models:
            volume = _least_demand([(job, n) for job, n in jobs if job.gpu_model == model], resource, spare)
            needed += _largest_servers(free[model], volume)
        covered = sum((amount * count for amount, count in needed.items()), Fraction(0))
        more = _least_demand(jobs, resource, spare) - covered
        fewest = max(fewest, needed.total() + _largest_servers(free[None] - needed, more).total())
    placed = any(job.must_place for job, _ in jobs) or (value is not None and value > 0)
    return max(fewest, int(placed))


def _least_demand(jobs: JobCounts, resource: str, spare: Fraction | None) -> Fraction:
    """Return a lower bound on the total demand of the placed jobs for a resource.

    Parameters
    ----------
    spare
        Total value that may be left out; None if all jobs that need not be placed may be left out.
    """
    volume, optional = Fraction(0), list[tuple[Fraction, Fraction]]()
    for job, count in jobs:
        demands = (g.tasks * exact_fraction(g.demand.get(resource, 0.0)) for g in job.task_groups)
        each = sum(demands, Fraction(0))
        if job.must_place:
            volume += each * count
        elif spare is not None and each:
            volume += each * count
            optional.append((job_value(job) / each, each * count))
    # Jobs of least value per unit of demand are left out first.
    left = spare or Fraction(0)
    for price, total in sorted(optional):
        out = min(total, left / price) if price else total
        volume, left = volume - out, left - out * price
    return volume


def _largest_servers(free: Counter[Fraction], volume: Fraction) -> Counter[Fraction]:
    """Return the largest servers whose residual capacities cover a demand: number by capacity.

    All servers, if they do not suffice.
    """
    servers = Counter[Fraction]()
    for amount in sorted((amount for amount in free if amount), reverse=True):
        if volume <= 0:
            break
        servers[amount] = min(free[amount], -(-volume // amount))
        volume -= servers[amount] * amount
    return servers


def elementary_bounds(checked: CheckedCluster, values: Values = None) -> Bounds:
    """Return a combinatorial bound on each objective, derived without a certificate.

    Parameters
    ----------
    values
        Objective values of a plan; its `value` must be kept if it is the first objective.
    """
    data = checked.cluster
    valued = values is not None and data.objectives[0].name == "value"
    jobs = _runnable(checked)
    fewest = fewest_servers_by_demand(data, jobs, values[0] if values and valued else None)
    always: dict[str, float | None] = {
        "spread": 0.0,
        "servers": float(max(fewest, len(data.in_use))),
        "racks": 0.0,
        "stops": 0.0,
        "migrations": 0.0,
        "slowdown": math.fsum(
            min(0.0, *(job.worth * (1 - speed) for speed in job.speed_by_servers.values()))
            for job in data.instance.jobs
            if job.speed_by_servers
        ),
        "value": _value_bound(data, jobs),
        "free": float(data.most_freed),
    }
    if not {"traffic", "imbalance"}.isdisjoint(data.instance.objectives):
        always["traffic"], always["imbalance"] = load_bounds(data)
    return tuple(always[objective.name] for objective in data.objectives)


def _value_bound(data: ClusterData, jobs: JobCounts) -> float:
    """Return an upper bound on the total value of placed jobs: the tightest fractional knapsack bound.

    There is one fractional knapsack for each resource, over the jobs that can run now.
    """
    best = math.fsum(job.worth * count for job, count in jobs)
    for resource in data.instance.resource_names:
        free = math.fsum(s.available.get(resource, 0.0) for s in data.servers.values())
        worth_and_need = [
            (job.worth * count, count * sum(g.tasks * g.demand.get(resource, 0.0) for g in job.task_groups))
            for job, count in jobs
        ]
        terms = [worth for worth, need in worth_and_need if need == 0]
        dense = sorted((p for p in worth_and_need if p[1] > 0), key=lambda p: p[0] / p[1], reverse=True)
        for worth, need in dense:
            used = min(need, free)
            terms.append(worth if used == need else worth * used / need)
            free -= used
            if free <= 0:
                break
        best = min(best, math.fsum(terms))
    return best


def _runnable(checked: CheckedCluster) -> JobCounts:
    """Return the jobs each task group of which fits alone into the residual capacity, with their counts."""
    shapes = checked.cluster.shapes
    return [
        (job, len(members))
        for job, members in checked.jobs
        if all(
            tasks_on_shapes(shapes(job.gpu_model, free=True), group) >= group.tasks
            for group in job.task_groups
        )
    ]


def elementary_infeasibility(data: ClusterData) -> Diagnosis | None:
    """Diagnose required jobs that never fit, or a resource whose free capacity they exceed together.

    None if neither is the case.
    """
    never = []
    for job, positions in data.distinct_jobs:
        reason = unplaceable_text(data, job) if job.must_place else None
        if reason is not None:
            more = f" and {len(positions) - 1} jobs like it" if len(positions) > 1 else ""
            never.append(f"job {job.name!r}{more} must be placed, but {reason}")
    if never:
        return Diagnosis(reasons=tuple(never), remedies=("set must_place: false, or change what is short",))
    must = [job for job in data.instance.jobs if job.must_place]
    reasons, remedies = [], []
    for resource in data.instance.resource_names if must else ():
        need = math.fsum(g.tasks * g.demand.get(resource, 0.0) for job in must for g in job.task_groups)
        free = math.fsum(s.available.get(resource, 0.0) for s in data.servers.values())
        if not within(need, free):
            reasons.append(f"{resource}: jobs that must be placed need {need:g}; {free:g} are free")
            remedies.append(f"free {need - free:g} {resource}, or set must_place: false on some jobs")
    return Diagnosis(reasons=tuple(reasons), remedies=tuple(remedies)) if reasons else None


LEVEL_TOLERANCE = Fraction(1, 10**12)
"""Relative tolerance of values that are not multiples of a step."""
MAX_STEP_RATIO = 10**9
"""Largest ratio of an amount to a step at which values are rounded to the step."""


def read_certificate(checked: CheckedCluster, data: Any) -> ConsolidationCertificate | str:
    """Return the parsed certificate of dual prices, or the error in its format.

    Raises
    ------
    TooLargeError, ClassMismatch
        If there are prices of pieces, and classes cannot be built.
    """
    certificate = parsed_certificate(ConsolidationCertificate, data)
    if isinstance(certificate, str):
        return certificate
    for goal in certificate.goals:
        if not _has_all_prices(checked.classes, goal):
            return f"the prices of {goal.objective} do not fit the kinds and pieces of the instance"
    return certificate


def _has_all_prices(classes: Classes, goal: PricedPieces) -> bool:
    """Return whether the certificate has one price for each vector of tasks of each task shape."""
    return [len(prices) for prices in goal.prices] == [len(pieces) for pieces in classes.pieces]


def value_step(classes: Classes, objective: str) -> Fraction | None:
    """Return the number of which all values of an objective are multiples; None if it is too small."""
    if objective == "value":
        amounts = {amount for job in classes.jobs for amount in (job.value, job.restart)}
    elif objective == "slowdown":
        amounts = {lost for job in classes.jobs for lost in job.lost}
    else:
        return Fraction(1)
    step = common_divisor(amounts)
    if step is None:
        return Fraction(1)
    return step if step * MAX_STEP_RATIO > max(map(abs, amounts)) else None


def objective_level(classes: Classes, objective: str, value: float) -> Fraction:
    """Return the exact bound that a plan's value sets on an objective, in minimisation form.

    The value is a float, exact up to rounding; the contribution of the plan without jobs is subtracted.
    """
    reached = exact_fraction(value) * (-1 if objective == "value" else 1)
    exactly, step = reached - classes.offset(objective), value_step(classes, objective)
    # Plans whose values doubles cannot tell apart are equally good; later bounds hold for all of them.
    slack = max(abs(reached), abs(exactly)) * LEVEL_TOLERANCE
    return exactly + slack if step is None else round(exactly / step) * step


def _weighted_bound(
    classes: Classes, goal: PricedPieces, levels: ByObjective
) -> tuple[PriceBound, dict[str, Fraction], Fraction]:
    """Return an objective's Lagrangian bound, its weights, and the constant of earlier objectives.

    The constant is the sum of multiplier times bound over the earlier objectives.
    """
    weights = {str(name): Fraction(price) for name, price in goal.multipliers.items() if name in levels}
    less = sum((weight * levels[name] for name, weight in weights.items()), Fraction(0))
    if goal.objective != MUST_PLACE:
        weights[goal.objective] = Fraction(1)
    return PriceBound(classes, goal.prices, weights, missing=goal.objective == MUST_PLACE), weights, less


def goal_bound(classes: Classes, goal: CertifiedGoal, levels: ByObjective) -> Fraction | None:
    """Return a lower bound on an objective, to be minimised, given bounds on the earlier objectives.

    Returns
    -------
    bound
        None if a job that must be placed cannot be.

    Raises
    ------
    TooLargeError
        If the pricing problems are too large.
    """
    bound, _, less = _weighted_bound(classes, goal, levels)
    cost = bound.value()
    if cost is None:
        return None
    step = value_step(classes, goal.objective)
    return cost - less if step is None else math.ceil((cost - less) / step) * step


def _optimality_is_proven(
    classes: Classes, goal: CertifiedGoal, levels: ByObjective, value: Fraction | None
) -> bool:
    """Return whether a tree or enumeration proves that no placement is better than a value of the objective.

    With `value` None: that there is no feasible placement at all.
    """
    step = value_step(classes, goal.objective)
    if step is None:
        return False
    if value is not None and goal.tree:
        with suppress(TooLargeError):
            if _proven_by_tree(classes, goal, levels, value - step):
                return True
    bound, weights, less = _weighted_bound(classes, goal, levels)
    if value is None:
        return no_better_placement(classes, bound, {}, {}, Fraction(0)) is True
    limits = {**levels, goal.objective: value - step}
    return no_better_placement(classes, bound, weights, limits, value - step + less) is True


def _proven_by_tree(classes: Classes, goal: CertifiedGoal, levels: ByObjective, better: Fraction) -> bool:
    """Return whether the leaves of a branching tree cover all plans, and none has one that is better.

    Parameters
    ----------
    better
        The next better value of the objective, to be minimised.

    Raises
    ------
    TooLargeError
        If the pricing problems are too large.
    """
    open_ = [placed_ranges(classes)]
    effort = node_budget(classes)
    for node in goal.tree:
        if not open_:
            return False
        placed = open_.pop()
        if node.leaf is not None:
            if not _has_all_prices(classes, node.leaf) or not _refutes(
                classes, node.leaf, {**levels, goal.objective: better}, placed, effort
            ):
                return False
        elif node.job is None or node.job >= len(placed):
            return False
        else:
            fewest, most = placed[node.job]
            for branch in ((max(fewest, node.most + 1), most), (fewest, min(most, node.most))):
                open_.append([*placed[: node.job], branch, *placed[node.job + 1 :]])
    return not open_


def _refutes(
    classes: Classes,
    leaf: PricedPieces,
    levels: ByObjective,
    placed: PlacedRanges,
    effort: NodeBudget,
) -> bool:
    """Return whether prices prove that no plan of a leaf keeps all levels, that of the objective too."""
    if any(fewest > most for fewest, most in placed):
        return True
    missing = leaf.objective == MUST_PLACE
    if not missing and leaf.objective not in levels:
        return False
    own = levels if missing else {name: level for name, level in levels.items() if name != leaf.objective}
    bound, _, less = _weighted_bound(classes, leaf, own)
    cost = bound.value(placed, effort)
    return cost is None or cost - less > (0 if missing else levels[leaf.objective])


def price_bounds(
    checked: CheckedCluster,
    data: Any,
    values: Values,
    elementary: Bounds,
) -> dict[str, float]:
    """Return the bounds that a certificate of dual prices proves, by name of the objective.

    A bound that depends on the values of earlier objectives is a bound on the optimum only if the plan is
    optimal in all of these but the last; so it counts only if their optimality is certified.

    Parameters
    ----------
    values
        Objective values of the plan of the certificate; None if there is no plan.
    elementary
        Bounds that need no certificate.
    """
    try:
        certificate = read_certificate(checked, data)
        if isinstance(certificate, str):
            return {}
        bounds = move_bounds(checked.cluster, certificate.moves, values)
        if not certificate.goals and certificate.traffic is None:
            return bounds
        classes = checked.classes
    except (TooLargeError, ClassMismatch):
        return {}
    goals: dict[str, CertifiedGoal] = {goal.objective: goal for goal in certificate.goals}
    levels = classes.least_levels()
    if MUST_PLACE in goals:
        _add_bound(bounds, classes, goals[MUST_PLACE], levels, None)
    # From the first objective that is not proven best on, bounds are no longer bounds on the optimum.
    certain = True
    for index, objective in enumerate(checked.cluster.objectives):
        goal = goals.get(objective.name)
        if goal is not None and objective.name not in bounds and set(goal.multipliers) <= set(levels):
            reached = None if values is None else objective_level(classes, objective.name, values[index])
            _add_bound(bounds, classes, goal, levels, reached)
        if values is None:
            continue
        # An unproven level would only bound plans as good as this one.
        if certain and objective.name in PRICED:
            levels[objective.name] = objective_level(classes, objective.name, values[index])
        if objective.name == "traffic" and certificate.traffic is not None:
            least = _traffic_bound(checked, certificate.traffic, levels)
            bounds |= {} if least is None else {"traffic": least}
        tighter = objective.tighter(elementary[index], bounds.get(objective.name))
        certain = certain and tighter is not None and agree(tighter, values[index])
    return bounds


def _traffic_bound(checked: CheckedCluster, claim: CertifiedTraffic, levels: ByObjective) -> float | None:
    """Return a lower bound on the maximum traffic of a server: the next value above an infeasible limit.

    A limit on traffic is infeasible if under it an earlier objective cannot keep its bound. None if that is
    not proven. Traffic is in Gbit/s.
    """
    instance = checked.cluster.instance
    step, goal = traffic_step(instance), claim.goal
    under = checked.of(limit_traffic(instance, claim.below))
    # A limit is refuted if under it an earlier goal has to miss its level.
    wanted = Fraction(0) if goal.objective == MUST_PLACE else levels.get(goal.objective)
    if step is None or wanted is None or not set(goal.multipliers) <= set(levels):
        return None
    try:
        if not _has_all_prices(under.classes, goal):
            return None
        others = {name: value for name, value in levels.items() if name != goal.objective}
        least = goal_bound(under.classes, goal, others)
    except (TooLargeError, ClassMismatch):
        return None
    if least is not None and least <= wanted:
        return None
    return float((math.floor(exact_fraction(claim.below) / step) + 1) * step)


def _add_bound(
    bounds: dict[str, float],
    classes: Classes,
    goal: CertifiedGoal,
    levels: ByObjective,
    value: Fraction | None,
) -> None:
    """Add to `bounds` the bound on one objective that its dual prices prove, if it can be derived.

    Where prices leave a gap to the value of a plan, implicit enumeration tries to close it.
    """
    try:
        least = goal_bound(classes, goal, levels)
        if least is None:
            return
        if goal.objective == MUST_PLACE:
            if value is None and least <= 0 and _optimality_is_proven(classes, goal, levels, None):
                # One job at least is missing, so there is no plan.
                least = Fraction(1)
        elif value is not None and least < value and _optimality_is_proven(classes, goal, levels, value):
            least = value
    except TooLargeError:
        return
    least += classes.offset(goal.objective)
    bounds[goal.objective] = float(-least if goal.objective == "value" else least)


def _server_changes_no_job(checked: CheckedCluster) -> bool:
    """Return whether one more server changes no job class: each job has a server for each task."""
    for job, _ in checked.jobs:
        servers = checked.capacities(job.gpu_model).total()
        if checked.fewest(job) is None or servers < sum(group.tasks for group in job.task_groups):
            return False
    return True


MAX_PRICED_SHAPES = 20
"""Limit on the server shapes with a price."""


def server_value_bounds(checked: CheckedCluster, data: Any, value: float) -> dict[str, float]:
    """Return an upper bound on the marginal value of one more empty server, by server type.

    The bound is the most that pieces pay for the server, plus the gap between bound and value of the plan.

    Parameters
    ----------
    value
        The `value` of the plan; it has to be the first objective.
    """
    try:
        if checked.cluster.instance.objectives[0] != "value":
            return {}
        classes = checked.classes
        certificate = read_certificate(checked, data)
        if isinstance(certificate, str) or not _server_changes_no_job(checked):
            return {}
        goal = next((goal for goal in certificate.goals if goal.objective == "value"), None)
        if goal is None:
            return {}
        bound = PriceBound(classes, goal.prices, {"value": Fraction(1)}, missing=False)
        least, paid = bound.value(), bound.paid()
    except (TooLargeError, ClassMismatch):
        return {}
    if least is None:
        return {}
    # The gap between bound and value might be closed by the server as well. The value is a sum of floats;
    # its level is the multiple of the step that it stands for, so that rounding down loses none.
    step, gap = value_step(classes, "value"), objective_level(classes, "value", value) - least
    prices: dict[str, float] = {}
    choices = checked.cluster.instance.listed_choices  # nobody buys them
    servers = list(checked.cluster.servers.values())
    most = {n: worth for server, worth in zip(classes.servers, paid, strict=True) for n in server.members}
    for server in checked.cluster.classes.servers:
        empty = next((n for n in server.members if servers[n].available == servers[n].capacity), None)
        if empty is not None and not server.residents and len(prices) < MAX_PRICED_SHAPES:
            worth = Fraction(most[empty], bound.scale) + gap
            rounded = math.floor(worth / step) * step if step is not None else worth
            shape = servers[empty]
            model = "" if shape.gpu_model is None else f" ({shape.gpu_model})"
            bought = sorted((name, amount) for name, amount in shape.capacity.items() if name not in choices)
            amounts = ", ".join(f"{amount:g} {name}" for name, amount in bought)
            name = f"empty server of {amounts}{model}"
            prices[name] = max(float(rounded), prices.get(name, 0.0))
    return prices
