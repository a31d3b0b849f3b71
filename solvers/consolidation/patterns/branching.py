"""Dual prices of a plan's objectives, and branching trees where they leave a gap to the plan's value.

Branch and bound on the number of jobs of a class that are placed (Land & Doig 1960), depth first. Each leaf
keeps the dual prices that show that it holds no better plan; with them the check derives the bound again. All
nodes share the columns of one master problem, so that a node takes few rounds of pricing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction

import numpy as np

from ....formulations.common.objective import Bounds
from ....formulations.consolidation.certificate import MAX_LEAVES, MUST_PLACE, PRICED
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....instances.common.arrays import Floats
from ....instances.common.errors import TooLargeError
from ....instances.common.fields import Fields
from ...common.base import Clock
from ...common.result import SolveOptions
from ..progress import SETTINGS, reached_level
from .column_generation import PatternProgram, RelaxationResult, certificate_goal
from .master import RestrictedMaster


def branching_tree(program: PatternProgram, goal: str, reached: Fraction) -> list[Fields]:
    """Return the nodes of a tree that proves a plan's value optimal, in preorder; empty if none was found.

    Parameters
    ----------
    program
        With the levels of the earlier objectives; its clock limits the search.
    reached
        Value of the plan, to be minimised.
    """
    master = program.master
    if not master.integral[goal] or master.searches:
        return []
    better = round(reached / master.steps[goal]) - 1
    before = program.levels, master.fewest_placed, master.most_placed
    program.levels = {**program.levels, MUST_PLACE: Fraction(0)}
    try:
        return _tree(program, goal, better)
    finally:
        program.levels, master.fewest_placed, master.most_placed = before


def _tree(program: PatternProgram, goal: str, better: int) -> list[Fields]:
    """Return the nodes of a tree that proves that no plan is as good as the value `better`, in steps.

    The numbers of placed jobs in the master problem become those of the last node.
    """
    master = program.master
    nodes: list[Fields] = []
    open_ = [(master.fewest_placed, master.most_placed)]
    leaves = 0
    while open_:
        fewest, most = master.fewest_placed, master.most_placed = open_.pop()
        leaf, placed = _refutation(program, goal, better)
        if leaf is not None:
            nodes.append({"leaf": leaf})
            leaves += 1
            continue
        job = None if placed is None else _branching_job(placed, fewest, most)
        if job is None or placed is None or leaves + len(open_) >= MAX_LEAVES or program.clock.expired:
            return []
        at = float(np.clip(math.floor(placed[job]), fewest[job], most[job] - 1))
        nodes.append({"job": job, "most": int(at)})
        above, below = fewest.copy(), most.copy()
        above[job], below[job] = at + 1, at
        open_ += [(above, most), (fewest, below)]
    return nodes


def _refutation(program: PatternProgram, goal: str, better: int) -> tuple[Fields | None, Floats | None]:
    """Return prices that prove that a node holds no better plan, else the placed jobs of each class.

    Both are None if the relaxation was not solved.
    """
    master = program.master
    relaxed = program.relax(goal)
    if relaxed.prices is None:
        # Too few jobs fit with the columns so far: either no plan does better, or there will be more columns.
        for job in np.flatnonzero(master.fewest_placed).tolist():
            master.add_missing(job)
        levels, program.levels = program.levels, {**program.levels, goal: better * master.steps[goal]}
        del program.levels[MUST_PLACE]
        missing = program.relax(MUST_PLACE)
        refuted = program.bound(MUST_PLACE, missing) > 0
        program.levels = levels
        if refuted and missing.prices is not None:
            return certificate_goal(master, MUST_PLACE, missing.prices), None
        relaxed = program.relax(goal)
    if relaxed.prices is None:
        return None, None
    if program.bound(goal, relaxed) > better:
        return certificate_goal(master, goal, relaxed.prices), None
    return None, _placed_jobs(master, relaxed)


def _placed_jobs(master: RestrictedMaster, relaxed: RelaxationResult) -> Floats:
    """Return how many jobs of each class a relaxation places, shape (classes of jobs,)."""
    placed = np.zeros(len(master.classes.jobs))
    values = () if relaxed.values is None else relaxed.values.tolist()
    for column, value in zip(master.columns, values, strict=False):
        if column.type == "job":
            placed[column.what[0]] += value
    return placed


def _branching_job(placed: Floats, fewest: Floats, most: Floats) -> int | None:
    """Return the class of jobs whose number of placed jobs is farthest from an integer.

    Where all are integers, the class that is free to take most numbers; None if all are fixed.
    """
    distance = np.abs(placed - np.round(placed))
    if distance.max(initial=0.0) > SETTINGS.integrality_tolerance:
        return int(distance.argmax())
    free = most - fewest
    return int(free.argmax()) if free.max(initial=0.0) > 0 else None


def certified_goals(
    formulation: ConsolidationFormulation,
    master: RestrictedMaster,
    values: Sequence[float],
    bounds: Bounds,
    options: SolveOptions,
    clock: Clock,
    known: Sequence[Fields] = (),
) -> list[Fields]:
    """Return dual prices of every priced objective, with the plan's values as bounds on earlier ones.

    A value that the method claims to be optimal, where prices leave a gap, gets a branching tree.

    Parameters
    ----------
    bounds
        Those of the method, of the first objectives or of all.
    known
        Dual prices that are known already.
    """
    goals = {goal["objective"]: goal for goal in known}
    program = PatternProgram(master, options, clock)
    program.levels[MUST_PLACE] = Fraction(0)
    for objective, value, bound in itertools.zip_longest(formulation.objectives, values, bounds):
        name = objective.name
        if name not in PRICED:
            continue
        # Where no job may be stopped, prices of tasks bound the moves more tightly.
        by_tasks = name == "migrations" and formulation.instance.has_aim and not formulation.instance.stop
        if name not in goals and not by_tasks and not clock.expired:
            relaxed = program.relax(name)
            if relaxed.prices is not None:
                goals[name] = certificate_goal(master, name, relaxed.prices)
        reached = reached_level(master.classes, name, value)
        if name in goals and value == bound and not clock.expired:
            program.clock = clock.share(SETTINGS.share_of_time_left).at_most(SETTINGS.branching_patience_s)
            with suppress(TooLargeError):
                level = float(reached / master.steps[name])
                if "tree" not in goals[name] and program.bound_by(goals[name]) < level:
                    tree = branching_tree(program, name, reached)
                    goals[name] = goals[name] | ({"tree": tree} if tree else {})
            program.clock = clock
        program.levels[name] = reached
    return list(goals.values())


def infeasibility_goals(master: RestrictedMaster, options: SolveOptions, clock: Clock) -> list[Fields]:
    """Return dual prices proving that not all required jobs can be placed; empty if none were found."""
    relaxed = PatternProgram(master, options, clock).relax(MUST_PLACE)
    if relaxed.prices is None:
        return []
    return [certificate_goal(master, MUST_PLACE, relaxed.prices)]
