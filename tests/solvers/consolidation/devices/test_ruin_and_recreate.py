"""Placement on devices: residual capacities, greedy placement, ruin and recreate, and repair."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from device_instances import device_instance, gpus, job, placement, server, sharing

from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.instances.common.hardware import GEOMETRIES
from clusterplan.instances.consolidation.devices import Device, DeviceDemand, DeviceSlot
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.devices import partial_placement
from clusterplan.solvers.consolidation.devices.partial_placement import (
    DevicePool,
    PartialPlacement,
    ScoreWeights,
    ServerRanking,
)
from clusterplan.solvers.consolidation.devices.ruin_and_recreate import (
    DevicePlacement,
    RuinAndRecreate,
    relative_prices,
    repaired_plan,
    task_sizes,
)
from clusterplan.solvers.consolidation.devices.shape_relaxation import Cluster, ShapeProgram
from clusterplan.solvers.consolidation.list_heuristics import LIST_HEURISTICS


def _state(board: PartialPlacement) -> list[object]:
    banks = [
        [(d, bank.mode, bank.used, bank.free, bank.spare) for d, bank in banks.items()]
        for banks in board.device_pools
    ]
    return [banks, board.left, board.holds, board.on, board.jobs]


@pytest.mark.parametrize("seed", range(40))
def test_what_is_taken_is_given_back(seed: int) -> None:
    """Jobs come and go at random; all along the plan is feasible, and at the end nothing is missing."""
    formulation = DeviceFormulation(device_instance(seed, jobs=6))
    cluster, choose = Cluster(formulation), random.Random(seed)
    board, fresh = PartialPlacement(cluster), PartialPlacement(cluster)
    everywhere = range(len(cluster.servers))
    for _ in range(30):
        position = choose.randrange(len(cluster.groups_of))
        if position not in board.jobs:
            most = formulation.fewest(formulation.instance.jobs[position])
            board.place(
                position, lambda k: board.best(k, everywhere, ScoreWeights()), ScoreWeights(), most or 0
            )
        elif choose.random() < 0.5:
            board.remove(position)
        else:
            board.restore(position, board.remove(position))
        broken = [str(fault) for fault in formulation.violations(board.plan())]
        assert all(fault.startswith("must_place") for fault in broken), broken
    for position in list(board.jobs):
        board.remove(position)
    assert _state(board) == _state(fresh)


A100 = GEOMETRIES["a100-40"]


def test_the_fullest_device_is_taken() -> None:
    """Shares go on the shared device that they fill best; whole devices stay free as long as they can."""
    bank = DevicePool([Device("shared", 300), Device("shared", 500), Device()], None)
    assert bank.choose(DeviceDemand(share=400)) == (1,)
    assert bank.gap(DeviceDemand(share=400)) == pytest.approx(0.1)
    assert bank.choose(DeviceDemand(share=600)) == (0,)
    assert bank.choose(DeviceDemand(share=800)) == (2,)
    assert bank.gap(DeviceDemand(whole=2)) is None
    bank.allocate(DeviceDemand(whole=1), bank.choose(DeviceDemand(whole=1)))
    assert bank.gap(DeviceDemand(share=800)) is None
    assert (bank.free, bank.spare) == (0, 1200)


def test_partitions_go_behind_first() -> None:
    """Slot 6 is of use to few; a device that is partitioned already comes before a free one."""
    bank = DevicePool([Device(), Device("parted", 0b1)], A100)
    small, large = DeviceDemand(profile="1g.5gb"), DeviceDemand(profile="4g.20gb")
    assert bank.choose(small) == DeviceSlot(device=1, slot=6)
    assert bank.choose(large) == DeviceSlot(device=0, slot=0)
    assert bank.gap(DeviceDemand(profile="no such")) is None
    held = bank.choose(large)
    bank.allocate(large, held)
    assert bank.mode[0] != "free"
    bank.release(large, held)
    assert (bank.free, bank.used[0]) == (1, 0)


def test_a_device_of_others_is_never_free() -> None:
    """What they hold stays when a share goes."""
    bank = DevicePool([Device("shared", 300)], None)
    bank.allocate(DeviceDemand(share=200), (0,))
    bank.release(DeviceDemand(share=200), (0,))
    assert (bank.used, bank.free, bank.spare) == ([300], 0, 700)


@pytest.mark.parametrize("most", [1, 16])
@pytest.mark.parametrize("seed", range(30))
def test_it_is_the_best_of_all(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes and goes between, with few orders that are remembered and with many."""
    monkeypatch.setattr(partial_placement, "MAX_HEAPS", most)
    cluster, choose = Cluster(DeviceFormulation(device_instance(seed, jobs=6))), random.Random(seed)
    board, everywhere = PartialPlacement(cluster), range(len(cluster.servers))
    taste = ScoreWeights(fresh=choose.choice((0.0, 3.0)))
    found = ServerRanking(board, taste)
    for _ in range(40):
        k = choose.randrange(len(cluster.kinds))
        assert found.best(k) == board.best(k, everywhere, taste)
        position = choose.randrange(len(cluster.groups_of))
        if position in board.jobs:
            board.remove(position)
        else:
            board.place(position, found.best, taste)
    assert len(found.heaps) <= most


def test_the_first_of_equal_servers_is_taken() -> None:
    """So that nothing depends on the order of look-ups."""
    document = device_instance(2).document()
    document["servers"] = [{**document["servers"][0], "name": f"n{n}"} for n in range(3)]
    for row in document["jobs"]:
        row.pop("current", None)
    formulation = DeviceFormulation(type(device_instance(2)).model_validate(document))
    board = PartialPlacement(Cluster(formulation))
    holding = [k for k, row in enumerate(board.hosts) if any(row)]
    assert holding
    assert all(ServerRanking(board, ScoreWeights()).best(k) == 0 for k in holding)


INTEGERS = placement(
    ["value"],
    [gpus("a", 2, count=2), gpus("b", 1, gpu_model="B"), server("c", cpu=1.2)],
    [
        job("w", 1, {"cpu": 1.5}, devices={"gpu": 2}),
        sharing("s", 460, 0.25, tasks=2),
        sharing("t", 460, 0.25, tasks=2),
        sharing("b", 460, 0.25, gpu_model=["B", "C"]),
        job("n", 1, {"cpu": 0}),
    ],
)


def test_kinds_shapes_and_classes() -> None:
    """Amounts are multiples of their common unit; what a server never holds is known from the start."""
    cluster = Cluster(DeviceFormulation(INTEGERS))
    assert cluster.units == [Fraction(1, 4)]
    assert [(shape.server.name, shape.members, shape.free) for shape in cluster.shapes] == [
        ("a-0", (0, 1), (32,)),
        ("b", (2,), (32,)),
        ("c", (3,), (4,)),
    ]
    assert [(kind.need, kind.asks) for kind in cluster.kinds] == [
        ((6,), ((0, DeviceDemand(whole=2)),)),
        ((1,), ((0, DeviceDemand(share=460)),)),
        ((1,), ((0, DeviceDemand(share=460)),)),
        ((0,), ()),
    ]
    assert cluster.hosts.tolist() == [
        [True, False, False],
        [True, True, False],
        [False, True, False],
        [True, True, True],
    ]
    assert [(alike.members, alike.groups) for alike in cluster.classes] == [
        ((0,), ((0, 1),)),
        ((1, 2), ((1, 2),)),
        ((3,), ((2, 1),)),
        ((4,), ((3, 1),)),
    ]


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
        placing = DevicePlacement(Cluster(formulation), None, 1)
        placing.greedy(Clock())
        before = formulation.evaluate(placing.placement.plan())[0]
        ruin = RuinAndRecreate(placing)
        for _ in range(8):
            ruin.run(Clock(), 50)
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
    placing = DevicePlacement(program.cluster, relaxed, seed)
    placing.greedy(Clock())
    plan = placing.placement.plan()
    if formulation.violations(plan):
        return  # a job that must be placed was not
    before = formulation.evaluate(plan)
    RuinAndRecreate(placing).run(Clock(), 60)
    after = formulation.evaluate(placing.placement.plan())
    assert formulation.violations(placing.placement.plan()) == []
    assert not formulation.precedes(before, after)


@pytest.mark.parametrize("seed", range(25))
def test_local_values_are_those_of_the_plan(seed: int) -> None:
    """Over all jobs and servers, up to what no plan can change."""
    formulation = DeviceFormulation(device_instance(seed, jobs=7))
    placing = DevicePlacement(Cluster(formulation), None, seed)
    placing.greedy(Clock())
    names = [objective.name for objective in formulation.objectives]
    values = dict(zip(names, formulation.evaluate(placing.placement.plan()), strict=True))
    values["value"] *= -1
    running = sum(sum(g.current.values()) for job in placing.jobs for g in job.task_groups)
    if "migrations" in values:
        values["migrations"] -= running
    found = placing.local_values(range(len(placing.jobs)), placing.everywhere)
    assert found == pytest.approx(tuple(values[name] for name in names))


def test_a_plan_is_loaded_as_it_is() -> None:
    """With the devices that it names; a plan of counts as far as devices hold it."""
    formulation = _planted(2, 0)
    placing = DevicePlacement(Cluster(formulation), None, 0)
    placing.greedy(Clock())
    plan = placing.placement.plan()
    again = DevicePlacement(placing.cluster, None, 0)
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
