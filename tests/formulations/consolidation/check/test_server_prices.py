"""What servers are paid: the table of sums and the search agree."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.check import server_prices
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.check.knapsack import Effort
from clusterplan.formulations.consolidation.check.server_prices import ServerPrices, closure
from clusterplan.instances.consolidation.instance import ConsolidationInstance


def test_closure_splits_pieces() -> None:
    """What a piece is paid is at least what its parts are."""
    slots = np.array([[1], [2], [3]])
    assert closure(slots, slots, np.array([2, 3, 4])).tolist() == [2, 4, 6]
    assert closure(slots, slots, np.array([0, 3, 4])).tolist() == [0, 3, 4]


@pytest.mark.parametrize("block", range(8))
def test_the_table_and_the_search_agree(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At random prices of single tasks, of pieces, and of residents that may stay."""
    for seed in range(25 * block, 25 * block + 25):
        instance = random_consolidation(seed)
        assert isinstance(instance, ConsolidationInstance)
        classes, draw = CheckedCluster.of(instance).classes, random.Random(seed)
        prices = [np.array([draw.randint(0, 10**6) for _ in pieces]) for pieces in classes.pieces]
        for pool in classes.pools:
            listed = ServerPrices(classes, pool, prices, effort=Effort(10_000))
            with monkeypatch.context() as patch:
                patch.setattr(server_prices, "MOST_MERGED", -1)
                searched = ServerPrices(classes, pool, prices, effort=Effort(10_000))
            assert listed.table is not None
            assert searched.table is None or not any((gain > 0).any() for _, gain in searched.groups)
            for server in classes.servers:
                if server.pool == pool:
                    paid = [each.most(server.free, server.residents) for each in (listed, searched)]
                    assert paid[0] == paid[1], seed
