"""Plans from patterns: tasks take the slots of their shape, then larger ones; best fit places the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.consolidation.patterns.diving import plan_of_relaxation
from clusterplan.solvers.consolidation.patterns.master import RestrictedMaster


def plan_of(
    servers: list[dict[str, Any]],
    jobs: list[dict[str, Any]],
    patterns: list[tuple[int, list[tuple[int, int]]]],
) -> list[JobPlacement] | None:
    """Return the plan of patterns, each on the next server of a class: shape and tasks of each slot."""
    formulation = ConsolidationFormulation(placement(["value", "servers"], servers, jobs))
    classes = formulation.classes
    master = RestrictedMaster(classes)
    master.columns.clear()
    for number, slots in patterns:
        rows = tuple((k, classes.slots[k].tolist().index([count])) for k, count in slots)
        master.add("server", (number, rows, len(master.columns)), [], {})
        column = master.columns[-1]
        object.__setattr__(column, "what", column.what[:2])
    times = np.ones(len(master.columns), dtype=np.int64)
    plan = plan_of_relaxation(formulation, classes, master.columns, times, Clock())
    assert plan is None or not formulation.violations(plan)
    return plan


def test_tasks_take_the_slots_of_their_shape() -> None:
    """The second server holds both tasks of b, the first those of a, though one server would hold all."""
    servers = [server("n", gpu=4), server("m", gpu=4)]
    jobs = [job("a", 2), job("b", 1, {"gpu": 2}), job("c", 1, {"gpu": 2}, value=2)]
    plan = plan_of(servers, jobs, [(0, [(0, 2)]), (0, [(1, 2)])])
    assert plan is not None
    assert [entry.servers for entry in plan] == [{"n": 2}, {"m": 1}, {"m": 1}]


def test_a_larger_slot_hosts_a_smaller_task() -> None:
    """Nobody else takes the slot of two GPUs on the second server."""
    servers = [server("n", gpu=2), server("m", gpu=2)]
    jobs = [job("a", 1), job("b", 1, {"gpu": 2})]
    plan = plan_of(servers, jobs, [(0, [(1, 1)]), (0, [(1, 1)])])
    assert plan is not None
    assert {name for entry in plan for name in entry.servers} == {"n", "m"}


def test_what_has_no_slot_is_placed_by_best_fit() -> None:
    """Without any pattern that is everybody."""
    plan = plan_of([server(gpu=3)], [job("a", 2), job("b", 1), job("c", 1)], [])
    assert plan is not None
    assert sum(entry.placed for entry in plan) == 2


def test_whoever_must_be_placed_chooses_first() -> None:
    """There is one slot, and best fit finds no room beside it."""
    jobs = [job("a", 1, value=9), job("b", 1, value=1, must_place=True)]
    plan = plan_of([server(gpu=1)], jobs, [(0, [(0, 1)])])
    assert plan is not None
    assert [entry.placed for entry in plan] == [False, True]


def test_there_is_no_plan_if_a_job_that_must_be_placed_has_no_room() -> None:
    """A job that was placed first keeps its place."""
    jobs = [job("a", 1, must_place=True), job("b", 1, {"gpu": 2}, must_place=True)]
    assert plan_of([server(gpu=2)], jobs, [(0, [(0, 1)])]) is None


def test_a_consolidated_job_takes_no_more_servers_than_it_may() -> None:
    """Slots of one task each on two servers are no place for it; best fit puts both tasks on one."""
    jobs = [job("a", 2, spread="required")]
    plan = plan_of([server("n", gpu=2), server("m", gpu=2)], jobs, [(0, [(0, 1)]), (0, [(0, 1)])])
    assert plan is not None
    assert len(plan[0].servers) == 1


def test_slots_are_shared_so_that_most_have_one() -> None:
    """Both larger slots hold task a, but only one of them holds task b."""
    servers = [server("n", gpu=2, cpu=2), server("m", gpu=2, cpu=1)]
    demands = {"x": (2, 2), "y": (2, 1), "a": (1, 1), "b": (1, 2)}
    jobs = [
        job(name, 1, {"gpu": gpu, "cpu": cpu}, value=5 if name in "ab" else 0)
        for name, (gpu, cpu) in demands.items()
    ]
    plan = plan_of(servers, jobs, [(0, [(0, 1)]), (1, [(1, 1)])])
    assert plan is not None
    assert [entry.servers for entry in plan][2:] == [{"m": 1}, {"n": 1}]
