"""The algebraic model on SCIP allows exactly what the check allows, and agrees with brute force."""

from __future__ import annotations

from typing import Any

import pytest
import random_instances
from allocation_instances import allocation, measured, ring
from random_instances import random_allocation

import clusterplan
from clusterplan.formulations.allocation.formulation import AllocationFormulation, monomials
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.common.speed import PsAsync, PsSync, RingAllreduce
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver

pytest.importorskip("pyscipopt")


@pytest.fixture(autouse=True)
def _formulas_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every random variant have a formula."""
    monkeypatch.setattr(random_instances, "SPEED_MODELS", ("ps_sync", "ps_async", "ring_allreduce"))


def one_job(resources: dict[str, float], **job: Any) -> AllocationInstance:
    """Return one job whose completion time is 60 s divided by its workers."""
    variant = ring(dict.fromkeys(resources, 0.1), [6, 0, 0, 0], 9)
    return allocation(resources, [{"name": "j", "remaining_steps": 10, "variants": [variant], **job}])


def test_every_plan_is_a_solution_of_equal_value() -> None:
    """Feasible plans, put into the model, satisfy it and have the value that the plan has."""
    from clusterplan.solvers.allocation.minlp import AlgebraicModel

    checked = 0
    for seed in range(60):
        formulation = AllocationFormulation(random_allocation(seed))
        if formulation.elementary_infeasibility() is not None:
            continue
        configs = formulation.configurations
        for place in range(4):
            plan = formulation.plan_of(
                [configs.of(j)[place % len(configs.of(j))] for j in range(configs.jobs)]
            )
            if formulation.violations(plan):
                continue
            algebra, value = AlgebraicModel(formulation), formulation.evaluate(plan)[0]
            algebra.model.setParam("numerics/feastol", 1e-9)
            solution = algebra.model.createSol()
            for variable, number in algebra.encode(plan, value):
                algebra.model.setSolVal(solution, variable, number)
            assert algebra.model.checkSol(solution), seed
            found = algebra.model.getSolObjVal(solution) * algebra.scale
            assert found == pytest.approx(value, rel=1e-9, abs=1e-12), seed
            checked += 1
    assert checked > 60


@pytest.mark.parametrize(("p", "w"), [(1, 1), (2, 3), (7, 4)])
def test_monomials_are_the_formulas(p: int, w: int) -> None:
    """The sum of monomials is the time of a step; terms with coefficient 0 are left out."""
    for speed in (
        PsSync(model="ps_sync", theta=(1, 2, 3, 4, 5), batch=8),
        PsSync(model="ps_sync", theta=(0, 0, 3, 0, 0), batch=8),
        PsAsync(model="ps_async", theta=(1, 2, 3, 4)),
        RingAllreduce(model="ring_allreduce", theta=(1, 2, 3, 9), batch=8),
    ):
        terms = monomials(speed)
        assert all(term.coefficient for term in terms)
        total = sum(term.coefficient * p**term.ps * w**term.workers for term in terms)
        assert total == pytest.approx(float(speed.step_time_s(p, w)), rel=1e-14)


def test_a_limit_that_is_a_rounding_short_is_kept() -> None:
    """A capacity of 1 − 0.9 holds a worker of 0.1, as the check has it; one of 0.0999 does not."""
    result = clusterplan.solve(one_job({"gpu": 1 - 0.9}), "minlp")
    assert (result.status, result.objective) == ("optimal", 60)
    assert clusterplan.solve(one_job({"gpu": 0.3}), "minlp").objective == 20
    assert clusterplan.solve(one_job({"gpu": 0.0999}), "minlp").status == "infeasible"


def test_a_deadline_is_kept_to_the_last_digit() -> None:
    """Three workers take 20 s: a deadline of 20 s allows them, one a microsecond earlier does not."""
    assert clusterplan.solve(one_job({"gpu": 0.3}, deadline_s=20.0), "minlp").objective == 20
    unplaced = {"optional": True, "unplaced_s": 99}
    late = clusterplan.solve(one_job({"gpu": 0.3}, deadline_s=20 - 1e-6, **unplaced), "minlp")
    assert (late.status, late.objective) == ("optimal", 99)
    punctual = clusterplan.solve(one_job({"gpu": 0.3}, deadline_s=20 - 1e-9, **unplaced), "minlp")
    assert (punctual.status, punctual.objective) == ("optimal", 20)


def test_leaving_the_current_configuration_costs_a_restart() -> None:
    """Two workers stay two where a third saves 10 s and a restart costs 11, and not where it costs 9."""
    current = {"variant": "v", "workers": 2}
    assert clusterplan.solve(one_job({"gpu": 0.3}, current=current, restart_s=11), "minlp").objective == 30
    assert clusterplan.solve(one_job({"gpu": 0.3}, current=current, restart_s=9), "minlp").objective == 29


def test_tables_are_refused_by_name() -> None:
    """The message names job and variant, and the methods that take tables."""
    with pytest.raises(OptionError, match="'v0' of job 'j' has a table; 'exact', 'milp' and 'cp-sat'"):
        clusterplan.solve(allocation({"gpu": 3}, [measured("j", (1, {"gpu": 1}))]), "minlp")


def test_jobs_that_do_not_fit_together_are_infeasible() -> None:
    """What counting does not see SCIP proves: one job for the GPUs, one for the CPUs, and a third."""
    variant = one_job({"gpu": 1}).document()["jobs"][0]["variants"][0]
    variants = [{**variant, "name": r, "worker_demand": {r: 2}} for r in ("gpu", "cpu")]
    document = one_job({"gpu": 3, "cpu": 3}, variants=variants).document()
    for names, status in (("ab", "optimal"), ("abc", "infeasible")):
        document["jobs"] = [{**document["jobs"][0], "name": name} for name in names]
        instance = AllocationInstance.model_validate(document)
        assert AllocationFormulation(instance).elementary_infeasibility() is None
        assert clusterplan.solve(instance, "minlp").status == status


def test_a_time_limit_is_kept_and_said() -> None:
    """At half a second a hard instance ends in time with an honest bound, and with the plan it was given."""
    instance = generate_allocation(150, 4, tightness=0.97, seed=3)
    first = clusterplan.solve(instance, "marginal-gain")
    assert first.objective is not None
    start = tuple(entry.model_dump() for entry in first.plan)
    result = clusterplan.solve(instance, "minlp", SolveOptions(time_limit_s=0.5, warm_start=start))
    assert (result.status, result.limit) == ("feasible", "time")
    assert result.runtime_s < 15  # a busy machine takes several times as long
    assert result.bound < result.objective <= first.objective


def test_settings_reach_scip() -> None:
    """A node limit is reported as such, and a setting that SCIP does not know is refused."""
    instance = generate_allocation(40, 3, tightness=0.9, seed=3)
    one_node = SolveOptions(backend_options={"limits/totalnodes": 1})
    assert clusterplan.solve(instance, "minlp", one_node).limit == "node"
    with pytest.raises(OptionError, match="SCIP does not accept the option 'no such thing'"):
        clusterplan.solve(instance, "minlp", SolveOptions(backend_options={"no such thing": 1}))
    assert find_solver("minlp", "allocation").proves
