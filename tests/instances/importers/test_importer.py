"""An importer is a function of the fields of its options."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.fields import Name, PositiveCount
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers import IMPORTERS
from clusterplan.instances.importers.importer import Importer, ImportOptions, Option, option_of


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
