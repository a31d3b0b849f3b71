"""Tables of jobs that become a job table, and those that are read row by row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from clusterplan.instances.allocation.job_table import JobTable
from clusterplan.instances.allocation.read_table import read_allocation
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.files.columns import Columns

HEAD = {"schema_version": 1, "kind": "allocation", "name": "d", "resources": {"gpu": 4}}
CELLS = {
    "name": ["a", "b"],
    "remaining_steps": ["5", "6"],
    "variants.0.name": ["v", "v"],
    "variants.0.worker_demand.gpu": ["1", "1"],
    "variants.0.speed.model": ["table", "table"],
    "variants.0.speed.rows.0.workers": ["1", "2"],
    "variants.0.speed.rows.0.steps_per_s": ["2", "3"],
}


def read(**cells: Any) -> Any:
    """Return what the table with some columns changed becomes."""
    return read_allocation(Columns(pa.table(CELLS | cells), "t", typed=False), HEAD, "doc")


def test_a_fine_table_becomes_columns() -> None:
    """No row becomes an object."""
    instance = read()
    assert isinstance(instance.jobs, JobTable)
    assert instance.jobs.row_steps_per_s.tolist() == [2, 3]


def test_faults_name_the_row_of_the_whole_table() -> None:
    """Types of cells, rules between fields, and resources that there are not."""
    for cells, line in (
        ({"weight": [None, "-1"]}, "doc: jobs[1].weight: is -1.0, but must be at least 0"),
        ({"unplaced_s": [None, "1"]}, "doc: jobs[1].unplaced_s: is set, but the job is not optional"),
        (
            {"variants.0.worker_demand.tpu": [None, "1"]},
            "doc: jobs[1].variants[0].worker_demand.tpu: unknown",
        ),
        ({"name": ["a", "a"]}, "doc: jobs[1].name: 'a' is already used by jobs[0]"),
    ):
        with pytest.raises(InstanceError) as refused:
            read(**cells)
        assert str(refused.value).startswith(line)
        assert len(refused.value.faults) == 1


def test_measurements_are_left_to_the_reader_of_rows() -> None:
    """They have to be fitted first."""
    assert read(**{"loss.measurements": ["a.csv", None]}) is None
    assert read(**{"loss.measurements": pa.array([None, None], pa.string())}) is not None
