"""The master problem: its columns, groups of servers, and plans made from its solutions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from device_instances import job, placement, server
from hypothesis import given
from hypothesis import strategies as st
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.certificate import MUST_PLACE, PRICED, CertifiedGoal
from clusterplan.formulations.consolidation.check.placement_enumeration import placed_ranges
from clusterplan.formulations.consolidation.classes import TaskShape
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.list_heuristics import BEST_FIT
from clusterplan.solvers.consolidation.patterns import assignment_relaxation
from clusterplan.solvers.consolidation.patterns.assignment_relaxation import AssignmentRelaxation
from clusterplan.solvers.consolidation.patterns.column_generation import (
    PatternProgram,
    certificate_goal,
    lagrangian_bound,
)
from clusterplan.solvers.consolidation.patterns.disaggregation import (
    Disaggregation,
    SlotAssignment,
    add_plan_columns,
)
from clusterplan.solvers.consolidation.patterns.master import (
    RestrictedMaster,
    hosting_pairs,
    server_groups,
)
from clusterplan.solvers.consolidation.progress import reached_level
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.run import solve_with


def test_servers_on_which_the_same_fits_come_together() -> None:
    """Six servers with 1 to 6 GPUs: what holds a task of four GPUs is apart from what does not."""
    jobs = [job("a", 1, {"gpu": 4}), job("b", 6)]
    servers = [server(f"n{gpus}", gpu=gpus) for gpus in range(1, 7)]
    classes = ConsolidationFormulation(placement(["value"], servers, jobs)).classes
    free = np.array([each.free[0] for each in classes.servers])
    held = np.column_stack([free // 4, free]).astype(float)
    groups = server_groups(classes, held, np.array([4.0, 1.0]), 2)
    assert sorted(sorted(free[group].tolist()) for group in groups) == [[1, 2, 3], [4, 5, 6]]
    assert sorted(n for group in server_groups(classes, held, np.array([4.0, 1.0]), 4) for n in group) == [
        *range(6)
    ]
    assert len(server_groups(classes, held, np.array([4.0, 1.0]), 4)) == 4


def test_pools_stay_apart_and_equal_servers_together() -> None:
    """One group of each pool at least; where nothing differs no more than that."""
    jobs = [job("a", 1, gpu_model="A100"), job("b", 1)]
    servers = [
        server(f"{model}-{gpus}", gpu=gpus) | {"gpu_model": model}
        for model in ("A100", "V100")
        for gpus in (2, 3)
    ]
    classes = ConsolidationFormulation(placement(["value"], servers, jobs)).classes
    same = np.ones((len(classes.servers), 1))
    groups = server_groups(classes, same, np.ones(1), 1)
    assert len(groups) == len({server.pool for server in classes.servers}) == 2
    assert len(server_groups(classes, same, np.ones(1), 4)) == 2


MODELS = st.sampled_from([None, "A100", "V100", ("A100", "V100")])
DEMAND = st.tuples(st.integers(0, 2), st.integers(0, 2))
SHAPES = st.lists(
    st.builds(
        TaskShape,
        st.lists(DEMAND, min_size=1, max_size=2).map(tuple),
        MODELS,
        st.sampled_from([None, None, 3]),
    ),
    max_size=8,
    unique=True,
)


@given(SHAPES)
def test_all_pairs_are_compared_as_each_is(shapes: list[TaskShape]) -> None:
    """Residents neither host nor are hosted."""
    pairs = {
        (k, other)
        for k, other in itertools.permutations(range(len(shapes)), 2)
        if shapes[k].current is None and shapes[other].current is None
        if list(hosting_pairs([shapes[k], shapes[other]]))[:1] == [(0, 1)]
    }
    assert set(hosting_pairs(shapes)) == pairs


def test_a_slot_serves_tasks_that_ask_for_no_more() -> None:
    """A task that may use any model asks for less than one that needs a certain one."""
    models = ("A100", None), (None, "A100"), ("A100", ("A100", "V100")), (("A100", "V100"), "A100")
    hosted = [
        list(hosting_pairs([TaskShape(((2, 2),), model), TaskShape(((2, 1),), other)]))
        for model, other in models
    ]
    assert hosted == [[(0, 1)], [], [(0, 1)], []]


def solved(formulation: ConsolidationFormulation, goal: str, **levels: float) -> float:
    """Return the value of the linear programme in the plan's terms."""
    master = RestrictedMaster(formulation.classes)
    found = AssignmentRelaxation(master, goal, levels).solve()
    return master.in_plan(goal, found[0])


def test_servers_by_volume() -> None:
    """Seven GPUs on servers of four: one and three quarters."""
    jobs = [job(f"j{i}", 1, must_place=True) for i in range(7)]
    servers = [server(f"n{i}", gpu=4) for i in range(3)]
    assert solved(ConsolidationFormulation(placement(["servers"], servers, jobs)), "servers") == 1.75


def test_a_server_holds_whole_tasks() -> None:
    """Two GPUs of three are all that a task of two can use: three such tasks take three servers."""
    jobs = [job(f"j{i}", 1, {"gpu": 2}, must_place=True) for i in range(3)]
    servers = [server(f"n{i}", gpu=3) for i in range(4)]
    assert solved(ConsolidationFormulation(placement(["servers"], servers, jobs)), "servers") == 3


def test_value_by_the_binding_resource() -> None:
    """Ten units of memory are enough for two and a half of the jobs."""
    jobs = [job(f"j{i}", 1, {"gpu": 1, "memory": 4}, value=2) for i in range(4)]
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=8, memory=10)], jobs))
    # A server holds two of them.
    assert solved(formulation, "value") == pytest.approx(4)


def test_jobs_that_cannot_all_be_placed() -> None:
    """Three GPUs hold one and a half of two jobs that must be placed, were they divisible."""
    jobs = [job(f"j{i}", 2, must_place=True) for i in range(2)]
    formulation = ConsolidationFormulation(placement(["servers"], [server(gpu=3)], jobs))
    assert solved(formulation, MUST_PLACE) == pytest.approx(0.5)
    assert AssignmentRelaxation(RestrictedMaster(formulation.classes), "servers", {}).solve() is None


def test_staying_saves_moves() -> None:
    """One of two running tasks stays where it is, for the server has room for one."""
    jobs = [job("a", 2, current={"n": 2}, must_place=True)]
    servers = [{**server("n", gpu=2), "free": {"gpu": 1}}, server("m", gpu=2)]
    formulation = ConsolidationFormulation(placement(["migrations"], servers, jobs))
    assert solved(formulation, "migrations") == 1


@pytest.mark.parametrize("groups", [1, 2])
def test_groups_of_servers_loosen_the_programme(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where servers that differ count as one, no plan beats the value, and all apart it is the least."""
    few = replace(assignment_relaxation.SETTINGS, most_linked_rows=groups, fewest_groups=groups)
    looked = 0
    for seed in range(30):
        instance = random_consolidation(seed)
        best = solve_with(instance, find_solver("brute-force", "consolidation"), SolveOptions())
        name = instance.objectives[0]
        if best.plan is None or name not in PRICED:
            continue
        formulation = ConsolidationFormulation(instance)
        value = formulation.evaluate(best.plan)[0]  # type: ignore[arg-type]
        apart = solved(formulation, name)
        with monkeypatch.context() as patch:
            patch.setattr(assignment_relaxation, "SETTINGS", few)
            merged = solved(formulation, name)
        objective = formulation.objectives[0]
        room = 1e-9 * max(1.0, abs(merged))
        assert merged >= apart - room if objective.sense == "max" else merged <= apart + room, seed
        assert not objective.better(value, merged), seed
        looked += 1
    assert looked > 5


@pytest.mark.parametrize("block", range(4))
def test_prices_prove_the_value_and_no_more(block: int) -> None:
    """The Lagrangian bound at the prices is no worse than the value, which no plan beats."""
    looked = 0
    for seed in range(20 * block, 20 * block + 20):
        instance = random_consolidation(seed)
        best = solve_with(instance, find_solver("brute-force", "consolidation"), SolveOptions())
        if best.plan is None:
            continue
        formulation = ConsolidationFormulation(instance)
        master, values = RestrictedMaster(formulation.classes), formulation.evaluate(best.plan)  # type: ignore[arg-type]
        levels: dict[str, Fraction] = {}
        for objective, value in zip(formulation.objectives, values, strict=True):
            if objective.name not in PRICED:
                continue
            steps = {name: float(level / master.steps[name]) for name, level in levels.items()}
            found = AssignmentRelaxation(master, objective.name, steps).solve()
            assert not objective.better(value, master.in_plan(objective.name, found[0])), (seed, objective)
            goal = CertifiedGoal.model_validate(certificate_goal(master, objective.name, found[1]))
            placed = placed_ranges(master.classes)
            bound = lagrangian_bound(master.classes, master.pricing, goal, levels, placed)
            least = found[0] * float(master.steps[objective.name])
            assert bound >= least - 1e-6 * max(1.0, abs(least)), (seed, objective.name)
            levels[objective.name] = reached_level(master.classes, objective.name, value)
            looked += 1
    assert looked > 10


ONE, TWO = (0, 0), (0, 1)


def test_slots_are_given_in_the_order_of_servers() -> None:
    """Each server as often as it has a slot."""
    slots = SlotAssignment({ONE: [5, 3, 3], TWO: [4]}, racks=[0] * 6)
    assert slots.take({ONE: 2, TWO: 1}, ()) == {ONE: [3, 3], TWO: [4]}
    assert slots.take({ONE: 1}, ()) == {ONE: [5]}


def test_slots_on_few_racks() -> None:
    """First the rack where the job is; then the one that has all it needs with least to spare."""
    slots = SlotAssignment({ONE: [0, 1, 2, 2, 3]}, racks=[0, 0, 1, 1])
    assert sorted(slots.take({ONE: 2}, ())[ONE]) == [0, 1]
    assert slots.take({ONE: 1}, {3})[ONE] == [2]


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_survives_the_way_through_patterns(seed: int) -> None:
    """With the columns of a plan alone, the master problem has a solution as good as the plan."""
    instance = random_consolidation(seed)
    first = instance.model_copy(update={"objectives": ("value", "migrations")})
    formulation = ConsolidationFormulation(first)
    plan = BEST_FIT.solve(formulation, SolveOptions(), Clock()).plan
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
    written = Disaggregation(formulation, master, solution).plan()
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
