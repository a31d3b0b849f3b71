"""One importer of Philly for both kinds: each has its own options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.philly_either import import_philly_either
from clusterplan.instances.scheduling.instance import SchedulingInstance


def imported(folder: Path, **options: Any) -> Any:
    """Return what becomes of one job."""
    file = folder / "philly.csv"
    file.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01 11:00:10,7200,1,7200,a\n")
    return import_philly_either(file, **options)


def test_the_kind_decides(tmp_path: Path) -> None:
    """Consolidation unless something else is asked for."""
    assert isinstance(imported(tmp_path, at="2017-10-01 12:00", servers=2), ConsolidationInstance)
    assert isinstance(imported(tmp_path, kind="scheduling", gpus=2), SchedulingInstance)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"at": "2017-10-01 12:00"}, "--servers is missing; --kind consolidation needs --at, --servers"),
        ({"kind": "scheduling"}, "--gpus is missing; --kind scheduling needs --gpus"),
        (
            {"kind": "scheduling", "gpus": 2, "servers": 3},
            "--servers goes with --kind consolidation only",
        ),
        (
            {"at": "2017-10-01 12:00", "servers": 2, "max_duration_s": 5.0},
            "--max-duration-s goes with --kind scheduling only",
        ),
    ],
)
def test_options_of_the_other_kind_are_refused(tmp_path: Path, options: dict[str, Any], fault: str) -> None:
    """And those that are missing are named."""
    with pytest.raises(OptionError) as caught:
        imported(tmp_path, **options)
    assert str(caught.value) == fault
