"""What is left while tasks come and go."""

from __future__ import annotations

import random

import pytest
from device_instances import device_instance

from clusterplan.formulations.consolidation.device_formulation import DeviceFormulation
from clusterplan.solvers.consolidation.devices.board import Board, Taste
from clusterplan.solvers.consolidation.devices.cluster import Cluster


def _state(board: Board) -> list[object]:
    banks = [
        [(d, bank.mode, bank.used, bank.free, bank.spare) for d, bank in banks.items()]
        for banks in board.banks
    ]
    return [banks, board.left, board.holds, board.on, board.jobs]


@pytest.mark.parametrize("seed", range(40))
def test_what_is_taken_is_given_back(seed: int) -> None:
    """Jobs come and go at random; all along the plan is feasible, and at the end nothing is missing."""
    formulation = DeviceFormulation(device_instance(seed, jobs=6))
    cluster, choose = Cluster(formulation), random.Random(seed)
    board, fresh = Board(cluster), Board(cluster)
    everywhere = range(len(cluster.servers))
    for _ in range(30):
        position = choose.randrange(len(cluster.groups_of))
        if position not in board.jobs:
            most = formulation.fewest(formulation.instance.jobs[position])
            board.place(position, lambda k: board.best(k, everywhere, Taste()), Taste(), None, most or 0)
        elif choose.random() < 0.5:
            board.remove(position)
        else:
            board.restore(position, board.remove(position))
        broken = [str(fault) for fault in formulation.violations(board.plan())]
        assert all(fault.startswith("must_place") for fault in broken), broken
    for position in list(board.jobs):
        board.remove(position)
    assert _state(board) == _state(fresh)
