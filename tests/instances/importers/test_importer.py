"""An importer is a function of the fields of its options.

One importer for several kinds: each has its own options.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import pytest

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.common.fields import Name, PositiveCount
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers import IMPORTERS, import_philly_either
from clusterplan.instances.importers.importer import Importer, ImportOptions, Option, either, option_of
from clusterplan.instances.importers.traces.philly import import_philly, import_philly_trace
from clusterplan.instances.scheduling.instance import SchedulingInstance


class ToyOptions(ImportOptions):
    """A toy."""

    ORDER = ("file", "jobs")

    jobs: Annotated[PositiveCount, Option("How many jobs.")]
    names: Annotated[dict[Name, PositiveCount], Option("Names.")] = {}
    seed: Annotated[PositiveCount | None, Option("A seed.")] = 7
    file: Annotated[Path, Option("A file.", argument="file")]


SEEN: list[ToyOptions] = []


@Importer
def import_toy(options: ToyOptions) -> ConsolidationInstance:
    """Return a toy."""
    SEEN.append(options)
    return generate_consolidation(2, options.jobs, 4, seed=1)


def test_it_is_called_as_its_fields_are() -> None:
    """By position in the stated order, or by name; the defaults are those of the fields."""
    assert str(inspect.signature(import_toy)) == "(file, jobs, names={}, seed=7)"
    assert len(import_toy(Path("f"), 3).jobs) == 3
    import_toy(jobs=3, file=Path("f"), names=None, seed=None)
    assert (SEEN[-2].seed, SEEN[-2].file) == (7, Path("f"))
    assert (SEEN[-1].seed, SEEN[-1].names) == (None, {})
    with pytest.raises(TypeError, match="colour"):
        import_toy(Path("f"), 3, colour="red")


def test_wrong_options_are_faults() -> None:
    """They are named as the arguments are."""
    with pytest.raises(InstanceError, match=r"^options: jobs: is 0, but must be at least 1$"):
        import_toy(Path("f"), 0)


def test_its_documentation_is_made_of_its_options() -> None:
    """The help stands once."""
    assert str(import_toy.__doc__).startswith("Return a toy.")
    assert "    jobs\n        How many jobs." in str(import_toy.__doc__)


@pytest.mark.parametrize("name", IMPORTERS)
def test_every_importer_says_what_its_options_are_for(name: str) -> None:
    """Each field has one sentence of help, and the model the help of the command."""
    options = IMPORTERS[name].options
    assert options.__doc__
    assert all(option_of(field).help for field in options.in_order().values())
    assert set(options.in_order()) == set(options.model_fields)


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
