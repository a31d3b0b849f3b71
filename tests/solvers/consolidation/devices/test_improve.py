"""The greedy plan and ruin and recreate.

From plans of the pooled relaxation to plans on devices.
"""

from __future__ import annotations

import random

import pytest
from device_instances import device_instance, gpus, placement, sharing

from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.devices.partial_placement import PartialPlacement
from clusterplan.solvers.consolidation.devices.ruin_and_recreate import (
    DevicePlacement,
    LocalObjectives,
    RuinAndRecreate,
    relative_prices,
    repaired_plan,
    task_sizes,
)
from clusterplan.solvers.consolidation.devices.shape_relaxation import Cluster, ShapeProgram
from clusterplan.solvers.consolidation.list_heuristics import LIST_HEURISTICS


def _planted(servers: int, seed: int) -> DeviceFormulation:
    """Return an instance whose shares fill four devices of each server."""
    choose, shares = random.Random(seed), list[int]()
    for _ in range(4 * servers):
        first = choose.randint(20, 60)
        second = choose.randint(10, 90 - first)
        shares += [10 * first, 10 * second, 1000 - 10 * (first + second)]
    choose.shuffle(shares)
    jobs = [sharing(f"j{n}", share, 1) for n, share in enumerate(shares)]
    return DeviceFormulation(placement(["value"], [gpus("n", 4, 99, count=servers)], jobs))


def test_ruin_and_recreate_fills_what_greedy_leaves() -> None:
    """Every round keeps the plan feasible and the value; the same seed gives the same plan."""
    found = []
    for _ in range(2):
        formulation = _planted(6, 3)
        placing = DevicePlacement(PartialPlacement(Cluster(formulation)), None, 1)
        placing.greedy(Clock())
        before = formulation.evaluate(placing.placement.plan())[0]
        ruin = RuinAndRecreate(placing)
        for _ in range(8):
            ruin.run(Clock(), lambda: False, 50)
            assert formulation.violations(placing.placement.plan()) == []
            value = formulation.evaluate(placing.placement.plan())[0]
            assert value >= before
        found.append(placing.placement.plan())
        assert value > 23.7
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(25))
def test_nothing_gets_worse(seed: int) -> None:
    """In the lexicographic order of all objectives, on instances of every sort."""
    formulation = DeviceFormulation(device_instance(seed, jobs=7))
    program = ShapeProgram(Cluster(formulation))
    relaxed = program.solve("value", {}, Clock())
    placing = DevicePlacement(PartialPlacement(program.cluster), relaxed, seed)
    placing.greedy(Clock())
    plan = placing.placement.plan()
    if formulation.violations(plan):
        return  # a job that must be placed was not
    before = formulation.evaluate(plan)
    RuinAndRecreate(placing).run(Clock(), lambda: False, 60)
    after = formulation.evaluate(placing.placement.plan())
    assert formulation.violations(placing.placement.plan()) == []
    assert not formulation.precedes(before, after)


@pytest.mark.parametrize("seed", range(25))
def test_local_values_are_those_of_the_plan(seed: int) -> None:
    """Over all jobs and servers, up to what no plan can change."""
    formulation = DeviceFormulation(device_instance(seed, jobs=7))
    placing = DevicePlacement(PartialPlacement(Cluster(formulation)), None, seed)
    placing.greedy(Clock())
    names = [objective.name for objective in formulation.objectives]
    values = dict(zip(names, formulation.evaluate(placing.placement.plan()), strict=True))
    values["value"] *= -1
    running = sum(sum(g.current.values()) for job in placing.jobs for g in job.task_groups)
    if "migrations" in values:
        values["migrations"] -= running
    found = LocalObjectives(placing).values(range(len(placing.jobs)), placing.everywhere)
    assert found == pytest.approx(tuple(values[name] for name in names))


def test_a_plan_is_loaded_as_it_is() -> None:
    """With the devices that it names; a plan of counts as far as devices hold it."""
    formulation = _planted(2, 0)
    placing = DevicePlacement(PartialPlacement(Cluster(formulation)), None, 0)
    placing.greedy(Clock())
    plan = placing.placement.plan()
    again = DevicePlacement(PartialPlacement(placing.cluster), None, 0)
    again.load(plan)
    assert again.placement.plan() == plan


def test_prices_are_relative_to_the_cheapest_shape() -> None:
    """Without a relaxation there are none; sizes grow with what is asked."""
    formulation = _planted(2, 0)
    program = ShapeProgram(Cluster(formulation))
    relaxed = program.solve("value", {}, Clock())
    assert relative_prices(None) is None
    found = relative_prices(relaxed)
    assert found is not None
    assert (found == 0).all()
    share = [kind.asks[0][1].share for kind in program.cluster.kinds]
    by_size = sorted(range(len(share)), key=task_sizes(program.cluster).__getitem__)
    assert by_size == sorted(range(len(share)), key=share.__getitem__)


@pytest.mark.parametrize("seed", range(40))
def test_what_comes_out_stands_on_devices(seed: int) -> None:
    """Only a job that must be placed may be missing."""
    formulation = DeviceFormulation(device_instance(seed, jobs=6))
    outcome = LIST_HEURISTICS[0].solve(formulation.pooled, SolveOptions(), Clock())
    if outcome.plan is not None:
        plan = repaired_plan(formulation, outcome.plan)
        broken = [str(fault) for fault in formulation.violations(plan)]
        assert all(fault.startswith("must_place") for fault in broken), broken


def test_what_devices_do_not_hold_goes_elsewhere() -> None:
    """Three shares of 600 on two devices are one too many; a third device has room."""
    jobs = [sharing(name, 600) for name in "abc"]
    formulation = DeviceFormulation(placement(["value"], [gpus("n", 2), gpus("m", 1)], jobs))
    plan = formulation.pooled.parse_plan([{"job": name, "servers": {"n": 1}} for name in "abc"])
    assert formulation.pooled.violations(plan) == []
    found = repaired_plan(formulation, plan)
    assert formulation.violations(found) == []
    assert sorted(server for entry in found for server in entry.servers) == ["m", "n", "n"]


def test_a_job_that_is_spread_too_far_is_placed_again() -> None:
    """Three shares of 600 fit the sum of one server, so that the relaxation has no rule; devices need two."""
    wide = sharing("j", 600, tasks=3, spread="required")
    formulation = DeviceFormulation(placement(["value"], [gpus("n", 2, count=3)], [wide]))
    plan = formulation.pooled.parse_plan([{"job": "j", "servers": {"n-0": 1, "n-1": 1, "n-2": 1}}])
    assert formulation.pooled.violations(plan) == []
    (entry,) = repaired_plan(formulation, plan)
    assert len(entry.servers) == 2
    assert formulation.violations([entry]) == []
