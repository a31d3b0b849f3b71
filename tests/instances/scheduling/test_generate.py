"""Synthetic traces ask for what they are told to."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.jobs import JobTable


def test_the_load_is_what_was_asked_for() -> None:
    """GPU-seconds over those until the last arrival, up to where the first and last fall."""
    table = generate_scheduling(4_000, 64, load=0.7, seed=5).table()
    asked = (table.total_demand[:, 0] * table.duration_s).sum()
    assert asked / (64 * table.arrival_s.max()) == pytest.approx(0.7, rel=0.01)


def test_the_same_seed_gives_the_same_trace() -> None:
    """And another one another."""
    assert generate_scheduling(50, 8, seed=1).sha256() == generate_scheduling(50, 8, seed=1).sha256()
    assert generate_scheduling(50, 8, seed=1).sha256() != generate_scheduling(50, 8, seed=2).sha256()


def test_no_job_is_larger_than_the_pool() -> None:
    """Sizes are cut to the pool, and jobs are held in columns."""
    made = generate_scheduling(500, 3)
    assert isinstance(made.jobs, JobTable)
    assert made.table().tasks.max() == 3


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"gpus": 0}, {"load": 0.0}])
def test_values_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    """With the option's name."""
    with pytest.raises(OptionError, match=next(iter(wrong))):
        generate_scheduling(**{"jobs": 1, "gpus": 1, **wrong})  # type: ignore[arg-type]


def test_malleable_jobs_are_the_rigid_ones_with_a_menu() -> None:
    """On what is requested each takes as long as the rigid one of the same draw."""
    rigid = generate_scheduling(40, 16, seed=5)
    malleable = generate_scheduling(40, 16, seed=5, malleable=True)
    assert np.allclose(malleable.table().duration_s, rigid.table().duration_s)
    assert np.array_equal(malleable.table().total_demand, rigid.table().total_demand)
    menus = malleable.menus()
    assert len(menus.malleable) == 40
    # More GPUs are faster, but each GPU does less.
    for j in range(40):
        own = slice(int(menus.first[j]), int(menus.first[j + 1]))
        assert (np.diff(menus.speed[own]) > 0).all()
        assert (np.diff(menus.speed[own] / menus.usage[own, 0]) < 0).all()
