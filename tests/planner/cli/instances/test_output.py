"""How commands write an instance."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.documents import load
from clusterplan.instances.files.tables import MANY_ROWS
from clusterplan.planner.cli.instances.output import emit


def test_a_small_instance_goes_to_stdout_or_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was assumed stands on stderr, beside the name of the file."""
    instance = generate_allocation(2, 2, seed=1)
    emit(instance, None)
    assert capsys.readouterr().out.startswith("schema_version: 1\nkind: allocation\n")
    emit(instance.model_copy(update={"assumptions": ("so",)}), tmp_path / "x.yaml")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("  assumed: so\n")
    assert load(tmp_path / "x.yaml").name == instance.name


def test_a_table_needs_a_file_beside_it() -> None:
    """One that is asked for, and one that so many jobs want."""
    with pytest.raises(OptionError, match="--table needs --output FILE"):
        emit(generate_allocation(2, 2), None, "csv")
    with pytest.raises(OptionError, match="give --output FILE"):
        emit(generate_allocation(MANY_ROWS, 1), None)
