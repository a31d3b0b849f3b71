"""Plans from columns, and from the relaxation by diving."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from device_instances import job, placement, server
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.certificate import MUST_PLACE
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.heuristics.list_heuristics import BestFit
from clusterplan.solvers.consolidation.patterns.column_generation import PatternProgram
from clusterplan.solvers.consolidation.patterns.disaggregation import (
    Disaggregation,
    RackAwareAssignment,
    SlotAssignment,
    add_plan_columns,
)
from clusterplan.solvers.consolidation.patterns.diving import plan_of_relaxation
from clusterplan.solvers.consolidation.patterns.master import RestrictedMaster

ONE, TWO = (0, 0), (0, 1)


def test_slots_are_given_in_the_order_of_servers() -> None:
    """Each server as often as it has a slot."""
    slots = SlotAssignment({ONE: [5, 3, 3], TWO: [4]})
    assert slots.take({ONE: 2, TWO: 1}, ()) == {ONE: [3, 3], TWO: [4]}
    assert slots.take({ONE: 1}, ()) == {ONE: [5]}


def test_slots_on_few_racks() -> None:
    """First the rack where the job is; then the one that has all it needs with least to spare."""
    slots = RackAwareAssignment({ONE: [0, 1, 2, 2, 3]}, racks=[0, 0, 1, 1])
    assert sorted(slots.take({ONE: 2}, ())[ONE]) == [0, 1]
    assert slots.take({ONE: 1}, {3})[ONE] == [2]


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_survives_the_way_through_patterns(seed: int) -> None:
    """With the columns of a plan alone, the master problem has a solution as good as the plan."""
    instance = random_consolidation(seed)
    assert isinstance(instance, ConsolidationInstance)
    first = instance.model_copy(update={"objectives": ("value", "migrations")})
    formulation = ConsolidationFormulation(first)
    plan = BestFit().solve(formulation, SolveOptions(), Clock()).plan
    if plan is None:
        pytest.skip("best fit has no plan")
    try:
        master = RestrictedMaster(formulation.classes)
    except TooLargeError:
        pytest.skip("too many classes")
    master.columns = [column for column in master.columns if column.type not in ("job", "server")]
    master._known = {key for key in master._known if key[0] not in ("job", "server")}
    add_plan_columns(formulation, master, plan)
    program = PatternProgram(master, SolveOptions(threads=1), Clock())
    program.levels[MUST_PLACE] = Fraction(0)
    solution, limit = program.solve_integers("value", -np.inf, None)
    assert solution is not None
    assert limit == "none"
    written = Disaggregation(formulation, master.classes, master.columns, solution).plan()
    assert formulation.violations(written) == []
    assert formulation.evaluate(written)[0] >= formulation.evaluate(plan)[0] - 1e-9


def test_what_a_plan_splits_becomes_a_pattern() -> None:
    """A preferred job on three and one GPU: pieces of three and of one, on two servers."""
    jobs = [job("a", 4, spread="preferred")]
    instance = placement(["value", "spread"], [{**server(gpu=4), "count": 2}], jobs)
    formulation = ConsolidationFormulation(instance)
    master = RestrictedMaster(formulation.classes)
    known = len(master.columns)
    add_plan_columns(formulation, master, [JobPlacement(job="a", servers={"n-0": 3, "n-1": 1})])
    added = {(column.type, column.what) for column in master.columns[known:]}
    assert ("job", (0, (2, 0), ())) in {(c.type, c.what) for c in master.columns}
    assert added <= {("job", (0, (2, 0), ())), ("server", (0, ((0, 2),))), ("server", (0, ((0, 0),)))}
    assert {("server", (0, ((0, 2),))), ("server", (0, ((0, 0),)))} <= {
        (c.type, c.what) for c in master.columns
    }
    before = len(master.columns)
    add_plan_columns(formulation, master, [JobPlacement(job="a", servers={"n-0": 3, "n-1": 1})])
    assert len(master.columns) == before


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
