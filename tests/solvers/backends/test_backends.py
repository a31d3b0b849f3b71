"""Mixed-integer solvers: HiGHS, SCIP and CBC, and the textbook models that they are given."""

from __future__ import annotations

import _thread
import math
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import highspy
import numpy as np
import pulp
import pytest
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING
from small_models import OPTIMUM, knapsack, worth

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.errors import OptionError
from clusterplan.solvers.backends.base import (
    Answer,
    Backend,
    BackendError,
    call_with_deadline,
    no_warnings,
    run_highs,
    wait_for_abandoned_calls,
)
from clusterplan.solvers.backends.cp_sat import CpSat
from clusterplan.solvers.backends.highs import (
    CuttingPlaneModel,
    branch_and_bound,
    linear_program,
    maximize_cutting_planes,
    threads_and_seed,
)
from clusterplan.solvers.backends.mip_solvers import (
    LARGEST_ENTRY,
    LOG_ROUNDING,
    Cbc,
    Highs,
    Scip,
    _row_scaling_factors,
    scip_errors,
)
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.milp import LEAST_COST, MAX_COST, Milp, _ignored_cost, _scale


def test_warnings_are_silent_inside_and_heard_again_after() -> None:
    with no_warnings():
        warnings.warn("not heard", stacklevel=1)  # an error in these tests, if it were heard
    with pytest.warns(UserWarning, match="heard"):
        warnings.warn("heard", stacklevel=1)


def one_variable() -> highspy.Highs:
    """Return x to be minimised, at least 2."""
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.addVar(2.0, 7.0)
    model.changeColCost(0, 1.0)
    return model


def test_highs_runs_in_the_main_thread_and_in_others(capsys: pytest.CaptureFixture[str]) -> None:
    here, there = one_variable(), one_variable()
    assert run_highs(here, Clock())
    thread = threading.Thread(target=run_highs, args=(there, Clock(60.0)))
    thread.start()
    thread.join()
    assert here.getInfo().objective_function_value == there.getInfo().objective_function_value == 2.0
    assert (here.HandleUserInterrupt, there.HandleUserInterrupt) == (True, False)
    assert capsys.readouterr().out == ""


def test_a_call_that_ignores_its_limit_is_left_behind() -> None:
    let_go, cancelled = threading.Event(), list[bool]()

    def stubborn() -> str:
        let_go.wait(60.0)
        return "too late"

    assert call_with_deadline(Clock(0.01), stubborn, lambda: cancelled.append(True)) is None
    assert cancelled == [True]
    threading.Timer(0.1, let_go.set).start()
    wait_for_abandoned_calls()
    assert let_go.is_set()


def test_a_call_without_limit_is_waited_for_and_its_error_is_raised_here() -> None:
    assert call_with_deadline(Clock(), lambda: 7, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        call_with_deadline(Clock(60.0), lambda: 1 // 0, lambda: None)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt this process even if it was started where it is ignored, as in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_cancels_the_call_and_keeps_its_answer() -> None:
    cancelled = threading.Event()

    def until_cancelled() -> str:
        # As if the user pressed Ctrl-C while the call runs, and is waited for.
        time.sleep(0.05)
        _thread.interrupt_main()
        return "the best so far" if cancelled.wait(60.0) else "never cancelled"

    assert call_with_deadline(Clock(), until_cancelled, cancelled.set) == "the best so far"


def usable(backend: Backend, *more: object) -> Any:
    """Return parameters of a test that is skipped where the library cannot be used."""
    lacks = pytest.mark.skipif(
        backend.unavailable() is not None, reason=f"{backend.name} cannot be used here"
    )
    return pytest.param(backend, *more, marks=lacks, id=backend.name)


@pytest.mark.parametrize("backend", [usable(Cbc()), usable(Highs()), usable(Scip())])
def test_the_optimum_and_its_bound_are_found(backend: Backend) -> None:
    problem = knapsack()
    answer = backend.minimise(problem, SolveOptions(gap=0.0, seed=1), Clock())
    assert answer.values is not None
    assert worth({variable.name: answer.values(variable) for variable in problem.variables()}) == OPTIMUM
    rounding = 2 * LOG_ROUNDING if isinstance(backend, Cbc) else None
    assert answer.bound == pytest.approx(OPTIMUM, abs=rounding)
    assert (answer.limit, answer.infeasible) == ("none", False)
    assert backend.minimise(knapsack(fewest=4), SolveOptions(), Clock()).infeasible


@pytest.mark.parametrize(("backend", "name"), [usable(Highs(), "no_such"), usable(Scip(), "no/such")])
def test_an_option_that_a_library_does_not_know_is_refused(backend: Backend, name: str) -> None:
    with pytest.raises(OptionError, match=name):
        backend.minimise(knapsack(), SolveOptions(backend_options={name: 1}), Clock())


@pytest.mark.parametrize("setting", [{"-solve": 1}, {"ratio": "0.1 -import"}, {"a b": 1}])
def test_an_option_cannot_smuggle_in_another(setting: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="one word"):
        Cbc().minimise(knapsack(), SolveOptions(backend_options=setting), Clock())


def test_a_time_limit_in_the_log_is_no_optimum() -> None:
    log = "Result - Stopped on time limit\nObjective value:   -12.0\nLower bound:   -20.5\n"
    answer = Cbc._answer(knapsack(), log, gap=0.0)
    assert (answer.limit, answer.bound) == ("time", -20.5 - LOG_ROUNDING)
    lost = Cbc._answer(knapsack(), "Result - Stopped on time limit\nNo feasible solution found\n", gap=0.0)
    assert (lost.limit, lost.values, lost.bound) == ("time", None, None)


def test_a_closed_tree_proves_as_much_as_its_gap() -> None:
    problem = knapsack()
    for variable, value in zip(problem.variables(), (1, 0, 0, 1), strict=True):
        variable.varValue = value
    log = "Result - Optimal solution found\nObjective value: -19.0\nLower bound: -90.000\n"
    assert Cbc._answer(problem, log, gap=0.0).bound == OPTIMUM
    assert Cbc._answer(problem, log, gap=0.5).bound == 2 * OPTIMUM


def test_a_log_without_an_answer_is_a_failure() -> None:
    with pytest.raises(BackendError, match="without an answer"):
        Cbc._answer(knapsack(), "Segmentation fault", gap=0.0)
    assert Cbc._answer(knapsack(), "Problem is infeasible - 0.00 seconds", gap=0.0).infeasible
    unclear = "Pre-processing says infeasible or unbounded\n"
    with pytest.raises(BackendError):
        Cbc._answer(knapsack(), unclear, gap=0.0)
    bounded = "Continuous objective value is 3584 - 0.00 seconds\n"
    assert Cbc._answer(knapsack(), bounded + unclear, gap=0.0).infeasible


def test_no_solution_is_told_from_no_time() -> None:
    assert Highs().minimise(knapsack(fewest=4), SolveOptions(), Clock()).infeasible
    stopped = Highs().minimise(knapsack(), SolveOptions(), Clock(0.0))
    assert (stopped.limit, stopped.infeasible) == ("time", False)


def test_large_rows_are_scaled_down_and_fractions_over_integers_up() -> None:
    owner = np.array([0, 0, 1, 1, 2, 2, 3])
    entries = np.array([1e7, 3.0, 0.25, 0.5, 7.0, 9.0, 0.5])
    over_integers = np.array([True, True, True, False])
    factors = _row_scaling_factors(owner, entries, over_integers)
    assert np.array_equal(factors, np.exp2(np.round(np.log2(factors))))  # whole numbers lose no digit
    assert LARGEST_ENTRY / 2 < 1e7 * factors[0] <= LARGEST_ENTRY
    assert LARGEST_ENTRY / 2 < 0.5 * factors[1] <= LARGEST_ENTRY
    assert factors[2:].tolist() == [1.0, 1.0]  # whole numbers, and fractions of continuous variables


def program(least: float, by_rows: bool = True) -> Any:
    """Return −2x − 3y to be minimised over integers 0 ≤ x, y ≤ 3, where least ≤ 2x + 2y ≤ 5."""
    starts = np.array([0, 2] if by_rows else [0, 1, 2])
    index = np.array([0, 1] if by_rows else [0, 0])
    columns, row = (np.zeros(2), np.full(2, 3.0)), (np.array([least]), np.array([5.0]))
    matrix = starts, index, np.full(2, 2.0)
    return linear_program(np.array([-2.0, -3.0]), columns, row, matrix, [True, True], by_rows)


@pytest.mark.parametrize("by_rows", [False, True])
def test_the_optimum_is_proven(by_rows: bool) -> None:
    """Of a row that is compressed by columns or by rows."""
    values, bound, limit = branch_and_bound(
        program(0.0, by_rows), {}, Clock(), SolveOptions(threads=1, seed=1)
    )
    assert values.round().tolist() == [0.0, 2.0]
    assert (bound, limit) == (pytest.approx(-6.0), "none")


def test_an_infinite_bound_proves_that_there_are_no_values() -> None:
    # 2x + 2y is even, so that nothing lies between 4.5 and 5.
    assert branch_and_bound(program(4.5), {}, Clock(), SolveOptions()) == (None, math.inf, "none")


def test_a_setting_that_highs_does_not_know_is_an_error() -> None:
    with pytest.raises(BackendError, match="no_such"):
        branch_and_bound(program(0.0), {"no_such": 1}, Clock(), SolveOptions())


def test_only_what_is_given_is_set() -> None:
    """HiGHS takes seeds below 2³¹."""
    assert threads_and_seed(None, None) == {}
    assert threads_and_seed(2, 2**31 + 5) == {"threads": 2, "random_seed": 5}


ONE = np.ones(1)


def test_two_lines_meet_at_the_highest_point() -> None:
    # min(1 − x, 1 + x) on [−2, 2]
    found = maximize_cutting_planes(np.array([1.0, 1.0]), np.array([[-1.0], [1.0]]), -2 * ONE, 2 * ONE)
    assert found[0] == pytest.approx([0.0])
    assert found[1] == pytest.approx(1.0)


def test_the_box_and_the_total_are_kept() -> None:
    slopes = np.array([[1.0, 2.0]])
    low, high = np.zeros(2), np.array([5.0, 3.0])
    boxed = maximize_cutting_planes(np.zeros(1), slopes, low, high)
    assert boxed[1] == pytest.approx(11.0)
    shared = maximize_cutting_planes(np.zeros(1), slopes, low, high, total=4.0)
    assert shared[0] == pytest.approx([1.0, 3.0])
    assert maximize_cutting_planes(np.zeros(1), slopes, low, high, total=9.0) is None


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_tangents_of_a_parabola_meet_between_their_points(unit: float) -> None:
    """Of −(x − 1)² at 0 and 3 these are −1 + 2x and 8 − 4x, which meet at (1.5, 2), in any unit of height."""
    envelope = CuttingPlaneModel()
    envelope.constants, envelope.slopes = [-unit, 8 * unit], [2 * unit * ONE, -4 * unit * ONE]
    place, above = envelope.maximize(0 * ONE, -unit, 0 * ONE, 3 * ONE)
    assert place == pytest.approx([1.5])
    assert above == pytest.approx(3 * unit)


def test_only_bare_exceptions_are_those_of_scip() -> None:
    with pytest.raises(BackendError, match="SCIP failed: figure"), scip_errors():
        raise Exception("figure of 1e20")
    with pytest.raises(ZeroDivisionError), scip_errors():
        raise ZeroDivisionError


@pytest.mark.parametrize("largest", [1e-9, 0.3, 999.0, LEAST_COST, 5e4, MAX_COST, 1e13])
def test_objectives_are_scaled_by_powers_of_two_to_where_backends_can_take_them(largest: float) -> None:
    scale = _scale([0.0, -largest])
    assert LEAST_COST <= largest * scale <= 2 * MAX_COST
    assert math.frexp(scale)[0] == 0.5
    assert scale == 1.0 or not LEAST_COST <= largest <= MAX_COST


def test_an_objective_of_nothing_is_not_scaled() -> None:
    assert _scale([]) == _scale([0.0]) == 1.0


def test_terms_too_small_to_be_seen_widen_the_bound_by_what_they_may_add_up_to() -> None:
    problem = pulp.LpProblem("p")
    x, y = problem.add_variable("x", 0, 5), problem.add_variable("y", 0, None)
    assert _ignored_cost(pulp.LpAffineExpression([(x, 1e-9), (y, 1.0)]), 1.0) == pytest.approx(5e-9)
    assert _ignored_cost(pulp.LpAffineExpression([(y, 1e-9)]), 1.0) == float("inf")
    assert _ignored_cost(pulp.LpAffineExpression([(x, 1e-9)]), 1e9) == 0.0


@pytest.mark.parametrize("document", [ALLOCATION, STAGING, CONSOLIDATION])
def test_every_kind_is_solved_to_the_optimum_of_brute_force(document: dict[str, object]) -> None:
    instance = clusterplan.parse_instance(document)
    formulation = formulate(instance)
    outcome = Milp(Highs()).solve(formulation, SolveOptions(threads=1), Clock())
    assert not formulation.violations(outcome.plan)
    best = clusterplan.solve(instance, "brute-force").plan
    assert formulation.evaluate(outcome.plan) == pytest.approx(formulation.evaluate(best))
    assert list(outcome.bounds) == pytest.approx(list(formulation.evaluate(best)), rel=1e-5)


def test_without_time_there_is_no_answer_but_the_plan_to_start_from() -> None:
    instance = clusterplan.parse_instance(STAGING)
    formulation = formulate(instance)
    plan = clusterplan.solve(instance, "brute-force").plan or ()
    options = SolveOptions(warm_start=tuple(entry.model_dump() for entry in plan))
    outcome = Milp(Highs()).solve(formulation, options, Clock(0.0))
    assert (outcome.limit, outcome.plan, list(outcome.bounds)) == ("time", plan, [])


class Late(Clock):
    """A clock that expires when it is told to."""

    over = False

    @property
    def expired(self) -> bool:
        return self.over


class LateHighs(Highs):
    """HiGHS that ends when the time is up."""

    def __init__(self, clock: Late) -> None:
        self.clock = clock

    def minimise(self, problem: pulp.LpProblem, *limits: Any) -> Answer:
        """Solve, and let the time be up."""
        answer = super().minimise(problem, *limits)
        self.clock.over = True
        return answer


@pytest.mark.parametrize("document", [ALLOCATION, STAGING, CONSOLIDATION])
def test_a_plan_that_comes_too_late_is_kept(document: dict[str, object]) -> None:
    """A backend may end after the limit; what it found is returned, with its bound."""
    formulation = formulate(clusterplan.parse_instance(document))
    clock = Late()
    with clock.enforced():
        outcome = Milp(LateHighs(clock)).solve(formulation, SolveOptions(), clock)
    assert not formulation.violations(outcome.plan)
    assert outcome.bounds[0] == pytest.approx(formulation.evaluate(outcome.plan)[0], rel=1e-6)
    assert outcome.limit == ("none" if len(formulation.objectives) == 1 else "time")


def test_cp_sat_counts_the_largest_load_in_few_steps() -> None:
    """Traffic of 0.5 and 0.3 in tenths; in finer steps CP-SAT would raise its bound for minutes."""
    document = {
        **CONSOLIDATION,
        "objectives": ["traffic"],
        "servers": [{"name": "n", "count": 2, "capacity": {"gpu": 4}, "traffic_gbit_per_s": 0.5}],
        "jobs": [{"name": "j", "tasks": 2, "task_demand": {"gpu": 1}, "traffic_gbit_per_s": 0.3}],
    }
    instance = clusterplan.parse_instance(document)
    model = CpSat[Any]("consolidation", "").model(formulate(instance))
    assert [objective.to_plan(8.0) for objective in model.objectives] == [0.8]
    assert clusterplan.solve(instance, "cp-sat").objective == 0.5
