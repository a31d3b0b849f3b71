"""Every method on instances with devices, against enumeration."""

from __future__ import annotations

from typing import Any

import pytest
from device_instances import device_instance
from placements import job, placement, server

import clusterplan
from clusterplan.formulations.consolidation.device_formulation import DeviceFormulation
from clusterplan.instances.common.errors import OptionError
from clusterplan.solvers.common.base import Clock, Outcome, Solver
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.consolidation.around_fixed_jobs import AroundFixedJobs
from clusterplan.solvers.consolidation.devices.dispatch import OnDevices
from clusterplan.solvers.consolidation.kind import CONSOLIDATION
from clusterplan.solvers.quick import find_plan

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
    assert result.certificate is not None
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
    """Two shares of 600 on one device: only enumeration and the compact model can tell, and all say why."""
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "too much",
        "servers": [{"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 1}}}],
        "jobs": [
            {"name": n, "tasks": 1, "task_demand": {}, "share": {"gpu": 510}, "must_place": True}
            for n in "ab"
        ],
    }
    document["servers"][0]["devices"]["gpu"]["count"] = 2  # type: ignore[index]
    document["jobs"].append({**document["jobs"][0], "name": "c"})  # type: ignore[attr-defined, index, dict-item]
    instance = clusterplan.parse_instance(document)
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
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "cancel",
        "objectives": ["value", "slowdown"],
        "servers": [
            {"name": n, "capacity": {"cpu": 4}, "devices": {"gpu": {"count": 2}}} for n in ("n0", "n1")
        ],
        "jobs": [
            # Both are fastest on two servers.
            {"name": "fast", "groups": apart, "value": 2, "speed_by_servers": {"1": 1.0, "2": 1.2}},
            {"name": "slow", "groups": apart, "value": 2, "speed_by_servers": {"1": 0.7, "2": 0.8}},
        ],
    }
    result = clusterplan.solve(clusterplan.parse_instance(document), solver=name)
    assert result.status == "optimal"
    assert (result.objectives[1].name, result.objectives[1].value) == ("slowdown", 0)


def test_quick_searches_name_devices() -> None:
    """The plan that refutes a claim of infeasibility is one on devices."""
    formulation = DeviceFormulation(device_instance(5))
    found = find_plan(formulation, 5.0)
    assert found is not None
    assert formulation.violations(found.plan) == []
    ((_, search),) = CONSOLIDATION.more_quick.items()
    plan = search(formulation, Clock())
    assert plan is None or not formulation.violations(plan)
