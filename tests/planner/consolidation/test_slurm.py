"""Options of sbatch for each job."""

from __future__ import annotations

import pytest
from placements import job, placement, server

from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.common.errors import InstanceError
from clusterplan.planner.consolidation.slurm import are_shares, slurm_lines, slurm_notes

INSTANCE = placement(
    ["value"],
    [{**server(gpu=4, cpu=4), "count": 3}],
    [job("even", 4), job("un even", 3), job("cpus", 2, {"cpu": 1})],
)


def lines(entry: JobPlacement) -> str:
    """Return the line of one job."""
    (line,) = slurm_lines(INSTANCE, [entry])
    return line


def test_as_many_tasks_on_each_node() -> None:
    """Nodes are compressed, and each gets its GPUs."""
    line = lines(JobPlacement(job="even", servers={"n-0": 2, "n-1": 2}))
    assert line == ("even '--nodelist=n-[0-1]' --nodes=2 --ntasks=4 --ntasks-per-node=2 --gres=gpu:2")


def test_other_distributions_name_a_node_for_each_task() -> None:
    """One --gres cannot say that the nodes differ; a note does."""
    entry = JobPlacement(job="un even", servers={"n-0": 2, "n-1": 1})
    line = lines(entry)
    assert line == "'un even' --nodelist=n-0,n-0,n-1 --ntasks=3 --distribution=arbitrary"
    (note,) = slurm_notes(INSTANCE, [entry])
    assert "n-0 2, n-1 1" in note


def test_tasks_without_gpus_ask_for_none() -> None:
    """And nothing has to be said about them."""
    entry = JobPlacement(job="cpus", servers={"n-2": 2})
    assert "gres" not in lines(entry)
    assert list(slurm_notes(INSTANCE, [entry])) == []
    assert not are_shares(INSTANCE)


def test_a_server_that_cannot_be_a_node_is_refused() -> None:
    """With its name."""
    with pytest.raises(InstanceError, match="two words"):
        lines(JobPlacement(job="even", servers={"two words": 4}))
