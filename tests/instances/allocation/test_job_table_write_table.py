"""Job tables as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.job_table import write_jobs
from clusterplan.instances.files.tables import read_table


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_every_job_is_a_row(tmp_path: Path, ending: str) -> None:
    """Columns that hold nothing but defaults are left out."""
    table = generate_allocation(20, 2, seed=1).table()
    write_jobs(table, tmp_path / f"t.{ending}")
    rows = read_table(tmp_path / f"t.{ending}", "t")
    assert [row["name"] for row in rows] == list(table.names)
    assert [float(row["remaining_steps"]) for row in rows] == table.remaining_steps.tolist()
    assert [len(row["variants"]) for row in rows] == [len(job.variants) for job in table]
    assert not any({"optional", "deadline_s", "current"} & set(row) for row in rows)
