"""Classes of devices, and partial placements on them."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from device_instances import device_instance, gpus, job, placement, server, sharing

from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.instances.common.hardware import GEOMETRIES
from clusterplan.instances.consolidation.devices import Device, DeviceDemand, DeviceSlot
from clusterplan.solvers.consolidation.devices import partial_placement
from clusterplan.solvers.consolidation.devices.partial_placement import (
    DevicePool,
    PartialPlacement,
    ScoreWeights,
    ServerRanking,
)
from clusterplan.solvers.consolidation.devices.shape_relaxation import Cluster


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
                position, lambda k: board.best(k, everywhere, ScoreWeights()), ScoreWeights(), None, most or 0
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
    assert bank.mode[0] != 0
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
    found = ServerRanking(board, taste, None)
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
    assert all(ServerRanking(board, ScoreWeights(), None).best(k) == 0 for k in holding)


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
