"""A limit that was hit is reported as such, and nothing that is not proven is called optimal."""

from __future__ import annotations

import pytest

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.result import SolveOptions, parse_options
from clusterplan.solvers.registry import solvers_for

HARD: dict[str, Instance] = {
    "allocation": generate_allocation(200, 4, tightness=0.97, seed=3),
    "staging": generate_staging(16, 4, "tight", seed=2),
    "consolidation": generate_consolidation(64, 80, 8, load=1.2, seed=1),
}
PROVERS = [
    pytest.param(k, s.name, marks=[] if s.name in ("exact", "milp:highs") else [pytest.mark.slow])
    for k in HARD
    for s in solvers_for(k, available=True)
    if s.proves
]


@pytest.mark.parametrize(("kind", "name"), PROVERS)
def test_a_hard_instance_at_one_second_is_honest(kind: str, name: str) -> None:
    """At one second a plan is feasible with limit `time`, or there is none; optimal needs a closed gap."""
    instance = HARD[kind]
    result = clusterplan.solve(instance, name, SolveOptions(time_limit_s=1, threads=1))
    assert result.status in ("optimal", "feasible", "unknown"), result.message
    proven = all(record.proven for record in result.objectives)
    if result.status == "optimal":
        assert proven
        assert all(record.gap is not None and record.gap <= 1e-6 for record in result.objectives)
    else:
        assert result.limit == "time"
        assert not proven
    check = verify(instance, result)
    assert check.ok, check.faults
    for objective, record in zip(formulate(instance).objectives, result.objectives, strict=True):
        if record.value is not None and record.bound is not None:
            assert not objective.better(record.value, record.bound)


def test_some_hard_instance_does_hit_the_limit() -> None:
    """The instances above are hard enough to be stopped."""
    for kind, name in (
        ("staging", "milp:cbc"),
        ("consolidation", "milp:highs"),
        ("allocation", "brute-force"),
    ):
        result = clusterplan.solve(HARD[kind], name, SolveOptions(time_limit_s=0.5, threads=1))
        assert (result.limit, result.status in ("feasible", "unknown")) == ("time", True)


def test_options_that_would_be_ignored_are_refused() -> None:
    """A method that cannot honour an option says so."""
    instance = generate_allocation(2, 2, seed=1)
    with pytest.raises(OptionError, match="memory limit"):
        clusterplan.solve(instance, "milp:cbc", SolveOptions(memory_limit_gib=1))
    with pytest.raises(OptionError, match="warm start"):
        clusterplan.solve(instance, "brute-force", SolveOptions(warm_start=()))
    with pytest.raises(OptionError, match="no option 'speed'; its options: stop_at_first_misfit"):
        clusterplan.solve(instance, "marginal-gain", SolveOptions(method_options={"speed": 1}))
    with pytest.raises(OptionError, match="must be a bool"):
        clusterplan.solve(instance, "marginal-gain", SolveOptions(method_options={"stop_at_first_misfit": 1}))
    with pytest.raises(OptionError, match="unknown key"):
        parse_options({"time_limt_s": 3})
    for name in ("milp:highs", "milp:scip", "cp-sat", "milp:cbc"):
        if name in {s.name for s in solvers_for("allocation", available=True)}:
            with pytest.raises(OptionError, match="option"):
                clusterplan.solve(instance, name, SolveOptions(backend_options={"no such thing": 3}))


@pytest.mark.parametrize("kind", HARD)
def test_a_warm_start_is_used_and_never_lost(kind: str) -> None:
    """Started from a plan, every backend that takes one returns a plan at least as good."""
    instance = {
        "allocation": generate_allocation(10, 2, 0.7, seed=5),
        "staging": generate_staging(4, 2, "loose", seed=5),
        "consolidation": generate_consolidation(4, 8, 4, seed=5),
    }[kind]
    heuristic = {"allocation": "marginal-gain", "staging": "greedy", "consolidation": "best-fit"}[kind]
    first = clusterplan.solve(instance, heuristic)
    start = tuple(entry.model_dump() for entry in first.plan)
    objective = formulate(instance).objectives[0]
    for solver in solvers_for(kind, available=True):
        if "warm_start" in solver.features and solver.proves:
            result = clusterplan.solve(instance, solver.name, SolveOptions(warm_start=start))
            assert result.status == "optimal", (solver.name, result.message)
            assert not objective.better(first.objectives[0].value or 0.0, result.objectives[0].value or 0.0)


def test_a_warm_start_that_is_no_plan_is_refused() -> None:
    """A malformed start is named before anything is solved."""
    instance = generate_staging(3, 2, "tight", seed=1)
    with pytest.raises(OptionError, match="not a plan"):
        clusterplan.solve(instance, "auto", SolveOptions(warm_start=({"layer": 1},)))


@pytest.mark.parametrize("solver", ["exact", "auto", "milp:highs", "cp-sat"])
def test_the_plan_of_an_instance_that_has_changed_since_is_a_warm_start(solver: str) -> None:
    """Completion times that its entries state are those of before; what follows is computed anew."""
    before = clusterplan.load("example:optimus-testbed")
    plan = clusterplan.solve(before).plan
    document = before.model_dump(mode="json", exclude_none=True)
    document["jobs"][0]["remaining_steps"] *= 1.1
    changed = clusterplan.parse_instance(document)
    result = clusterplan.solve(changed, solver, SolveOptions(warm_start=plan))
    assert result.status == "optimal"
    assert clusterplan.verify(changed, result).ok
    short = clusterplan.solve(changed, "exact", SolveOptions(warm_start=plan, time_limit_s=1e-6))
    assert clusterplan.verify(changed, short).ok


def test_a_plan_that_does_not_fit_a_changed_instance_is_left_out_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The warning names the first constraint, and how many others there are; the answer is the same."""
    before = clusterplan.load("example:optimus-testbed")
    halves = {name: amount / 2 for name, amount in before.resources.items()}
    changed = before.replace(resources=halves)
    result = clusterplan.solve(changed, "exact", warm_start=clusterplan.solve(before))
    assert "is left out; the first constraint that it breaks: capacity of cpu" in caplog.text
    assert ", and 2 more" in caplog.text
    assert result.objectives == clusterplan.solve(changed, "exact").objectives
