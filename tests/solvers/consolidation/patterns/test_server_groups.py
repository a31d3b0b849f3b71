"""Groups of servers on which nearly the same fits."""

from __future__ import annotations

import numpy as np
from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.consolidation.patterns.server_groups import server_groups


def test_servers_on_which_the_same_fits_come_together() -> None:
    """Six servers with 1 to 6 GPUs: what holds a task of four GPUs is apart from what does not."""
    jobs = [job("a", 1, {"gpu": 4}), job("b", 6)]
    servers = [server(f"n{gpus}", gpu=gpus) for gpus in range(1, 7)]
    classes = ConsolidationFormulation(placement(["value"], servers, jobs)).classes
    free = np.array([each.free[0] for each in classes.servers])
    held = np.column_stack([free // 4, free]).astype(float)
    groups = server_groups(classes, held, np.array([4.0, 1.0]), 2)
    assert sorted(sorted(free[group].tolist()) for group in groups) == [[1, 2, 3], [4, 5, 6]]
    assert sorted(n for group in server_groups(classes, held, np.array([4.0, 1.0]), 4) for n in group) == [
        *range(6)
    ]
    assert len(server_groups(classes, held, np.array([4.0, 1.0]), 4)) == 4


def test_pools_stay_apart_and_equal_servers_together() -> None:
    """One group of each pool at least; where nothing differs no more than that."""
    jobs = [job("a", 1, gpu_model="A100"), job("b", 1)]
    servers = [
        server(f"{model}-{gpus}", gpu=gpus) | {"gpu_model": model}
        for model in ("A100", "V100")
        for gpus in (2, 3)
    ]
    classes = ConsolidationFormulation(placement(["value"], servers, jobs)).classes
    same = np.ones((len(classes.servers), 1))
    groups = server_groups(classes, same, np.ones(1), 1)
    assert len(groups) == len({server.pool for server in classes.servers}) == 2
    assert len(server_groups(classes, same, np.ones(1), 4)) == 2
