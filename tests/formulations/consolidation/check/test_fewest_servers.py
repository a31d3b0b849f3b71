"""The check's own m_j: equal to the fast one on random jobs and servers."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from clusterplan.formulations.consolidation.check.classes import fewest_again
from clusterplan.formulations.consolidation.fewest_servers import Shapes, fewest_servers
from clusterplan.instances.consolidation.instance import Server
from clusterplan.instances.consolidation.job import Group


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_both_agree(groups: int) -> None:
    """With one group of tasks and with several, in fractions and in integers."""
    rng = random.Random(groups)
    for _ in range(150):
        step = rng.choice([1, 0.1, 0.3])
        servers = [
            Server(name=f"n{n}", capacity={"gpu": rng.randint(0, 6) * step, "cpu": rng.randint(0, 6)})
            for n in range(rng.randint(1, 5))
        ]
        job = [
            Group(
                name=f"g{g}",
                tasks=rng.randint(1, 4),
                demand={"gpu": rng.randint(0, 3) * step, "cpu": rng.randint(0, 3)},
            )
            for g in range(groups)
        ]
        listed = Counter(tuple(sorted(server.capacity.items())) for server in servers)
        assert fewest_again(job, listed) == fewest_servers(job, Shapes(listed))


def test_servers_that_hold_most_come_first() -> None:
    """Seven tasks are four on the large server and three on one more."""
    servers = {(("gpu", 4.0),): 1, (("gpu", 3.0),): 2, (("gpu", 0.0),): 5}
    assert fewest_again([Group(tasks=7, demand={"gpu": 1})], servers) == 2
    assert fewest_again([Group(tasks=11, demand={"gpu": 1})], servers) is None


def test_too_much_work_is_refused() -> None:
    """The facade then says that m_j was not derived again."""
    job = [Group(name=f"g{g}", tasks=100, demand={"gpu": 1}) for g in range(3)]
    with pytest.raises(OverflowError):
        fewest_again(job, {(("gpu", 8.0),): 1000})


def test_servers_that_a_job_has_no_tasks_for_are_no_work() -> None:
    """Of a thousand million equal ones, four hold all tasks there are."""
    job = [Group(name=f"g{g}", tasks=2, demand={"gpu": 1}) for g in range(2)]
    assert fewest_again(job, {(("gpu", 1.0),): 10**9}) == 4
