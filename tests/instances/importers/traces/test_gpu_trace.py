"""Jobs of traces that ask for GPUs."""

from __future__ import annotations

from clusterplan.instances.importers.traces.gpu_trace import ASSUMED, gpu_row, gpu_trace


def test_a_job_is_a_gang_of_one_task_for_each_gpu() -> None:
    """And what is assumed of all jobs stands behind what is assumed of these."""
    rows = [gpu_row("a", 3.0, 2, 5.0, tenant="x")]
    found = gpu_trace("t", "s", {"resources": {"gpu": 4}}, rows, ["Something."], "f")
    assert found.table().total_demand.tolist() == [[2]]
    assert found.assumptions == ("Something.", *ASSUMED)
