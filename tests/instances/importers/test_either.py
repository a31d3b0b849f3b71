"""One importer for several kinds: each has its own options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers import import_philly_either
from clusterplan.instances.importers.either import either
from clusterplan.instances.importers.importer import option_of
from clusterplan.instances.importers.philly import import_philly
from clusterplan.instances.importers.traces.philly import import_philly_trace
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


def test_options_say_with_which_kind_they_go() -> None:
    """Those that all kinds require stand first; the others may be left out, and say their own default."""
    made = either("Jobs.", {"consolidation": import_philly, "scheduling": import_philly_trace})
    fields = made.options.in_order()
    assert list(fields)[:2] == ["jobs", "kind"]
    assert [name for name, field in fields.items() if field.is_required()] == ["jobs"]
    assert option_of(fields["gpus_per_server"]).help == (
        "With --kind consolidation: GPUs of each server. [default: 8]"
    )
    assert option_of(fields["first"]).help == "With --kind scheduling: only so many jobs, by submission."
