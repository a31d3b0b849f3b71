"""`exact` with single devices: the linear programme by shape, its prices, and the search that they guide."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
from device_instances import device_instance, gpus, job, placement, server, sharing

import clusterplan
from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.common.hardware import GEOMETRIES
from clusterplan.instances.consolidation.devices import WHOLE, Device, DeviceDemand
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
from clusterplan.solvers.consolidation.devices.shape_relaxation import (
    Cluster,
    ShapeProgram,
    best_pattern,
    priced_demand,
)
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
    certificate: dict[str, Any] = {}
    assert price_objective(program, 2, None, certificate, Clock()) is None
    assert price_objective(program, 1, (1.0, 0.0, 0.0), certificate, Clock()) is None
    assert certificate == {}
    assert price_objective(program, 0, None, certificate, Clock()) is not None
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


A100 = GEOMETRIES["a100-40"]


def _formulation(asked: list[dict[str, Any]], servers: int = 4, **devices: Any) -> DeviceFormulation:
    jobs = [job(f"j{n}", 1, {"cpu": 1}, **fields) for n, fields in enumerate(asked)]
    return DeviceFormulation(placement(["value", "servers"], [gpus("n", 1, count=servers, **devices)], jobs))


def test_patterns_beat_the_sum_of_the_devices() -> None:
    """Of 600 thousandths each of four devices holds one; their sum would hold six."""
    formulation = _formulation([{"share": {"gpu": 600}}] * 9)
    program = ShapeProgram(Cluster(formulation))
    relaxed = program.solve("value", {}, Clock())
    assert relaxed.value == pytest.approx(-2.4)
    assert formulation.elementary_bounds()[0] == pytest.approx(4.0)
    assert formulation.certified_bounds({"devices": [relaxed.goal]})[0] == 2.4
    servers = program.solve("servers", {"value": -1.8}, Clock())
    assert servers.value == pytest.approx(3.0)
    certificate = {"devices": [relaxed.goal, servers.goal]}
    assert formulation.certified_bounds(certificate, (2.4, 4.0))[:2] == (2.4, 4.0)


def test_patterns_mix_shares_by_column_generation() -> None:
    """Two devices hold 500 + 300 + 200 each: only patterns of one sort would waste some."""
    jobs = [{"share": {"gpu": share}} for share in (500, 300, 200) * 2]
    relaxed = ShapeProgram(Cluster(_formulation(jobs, servers=2))).solve("value", {}, Clock())
    assert relaxed.value == pytest.approx(-2.0)


def test_partitions_have_patterns_too() -> None:
    """Five of 3g.20gb on two devices: two each."""
    jobs = [{"profile": {"gpu": "3g.20gb"}, "value": 1}] * 5
    program = ShapeProgram(Cluster(_formulation(jobs, servers=2, geometry="a100-40")))
    relaxed = program.solve("value", {}, Clock())
    assert relaxed.value == pytest.approx(-4.0)


@pytest.mark.parametrize("seed", range(40))
def test_the_check_derives_the_value_of_the_programme(seed: int) -> None:
    """The prices of any instance prove what the programme claims, and no less than the best plan has."""
    instance = device_instance(seed)
    formulation = DeviceFormulation(instance)
    relaxed = ShapeProgram(Cluster(formulation)).solve("value", {}, Clock())
    if relaxed is None:  # jobs that must be placed cannot all be
        assert any(each.must_place for each in instance.jobs)
        return
    proven = formulation.certified_bounds({"devices": [relaxed.goal]})[0]
    assert proven <= -relaxed.value + 1e-6
    best = clusterplan.solve(instance, solver="best-fit").objectives
    assert not best or best[0].value is None or proven >= best[0].value


@pytest.mark.parametrize("seed", range(30))
def test_the_best_pattern(seed: int) -> None:
    """Against every multiset of shares that fits."""
    choose = random.Random(seed)
    prices = {DeviceDemand(share=s): choose.random() for s in choose.sample((110, 250, 340, 410, 500), 3)}
    state = choose.choice((Device(), Device("shared", 230)))
    room = WHOLE - state.used
    counts = itertools.product(*(range(room // ask.share + 1) for ask in prices))
    held = [dict(zip(prices, count, strict=True)) for count in counts]
    best = max(
        math.fsum(n * prices[ask] for ask, n in each.items())
        for each in held
        if sum(ask.share * n for ask, n in each.items()) <= room
    )
    found = best_pattern(state, {**prices, DeviceDemand(whole=1): 0.1}, None)
    assert math.fsum(n * prices[ask] for ask, n in found) == pytest.approx(best)
    assert sum(ask.share * n for ask, n in found) <= room


def test_the_best_partitions() -> None:
    """4g.20gb in front and 3g.20gb behind; with slot 0 taken only the latter, and small ones."""
    pairs = (("1g.5gb", 1.0), ("3g.20gb", 3.5), ("4g.20gb", 4.5))
    prices = {DeviceDemand(profile=profile): worth for profile, worth in pairs}
    assert dict(best_pattern(Device(), prices, A100)) == {
        DeviceDemand(profile="3g.20gb"): 1,
        DeviceDemand(profile="4g.20gb"): 1,
    }
    found = dict(best_pattern(Device("parted", 1), prices, A100))
    assert found == {DeviceDemand(profile="1g.5gb"): 3, DeviceDemand(profile="3g.20gb"): 1}
    assert best_pattern(Device(), prices, None) == ()
    assert priced_demand(DeviceDemand(whole=3)) == DeviceDemand(whole=1)


def test_no_time_gives_no_prices() -> None:
    """Rather than wrong ones."""
    program = ShapeProgram(Cluster(_formulation([{"share": {"gpu": 600}}])))
    assert program.solve("value", {}, Clock(0.0)) is None
