"""`exact` on single devices: what it proves, and what it does when there is no time.

Every method on instances with devices, against enumeration.
"""

from __future__ import annotations

from typing import Any

import pytest
from device_instances import device_instance, gpus, job, placement, server, sharing

import clusterplan
from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.common.base import Clock, Outcome, Solver
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.devices import exact
from clusterplan.solvers.consolidation.devices.exact import (
    DevicePlacementSearch,
    OnDevices,
    certify_on_devices,
    price_objective,
)
from clusterplan.solvers.consolidation.devices.shape_relaxation import Cluster, ShapeProgram
from clusterplan.solvers.consolidation.exact import ConsolidationExact
from clusterplan.solvers.consolidation.kind import CONSOLIDATION
from clusterplan.solvers.consolidation.presolve import AroundFixedJobs
from clusterplan.solvers.run import find_plan


def _large(*objectives: str) -> DeviceFormulation:
    """Return an instance that is too large for the pooled relaxation to be solved beside it."""
    shares = (150, 220, 260, 340, 410, 480, 530, 610, 720, 880)
    jobs = []
    for n in range(900):
        asked = {"devices": {"gpu": 1 + n % 2}} if n % 3 == 0 else {"share": {"gpu": shares[n % 10]}}
        jobs.append(job(f"j{n}", 1, {"cpu": 1 + n % 7}, **asked))
    servers = [gpus(f"n{n}", 4, 30 + n, count=40) for n in range(3)]
    return DeviceFormulation(placement(list(objectives) or ["value"], servers, jobs))


def test_a_gap_of_few_percent() -> None:
    """On 120 servers with 900 jobs, certified by the check."""
    result = clusterplan.solve(
        _large().instance, solver="exact", options=SolveOptions(gap=0.05, time_limit_s=60)
    )
    (value,) = result.objectives
    assert value.value <= value.certified_bound <= 1.05 * value.value
    assert set(result.certificate) == {"devices"}


def test_with_no_time_there_is_a_plan() -> None:
    """That of the greedy method, never less."""
    formulation = _large()
    outcome = DevicePlacementSearch(formulation, SolveOptions(), Clock(0.0)).run(ConsolidationExact())
    assert outcome.limit == "time"
    assert formulation.violations(outcome.plan) == []
    assert formulation.evaluate(outcome.plan)[0] > 0


@pytest.mark.parametrize("seed", range(24))
def test_small_instances_by_every_bound(seed: int) -> None:
    """It is never better than enumeration, its bounds hold, and a stored result verifies."""
    instance = device_instance(seed, jobs=3)
    best, result = (clusterplan.solve(instance, solver=name) for name in ("brute-force", "exact"))
    if best.plan is None:
        assert result.plan is None
        return
    assert (result.status, [o.value for o in result.objectives]) == (
        "optimal",
        [o.value for o in best.objectives],
    )
    (first, *_), (optimum, *_) = result.objectives, best.objectives
    assert first.certified_bound >= optimum.value - 1e-9
    again = type(result).model_validate_json(result.to_json())
    assert clusterplan.verify(instance, again).faults == ()


def _three_shares() -> ConsolidationInstance:
    """Return shares of 600 on two devices, which hold two of them; the sum leaves room for three."""
    return placement(["value"], [gpus("n", 2)], [sharing(name, 600) for name in "abc"])


def test_what_bounds_leave_open_is_settled_by_the_compact_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPUs that only the pooled relaxation sees bind on A, devices that only prices by shape see on B."""
    servers = [gpus("a", 1, 3, count=2, gpu_model="A"), gpus("b", 2, gpu_model="B")]
    jobs = [
        sharing(f"{model}{n}", share, 2, gpu_model=model, value=1)
        for model, share in (("A", 10), ("B", 600))
        for n in range(3)
    ]
    instance = placement(["value", "servers"], servers, jobs)
    settled = clusterplan.solve(instance, solver="exact")
    assert settled.status == "optimal"
    assert [(o.value, o.bound) for o in settled.objectives] == [(4, 4), (3, 3)]
    assert settled.objectives[0].certified_bound == 5
    monkeypatch.setattr(exact, "MAX_COMPACT_SIZE", 0)
    found = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=2.0))
    assert (found.status, found.objectives[0].bound) == ("feasible", 5)


def test_a_certificate_is_the_same_from_its_json() -> None:
    """Shares are keys of text there."""
    result = clusterplan.solve(_three_shares(), solver="exact")
    assert result.certificate is not None
    assert result.certified_bound == pytest.approx(1.2)
    assert type(result).model_validate_json(result.to_json()) == result


def test_a_warm_start_is_never_made_worse() -> None:
    """And has to name devices."""
    instance = device_instance(5)
    best = clusterplan.solve(instance, solver="brute-force")
    start = tuple(entry.model_dump() for entry in best.plan)
    again = clusterplan.solve(instance, solver="exact", options=SolveOptions(warm_start=start))
    assert [o.value for o in again.objectives] == [o.value for o in best.objectives]


def test_prices_need_the_values_of_earlier_objectives() -> None:
    """Servers after value have none without a plan; other objectives have none at all."""
    formulation = _large("value", "racks", "servers")
    program = ShapeProgram(Cluster(formulation))
    assert price_objective(formulation, program, 2, None, {}, Clock()) == (None, {})
    assert price_objective(formulation, program, 1, (1.0, 0.0, 0.0), {}, Clock()) == (None, {})
    relaxed, certificate = price_objective(formulation, program, 0, None, {}, Clock())
    assert relaxed is not None
    assert [goal["objective"] for goal in certificate["devices"]] == ["value"]


def test_other_methods_get_certificates() -> None:
    """By the same prices; an infeasible outcome has what the relaxation proves."""
    instance = device_instance(5)
    formulation = DeviceFormulation(instance)
    plan = clusterplan.solve(instance, solver="best-fit").plan
    outcome = Outcome(formulation.parse_plan([entry.model_dump() for entry in plan]))
    certify_on_devices(formulation, outcome, Clock(), None)
    assert outcome.certificate is not None
    assert formulation.certificate_fault(outcome.certificate) is None
    nothing = Outcome(infeasible=True)
    certify_on_devices(formulation, nothing, Clock(), {"goals": []})
    assert nothing.certificate == {"pooled": {"goals": []}}


METHODS = [solver.name for solver in (CONSOLIDATION.exact, *CONSOLIDATION.solvers)] + ["milp:highs"]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("seed", range(0, 40, 5))
def test_no_method_is_better_than_enumeration(name: str, seed: int) -> None:
    """Nor claims a bound that enumeration passes; plans are verified by `solve` itself."""
    instance = device_instance(seed, jobs=3)
    best, found = (clusterplan.solve(instance, solver=method) for method in ("brute-force", name))
    assert found.status != "error"
    if best.plan is None:
        assert found.plan is None
        return
    if found.plan is None:
        assert found.status == "unknown"
        return
    formulation = DeviceFormulation(instance)
    values = [[o.value or 0.0 for o in result.objectives] for result in (found, best)]
    assert not formulation.precedes(*values)
    bound = found.objectives[0].bound
    assert bound is None or bound >= values[1][0] - 1e-9


def test_a_solver_that_knows_no_devices_refuses() -> None:
    """One that asks for classes, such as a plug-in would, names what to take instead."""

    class Plain(Solver[Any]):
        name, kinds = "plain", ("consolidation",)

        def solve(self, formulation: Any, options: SolveOptions, clock: Clock) -> Outcome:
            return Outcome(formulation.classes)

    with pytest.raises(OptionError, match="does not place single devices; take exact, best-fit or milp"):
        Plain().solve(DeviceFormulation(device_instance(0)), SolveOptions(), Clock())


def test_instances_without_devices_go_the_old_way() -> None:
    """To the method itself, with its name, features and options."""
    instance = placement(["value"], [server(gpu=2)], [job("a", 2)])
    result = clusterplan.solve(instance, solver="exact")
    assert "goals" in result.certificate
    methods = [solver.method for solver in CONSOLIDATION.solvers if isinstance(solver, AroundFixedJobs)]
    wrapped = [method for method in methods if isinstance(method, OnDevices)]
    assert {s.name for s in CONSOLIDATION.solvers} - {s.name for s in wrapped} == {"cp-sat"}
    for solver in wrapped:
        assert (solver.name, solver.features) == (solver.method.name, solver.method.features)
        assert solver.unavailable() is None
    with pytest.raises(OptionError, match="has no option 'x'"):
        clusterplan.solve(instance, solver="best-fit", options=SolveOptions(method_options={"x": 1}))


def test_jobs_that_must_be_placed_and_do_not_fit() -> None:
    """Three shares of 510 on two devices: enumeration and the compact model can tell, and all say why."""
    jobs = [sharing(name, 510, must_place=True) for name in "abc"]
    instance = placement(["value"], [gpus("n", 2)], jobs)
    for name in ("brute-force", "milp:highs"):
        assert clusterplan.solve(instance, solver=name).status == "infeasible"
    for name in ("best-fit", "first-fit-decreasing"):
        result = clusterplan.solve(instance, solver=name)
        assert result.status == "unknown"
        assert "which must be placed" in str(result.message)


@pytest.mark.parametrize("name", ["cp-sat", "exact"])
def test_what_is_won_and_lost_cancels_to_nothing(name: str) -> None:
    """Speeds of 1.2 and 0.8 for the same value; products of doubles would leave 1e-15 to be proven."""
    apart = [{"name": n, "tasks": 1, "demand": {}, "devices": {"gpu": 1}} for n in ("ps", "worker")]
    jobs = [
        # Both are fastest on two servers.
        {"name": "fast", "groups": apart, "value": 2, "speed_by_servers": {"1": 1.0, "2": 1.2}},
        {"name": "slow", "groups": apart, "value": 2, "speed_by_servers": {"1": 0.7, "2": 0.8}},
    ]
    instance = placement(["value", "slowdown"], [gpus("n", 2, 4, count=2)], jobs)
    result = clusterplan.solve(instance, solver=name)
    assert result.status == "optimal"
    assert (result.objectives[1].name, result.objectives[1].value) == ("slowdown", 0)


def test_quick_searches_name_devices() -> None:
    """The plan that refutes a claim of infeasibility is one on devices."""
    formulation = DeviceFormulation(device_instance(5))
    found = find_plan(formulation, 5.0)
    assert formulation.violations(found.plan) == []
    ((_, search),) = CONSOLIDATION.more_quick.items()
    plan = search(formulation, Clock())
    assert plan is None or not formulation.violations(plan)
