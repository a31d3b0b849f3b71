"""The order of all servers, of which only what has changed is looked at again."""

from __future__ import annotations

import random

import pytest
from device_instances import device_instance

from clusterplan.formulations.consolidation.device_formulation import DeviceFormulation
from clusterplan.solvers.consolidation.devices import ranking
from clusterplan.solvers.consolidation.devices.board import Board, Taste
from clusterplan.solvers.consolidation.devices.cluster import Cluster
from clusterplan.solvers.consolidation.devices.ranking import Ranking


@pytest.mark.parametrize("most", [1, 16])
@pytest.mark.parametrize("seed", range(30))
def test_it_is_the_best_of_all(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes and goes between, with few orders that are remembered and with many."""
    monkeypatch.setattr(ranking, "MOST_HEAPS", most)
    cluster, choose = Cluster(DeviceFormulation(device_instance(seed, jobs=6))), random.Random(seed)
    board, everywhere = Board(cluster), range(len(cluster.servers))
    taste = Taste(fresh=choose.choice((0.0, 3.0)))
    found = Ranking(board, taste, None)
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
    for job in document["jobs"]:
        job.pop("current", None)
    formulation = DeviceFormulation(type(device_instance(2)).model_validate(document))
    board = Board(Cluster(formulation))
    holding = [k for k, row in enumerate(board.hosts) if any(row)]
    assert holding
    assert all(Ranking(board, Taste(), None).best(k) == 0 for k in holding)
