"""Best known schedules with proven bounds, beside enumeration."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from malleable_instances import least_of_malleable, plan_by, random_trace

import clusterplan
from clusterplan.formulations.common import compiled
from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.common.objective import Diagnosis
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.errors import OutOfTimeError, TooLargeError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.planner.stored_results import verify_stored
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.scheduling import exact
from clusterplan.solvers.scheduling.exact import (
    MAX_JOBS,
    MAX_SCHEDULES,
    SchedulingBruteForce,
    SchedulingExact,
    certify,
    diagnose,
    schedule_count,
)
from clusterplan.solvers.scheduling.frontier import find_frontier
from clusterplan.solvers.scheduling.policy_solvers import POLICIES
from clusterplan.solvers.scheduling.search.event_loop import advance


def test_it_is_no_worse_than_any_policy_and_claims_no_more_than_is_proven() -> None:
    """On a trace that is too large for all orders."""
    formulation = SchedulingFormulation(generate_scheduling(40, 16, load=2.0, seed=3))
    outcome = SchedulingExact().solve(formulation, SolveOptions(), Clock())
    assert outcome.plan is not None
    value = formulation.evaluate(outcome.plan)[0]
    for policy in POLICIES[:6]:
        assert value <= formulation.evaluate(plan_by(formulation, policy))[0]
    assert tuple(outcome.bounds) == formulation.elementary_bounds()
    proven, elementary = formulation.certified_bounds(outcome.certificate)[0], outcome.bounds[0]
    assert proven is not None
    assert elementary is not None
    assert elementary < proven <= value
    assert outcome.message is not None
    assert "evaluations of the dual" in outcome.message
    prices = formulation.prices(outcome.certificate, outcome.plan)
    assert prices is not None
    assert prices["gpu"] > 0


def test_a_tiny_trace_without_preemption_is_solved() -> None:
    """Its bound is its value."""
    formulation = SchedulingFormulation(generate_scheduling(4, 2, load=5.0).replace(preemption="none"))
    outcome = SchedulingExact().solve(formulation, SolveOptions(), Clock())
    known = SchedulingBruteForce().solve(formulation, SolveOptions(), Clock())
    assert outcome.plan is not None
    assert tuple(outcome.bounds) == tuple(known.bounds) == formulation.evaluate(outcome.plan)


def test_malleable_jobs_get_the_best_of_several_settings() -> None:
    """Deciding at arrivals and ends too brings much, unless restarts cost."""
    instance = generate_scheduling(40, 16, load=1.2, seed=5, malleable=True)
    found = clusterplan.solve(instance, "exact").objective
    plain = clusterplan.solve(instance, "optimus", SolveOptions(method_options={"admission": "shortest"}))
    eager = {"admission": "shortest", "aim": "speeds", "reacts": True, "power": 0.5}
    best = clusterplan.solve(instance, "optimus", SolveOptions(method_options=eager))
    assert found is not None
    assert plain.objective is not None
    assert best.objective is not None
    assert found <= best.objective < plain.objective


def test_allocations_are_proven_too_where_a_further_gpu_brings_more_than_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A third GPU makes b three times as fast; marginal gains give the first spare one to a.

    The frontier of sizes has what `exact` by name finds.
    """
    jobs = [
        {"name": "a", "arrival_s": 0, "work": 3600, "demand": {"gpu": 1}, "speeds": {1: 1, 2: 1.3}},
        {"name": "b", "arrival_s": 0, "work": 3600, "demand": {"gpu": 1}, "speeds": {1: 1, 2: 1.1, 3: 3.3}},
    ]
    more = [{**job, "name": f"{job['name']}{k}"} for job in jobs for k in range(4)]
    instance = SchedulingInstance.model_validate({"name": "steps", "resources": {"gpu": 16}, "jobs": more})
    with monkeypatch.context() as without:
        without.setattr(exact, "OPTIMUS_EXACT", exact.POLICY_BY_NAME["optimus"])
        alone = SchedulingExact().solve(SchedulingFormulation(instance), SolveOptions(), Clock()).plan
    assert alone is not None
    result = clusterplan.solve(instance, "exact")
    assert result.message is not None
    assert result.message.startswith("found by optimus-exact; ")
    assert result.objective is not None
    assert result.objective < 0.98 * SchedulingFormulation(instance).evaluate(alone)[0]
    frontier = find_frontier(instance, SolveOptions(), 0.1, None, least=16, most=16)
    assert [(point.mean_completion_s, point.solver) for point in frontier.points] == [
        (result.objective, "optimus-exact")
    ]


INSTANCE = generate_scheduling(40, 16, load=2.0, seed=3)


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    """Return a result of `exact`, as it is stored."""
    found: dict[str, Any] = json.loads(clusterplan.solve(INSTANCE, solver="exact").to_json())
    return found


def test_a_result_verifies_with_its_bound(stored: dict[str, Any]) -> None:
    """The bound is above the elementary one, and derived again."""
    formulation = SchedulingFormulation(INSTANCE)
    elementary = formulation.elementary_bounds()[0]
    assert elementary is not None
    assert stored["certified_bound"] > 1.04 * elementary
    assert stored["bound"] == stored["certified_bound"] < stored["objective"]
    found = verify_stored(INSTANCE, stored, "stored")
    assert found.complete, found.lines()


def _raised(data: dict[str, Any]) -> None:
    for record in (data, data["objectives"][0]):
        record["bound"] = record["certified_bound"] = 0.5 * (data["bound"] + data["objective"])


def _all_prices(data: dict[str, Any], change: Any) -> None:
    data["certificate"]["prices"]["gpu"] = [change(price) for price in data["certificate"]["prices"]["gpu"]]


TAMPERED = {
    "a raised bound": _raised,
    "a status of optimal": lambda data: data.update(status="optimal"),
    "other prices": lambda data: _all_prices(data, lambda price: 3 * price),
    "no prices": lambda data: data["certificate"].pop("prices"),
    "no certificate": lambda data: data.update(certificate=None),
}
"""What cannot be read at all is the concern of the tests of certificates, and of those recorded."""


@pytest.mark.parametrize("what", TAMPERED)
def test_what_somebody_altered_is_refused(stored: dict[str, Any], what: str) -> None:
    """And nothing crashes."""
    data = copy.deepcopy(stored)
    TAMPERED[what](data)
    found = verify_stored(INSTANCE, data, "stored")
    assert not found.ok
    assert found.faults


def test_a_clock_that_has_run_out_leaves_the_first_prices() -> None:
    """Which are 0; the plan and the certificate stay, and the outcome says why."""
    formulation = SchedulingFormulation(INSTANCE)
    outcome = Outcome(plan_by(formulation, POLICIES[0]))
    certify(formulation, outcome, Clock(0.0))
    assert outcome.limit == "time"
    assert outcome.certificate is not None
    assert outcome.certificate["prices"] == {}
    assert formulation.certified_bounds(outcome.certificate) == formulation.elementary_bounds()


def test_nothing_is_added_without_a_plan_or_for_the_makespan() -> None:
    """There elementary bounds are all there is."""
    formulation, outcome = SchedulingFormulation(generate_scheduling(3, 2)), Outcome(bounds=(1.0,))
    certify(formulation, outcome, Clock())
    assert outcome.certificate is None
    longest = generate_scheduling(12, 4).replace(objective="makespan")
    result = clusterplan.solve(longest, solver="exact")
    assert result.certificate is None
    assert result.certified_bound is not None
    known = Diagnosis(reasons=("so",))
    assert diagnose(formulation, known, Clock()) is known


def test_a_short_limit_leaves_a_plan_where_there_is_no_time_to_compile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of first come, first served, which Python simulates; with more time nothing is made for that."""

    def no_time(*_: Any) -> None:
        raise OutOfTimeError("compiling takes longer")

    instance = generate_scheduling(40, 16, seed=1)
    first_come = clusterplan.solve(instance, "fifo")
    monkeypatch.setattr(compiled, "MAX_INTERPRETED_ENTRIES", -1)
    monkeypatch.setattr(compiled._LazyFunction, "_wait", no_time)
    monkeypatch.setattr(advance, "ready", False)
    found = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=10))
    assert found.status == "feasible"
    assert found.plan == first_come.plan
    assert "fifo" in (found.message or "")
    assert clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=60)).plan is None


def best(instance: SchedulingInstance) -> tuple[float, Outcome]:
    """Return the value of the best plan, and the outcome; the plan must be feasible."""
    formulation = SchedulingFormulation(instance)
    outcome = SchedulingBruteForce().solve(formulation, SolveOptions(), Clock())
    assert outcome.plan is not None
    assert formulation.violations(outcome.plan) == []
    return formulation.evaluate(outcome.plan)[0], outcome


def test_the_optimum_waits_for_a_short_job() -> None:
    """The long job starts at 3 s, after one that comes at 1 s: (2 + 13) / 2, and not (10 + 11) / 2."""
    jobs = [
        {"name": "long", "demand": {"gpu": 1}, "duration_s": 10},
        {"name": "short", "arrival_s": 1, "demand": {"gpu": 1}, "duration_s": 2},
    ]
    document = {"name": "t", "resources": {"gpu": 1}, "preemption": "none", "jobs": jobs}
    instance = SchedulingInstance.model_validate(document)
    value, outcome = best(instance)
    assert value == 7.5
    assert tuple(outcome.bounds) == (7.5,)
    assert best(instance.replace(objective="makespan"))[0] == 12


@pytest.mark.parametrize("seed", range(4))
def test_no_policy_beats_all_orders_without_preemption(seed: int) -> None:
    """On random traces of five jobs."""
    instance = generate_scheduling(5, 4, load=5.0, seed=seed).replace(preemption="none")
    value, _ = best(instance)
    formulation = SchedulingFormulation(instance)
    for policy in POLICIES:
        assert formulation.evaluate(plan_by(formulation, policy))[0] >= value * (1 - 1e-12)


def test_with_preemption_nothing_is_proven() -> None:
    """And the message says so."""
    _, outcome = best(generate_scheduling(3, 2, load=5.0))
    assert not outcome.bounds
    assert outcome.message is not None
    assert "proves nothing" in outcome.message


@pytest.mark.parametrize(
    "there",
    [
        generate_scheduling(9, 2),
        generate_scheduling(8, 8, malleable=True).replace(preemption="none"),
    ],
)
def test_too_many_jobs_or_configurations_are_refused(there: SchedulingInstance) -> None:
    """With the largest that is allowed; eight jobs have 40,320 orders already."""
    assert len(there.jobs) > MAX_JOBS or schedule_count(there) > MAX_SCHEDULES
    with pytest.raises(TooLargeError, match="at most 8 with few configurations are allowed"):
        SchedulingBruteForce().solve(SchedulingFormulation(there), SolveOptions(), Clock())


@pytest.mark.parametrize("seed", range(20))
def test_malleable_jobs_are_tried_in_all_configurations(seed: int) -> None:
    """The optimum is that of a search over all starts, and no policy is below it."""
    there = random_trace(seed, 3, whole=True)
    formulation, optimum = SchedulingFormulation(there), least_of_malleable(there)
    value, outcome = best(there)
    assert value == pytest.approx(optimum, rel=1e-12)
    assert outcome.bounds[0] == pytest.approx(optimum, rel=1e-12)
    bound = formulation.elementary_bounds()[0]
    assert bound is not None
    assert bound <= optimum * (1 + 1e-12)
    for name in ("srsf", "max-min", "optimus", "optimus-exact"):
        assert formulation.evaluate(plan_by(formulation, name))[0] >= optimum * (1 - 1e-9)
