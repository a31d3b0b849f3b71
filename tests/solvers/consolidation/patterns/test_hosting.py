"""Task shapes that can use the slots of others."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from clusterplan.formulations.consolidation.classes import TaskShape
from clusterplan.solvers.consolidation.patterns.hosting import hosting, hosts

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
