"""What jobs of allocation have beside columns of numbers: their workload, and the servers where they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from allocation_instances import ring

from clusterplan.instances.allocation.instance import AllocationInstance, jobs_in
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.documents import load, save
from clusterplan.instances.files.columns import Columns

WORKLOAD = {"resource": "pytorchjobs.kubeflow.org", "namespace": "team", "name": "bert"}
PARTS = {"workers": "Worker", "ps": "Master"}


def instance(where: dict[str, Any] | None = None, **fields: Any) -> AllocationInstance:
    """Return an instance of one job, which may run on servers."""
    now = {"current": {"variant": "v", "workers": 1, "placement": where}} if where else {}
    job = {"name": "bert", "remaining_steps": 9, "variants": [ring({"gpu": 1}, [1, 0, 0, 0], 2)]}
    servers = [{"name": "s", "count": 2, "capacity": {"gpu": 2}}]
    return AllocationInstance.model_validate(
        {"name": "one", "servers": servers, "jobs": [job | now | fields]}, strict=False
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"where": {"s-0": {"workers": 1}}}, {"where": {"s-1": {"workers": 1}}}),
        ({}, {"workload": {**WORKLOAD, "parts": PARTS}}),
    ],
)
def test_what_no_column_holds_counts_in_the_hash_and_is_kept_out_of_tables(
    one: dict[str, Any], other: dict[str, Any], tmp_path: Path
) -> None:
    """Saved and read again it is the same instance."""
    made = instance(**other)
    assert instance(**one).sha256() != made.sha256()
    with pytest.raises(OptionError, match="no columns for the workloads"):
        save(made, tmp_path / "one.yaml", "csv")
    save(made, tmp_path / "one.yaml")
    assert load(tmp_path / "one.yaml").sha256() == made.sha256()


def test_a_row_with_a_workload_is_read_as_an_object() -> None:
    """Other rows of a table are read in columns."""
    pa = pytest.importorskip("pyarrow")
    row = {"name": "bert", "remaining_steps": 9.0, "workload.name": "bert"}
    table = pa.Table.from_pylist([row, row | {"name": "plain", "workload.name": None}])
    jobs = jobs_in(Columns(table, "jobs", typed=True))
    assert jobs["workload"].tolist() == [True, False]
    assert jobs.wrong[0]
