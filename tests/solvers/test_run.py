"""What is made of a solver's answer: status, bounds and messages, and why an instance is infeasible."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from allocation_instances import allocation, measured
from device_instances import job, placement, server
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING
from staging_instances import half_serial

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import Stage
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import OptionError, TooLargeError
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.solvers import registry
from clusterplan.solvers.common.base import (
    MAX_DECISIONS,
    BruteForce,
    Clock,
    Enumeration,
    Outcome,
    PresolvingSolver,
    Solver,
    refuse_many,
)
from clusterplan.solvers.common.kind import SolverKind
from clusterplan.solvers.common.result import SolveError, SolveOptions
from clusterplan.solvers.registry import Auto, find_solver
from clusterplan.solvers.run import find_plan, solve_with

INSTANCE = generate_staging(3, 2, "tight", seed=1)
OPTIMUM = clusterplan.solve(INSTANCE, "brute-force")


class Answers(Solver):
    """A solver that answers what it was made with."""

    name, kinds, proves = "answers", ("staging",), True
    features = frozenset({"warm_start"})

    def __init__(self, **outcome: Any) -> None:
        self.outcome = Outcome(**outcome)

    def solve(self, formulation: Any, options: Any, clock: Any) -> Outcome:
        """Answer."""
        return self.outcome


@pytest.mark.parametrize("kind", registry.KINDS)
def test_solvers_of_a_kind_have_different_names_and_quick_methods_are_among_them(kind: str) -> None:
    """A solver is found by its name."""
    record = registry.KINDS[kind]
    assert isinstance(record, SolverKind)
    names = [solver.name for solver in (record.exact, *record.solvers)]
    assert len(set(names)) == len(names)
    assert dict(record.quick).keys() <= set(names)


def test_a_plan_that_breaks_a_constraint_is_an_error_that_names_it() -> None:
    """A wrong plan is not shown; the message says what is broken."""
    assert OPTIMUM.plan is not None
    wrong = [OPTIMUM.plan[0].model_copy(update={"units": 1000}), *OPTIMUM.plan[1:]]
    result = solve_with(INSTANCE, Answers(plan=wrong, bounds=(1.0,)), SolveOptions())
    assert (result.status, result.plan, result.objective) == ("error", None, None)
    assert "limit of type-" in (result.message or "")


def test_a_bound_that_the_plan_contradicts_is_dropped_and_the_plan_kept() -> None:
    """A bound better than the plan's own value shows that it is wrong; what is certified stays."""
    bound = (OPTIMUM.objective or 0) * 1.1
    result = solve_with(INSTANCE, Answers(plan=OPTIMUM.plan, bounds=(bound,)), SolveOptions())
    assert (result.status, result.plan) == ("feasible", OPTIMUM.plan)
    assert result.bound == result.certified_bound
    assert "contradicts" in (result.message or "")


def test_infeasible_with_a_plan_keeps_the_plan() -> None:
    """A feasible plan refutes whoever says that there is none."""
    result = solve_with(INSTANCE, Answers(plan=OPTIMUM.plan, infeasible=True), SolveOptions())
    assert (result.status, result.plan) == ("feasible", OPTIMUM.plan)
    assert "said that no plan exists" in (result.message or "")


def test_without_a_bound_a_plan_is_only_feasible() -> None:
    """The optimum itself is not optimal before something proves it."""
    result = solve_with(INSTANCE, Answers(plan=OPTIMUM.plan), SolveOptions())
    assert result.status == "feasible"
    assert result.bound == result.certified_bound
    assert result.gap is not None
    assert result.gap > 1e-6


def test_the_requested_gap_decides() -> None:
    """The same bound proves a plan at a wide gap and not at a narrow one."""
    answer = Answers(plan=OPTIMUM.plan, bounds=((OPTIMUM.objective or 0) * 0.99,))
    assert solve_with(INSTANCE, answer, SolveOptions(gap=0.02)).status == "optimal"
    assert solve_with(INSTANCE, answer, SolveOptions(gap=0.001)).status == "feasible"


def test_no_plan_is_unknown_and_raises_when_asked() -> None:
    """Unknown figures are null, never 0."""
    result = solve_with(INSTANCE, Answers(limit="memory"), SolveOptions())
    assert (result.status, result.objective, result.gap) == ("unknown", None, None)
    with pytest.raises(SolveError, match="unknown"):
        result.raise_for_status()
    assert OPTIMUM.raise_for_status() is OPTIMUM
    assert len(OPTIMUM.to_frame()) == len(OPTIMUM.plan or ())


def test_auto_takes_the_options_of_the_method_that_it_uses() -> None:
    """`exact` of the kind decides which there are, and is named where there is none."""
    staging = clusterplan.load("example:opt-350-three-gpus")
    options = clusterplan.SolveOptions(method_options={"what_if": True})
    assert "7.46" in (clusterplan.solve(staging, "auto", options).message or "")
    with pytest.raises(clusterplan.OptionError, match="'exact' has no option 'what_if'"):
        clusterplan.solve(clusterplan.load("example:optimus-testbed"), "auto", options)


@pytest.mark.parametrize("document", [ALLOCATION, STAGING, CONSOLIDATION])
def test_a_plan_is_found_and_holds(document: dict[str, Any]) -> None:
    formulation = formulate(clusterplan.parse_instance(document))
    found = find_plan(formulation, patience_s=20.0)
    assert found is not None
    assert formulation.violations(found.plan) == []
    assert found.method
    assert find_plan(formulation, patience_s=0.0) is None


def test_where_there_is_no_plan_none_is_found() -> None:
    formulation = formulate(clusterplan.parse_instance({**STAGING, "throughput_floor_samples_per_s": 1e9}))
    assert find_plan(formulation, patience_s=20.0) is None


FORMULATION = formulate(INSTANCE)
BEST = OPTIMUM.plan or ()
START = SolveOptions(warm_start=tuple(entry.model_dump() for entry in BEST))


def answer(options: SolveOptions, **outcome: Any) -> Outcome:
    """Return what `auto` makes of an answer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "KINDS", {"staging": SimpleNamespace(exact=Answers(**outcome))})
        return Auto().solve(FORMULATION, options, Clock())


def test_the_message_says_which_method_it_was() -> None:
    assert answer(SolveOptions(), plan=BEST).message == "auto: answers"
    assert answer(SolveOptions(), plan=BEST, message="done").message == "auto: answers; done"
    assert answer(START, plan=BEST, bounds=(1.0,)).bounds == (1.0,)


def test_the_warm_start_refutes_a_prover_that_is_wrong() -> None:
    no_plan = answer(START, infeasible=True)
    assert not no_plan.infeasible
    assert no_plan.plan == BEST
    assert "that no plan exists" in (no_plan.message or "")
    broken = answer(START, plan=(BEST[0].model_copy(update={"units": 1000}),), bounds=(9.0,))
    assert (broken.plan, broken.bounds) == (BEST, ())


def test_options_are_those_of_the_method() -> None:
    auto = Auto()
    auto.check_options(SolveOptions(method_options={"anything": 1}))
    with pytest.raises(OptionError, match="anything"):
        answer(SolveOptions(method_options={"anything": 1}))
    with pytest.raises(OptionError, match="memory limit"):
        auto.check_options(SolveOptions(memory_limit_gib=1))


def reasons(instance: Instance, solver: str = "auto") -> str:
    """Return why the instance has no plan, after checking that this is what the result says."""
    result = clusterplan.solve(instance, solver)
    assert result.status == "infeasible"
    assert clusterplan.verify(instance, result).ok
    return " | ".join([*result.diagnosis.reasons, *result.diagnosis.remedies])


def test_a_job_larger_than_the_cluster() -> None:
    """The job, the resource and the missing amount are named."""
    text = reasons(allocation({"gpu": 4, "cpu": 9}, [measured("j0", (10, {"gpu": 6, "cpu": 1}))]))
    assert "'j0'" in text
    assert "6 gpu, 2 more than the 4 there are" in text
    assert "cpu" not in text


def test_jobs_that_are_too_large_together() -> None:
    """The resource that the smallest configurations overfill is named with what it needs."""
    text = reasons(allocation({"gpu": 4}, [measured(name, (10, {"gpu": 3})) for name in "ab"]))
    assert "need 6, 2 more than the 4 there are" in text
    assert "raise gpu to at least 6" in text


def test_a_deadline_that_nothing_meets() -> None:
    """The deadline is named."""
    late = measured("j", (10, {"gpu": 1}), deadline_s=5)
    assert "deadline of 5 s" in reasons(allocation({"gpu": 4}, [late]))


def test_a_conflict_of_resources_that_counting_does_not_see() -> None:
    """Each resource alone would do; the relaxed model says what is missing of both together."""
    jobs = [measured(name, (1, {"gpu": 2, "cpu": 1}), (1, {"cpu": 2, "gpu": 1})) for name in "ab"]
    text = reasons(allocation({"gpu": 2, "cpu": 2}, jobs))
    assert "more than the 2 there are would be needed" in text


def staging(floor: float) -> Instance:
    """Return two layers of one second on one type with two units, and a floor of the throughput."""
    layer = {"compute_s": {"t": 1.0}, "compute_parallel": 1.0}
    types = [{"name": "t", "price_usd_per_hour": 1, "limit": 2, "memory_gib": 2}]
    layers = [{"name": "a", **layer}, {"name": "b", **layer}]
    return half_serial(types=types, layers=layers, throughput_floor_samples_per_s=floor)


def test_a_floor_that_a_layer_cannot_reach() -> None:
    """The layers and the highest throughput that no plan exceeds are named."""
    text = reasons(staging(3))
    assert "layer 'a': at most 2 samples/s" in text
    assert "no floor above 2 samples/s" in text


def test_a_floor_that_only_the_whole_plan_misses() -> None:
    """The highest throughput that the limits allow is computed."""
    assert "the highest throughput within the limits is 1 samples/s, and the floor is 1.5" in reasons(
        staging(1.5)
    )


def test_must_place_jobs_that_do_not_go_together() -> None:
    """The result says how many fit and which to leave out."""
    jobs = [job(name, 1, {"gpu": 2}, must_place=True) for name in "abc"]
    text = reasons(placement(["value"], [{**server(gpu=3), "count": 2}], jobs))
    assert "2 of the 3 jobs that must be placed" in text


def test_a_must_place_job_that_never_fits() -> None:
    """The resource of the largest server that is short is named."""
    instance = placement(["value"], [server(gpu=4)], [job("j", 1, {"gpu": 8}, must_place=True)])
    assert "needs 8 gpu; the largest server has 4 (4 gpu)" in reasons(instance)


class _Nothing(PresolvingSolver[object]):  # type: ignore[type-var]
    def solve(self, formulation: object, options: SolveOptions, clock: Clock) -> Outcome:
        return Outcome(message="nothing")


def test_everything_but_the_answer_is_the_methods() -> None:
    """Name, kinds, features, settings, and what it refuses."""
    method = find_solver("exact", "staging")
    ours = _Nothing(method)
    for name in ("name", "kinds", "features", "proves", "what", "method_options"):
        assert getattr(ours, name) == getattr(method, name)
    assert ours.unavailable() is method.unavailable()
    with pytest.raises(OptionError):
        ours.check_options(SolveOptions(method_options={"no_such_setting": 1}))
    assert ours.solve(None, SolveOptions(), Clock()).message == "nothing"


def on(units: int) -> list[Stage]:
    """Return the only layer on so many units; its time falls and its cost rises with them."""
    return [Stage(first_layer=0, last_layer=0, type=half_serial(4).types[0].name, units=units)]


class Listed(BruteForce[Any]):
    """Judges the plans of a list."""

    def __init__(self, *plans: list[Stage]) -> None:
        self.plans = plans

    def enumerate(self, formulation: Any, search: Enumeration) -> None:
        """Judge one after the other."""
        del formulation
        for plan in self.plans:
            if search.over():
                return
            search.judge(plan)


def test_many_things_are_refused_with_a_way_out() -> None:
    refuse_many(MAX_DECISIONS, "jobs")
    with pytest.raises(TooLargeError, match=r"201 jobs.*--solver exact"):
        refuse_many(MAX_DECISIONS + 1, "jobs")


def test_the_best_feasible_plan_is_kept_and_proven() -> None:
    """One unit is the cheapest; five are more than there are."""
    formulation = StagingFormulation(half_serial(4))
    found = Listed(on(2), on(1), on(3), on(5)).solve(formulation, SolveOptions(), Clock())
    assert found.plan == tuple(on(1))
    assert tuple(found.bounds) == formulation.evaluate(on(1))
    assert Listed(on(5)).solve(formulation, SolveOptions(), Clock()).infeasible


def test_without_time_nothing_is_proven() -> None:
    formulation = StagingFormulation(half_serial(4))
    late = Listed(on(1)).solve(formulation, SolveOptions(), Clock(0.0))
    assert (late.plan, late.infeasible, late.limit) == (None, False, "time")
