"""Groups of servers on which nearly the same fits.

Task shapes that can use the slots of others.
"""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from placements import job, placement, server

from clusterplan.formulations.consolidation.classes import TaskShape
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.consolidation.patterns.master import hosting, hosts, server_groups


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


MODELS = st.sampled_from([None, "A100", "V100", ("A100", "V100")])
DEMAND = st.tuples(st.integers(0, 2), st.integers(0, 2))
SHAPES = st.lists(
    st.builds(
        TaskShape,
        st.lists(DEMAND, min_size=1, max_size=2).map(tuple),
        MODELS,
        st.sampled_from([None, None, 3]),
    ),
    max_size=8,
    unique=True,
)


@given(SHAPES)
def test_all_pairs_are_compared_as_each_is(shapes: list[TaskShape]) -> None:
    """Residents neither host nor are hosted."""
    pairs = {
        (k, other)
        for k, other in itertools.product(range(len(shapes)), repeat=2)
        if shapes[k].current is None and shapes[other].current is None and hosts(shapes[k], shapes[other])
    }
    assert set(hosting(shapes)) == pairs


def test_a_slot_serves_tasks_that_ask_for_no_more() -> None:
    """A task that may use any model asks for less than one that needs a certain one."""
    large, small = TaskShape(((2, 2),), "A100"), TaskShape(((2, 1),), None)
    assert hosts(large, small)
    assert not hosts(small, large)
    assert not hosts(TaskShape(((2, 2),), None), TaskShape(((2, 1),), "A100"))
    assert hosts(TaskShape(((2, 2),), "A100"), TaskShape(((2, 1),), ("A100", "V100")))
    assert not hosts(TaskShape(((2, 2),), ("A100", "V100")), TaskShape(((2, 1),), "A100"))
