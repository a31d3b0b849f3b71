"""The commands that make instances."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml
from typer.testing import CliRunner

from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.base import Instance
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.instances.staging.generate_ctr import generate_ctr
from clusterplan.planner.cli.instances.generate import generators

CASES = [
    (
        "allocation --jobs 3 --resources 2 --tightness 0.3 --optional-share 0.5 --seed 4",
        lambda: generate_allocation(3, 2, 0.3, 0.5, 4),
    ),
    ("allocation --jobs 3 --spare 2", lambda: generate_allocation(3, spare=2)),
    (
        "staging --layers 4 --types 2 --limits tight --memory --transfers --seed 5",
        lambda: generate_staging(4, 2, "tight", True, True, 5),
    ),
    ("ctr --layers 4 --seed 2 --floor 5000", lambda: generate_ctr(4, 2, 5000.0)),
    (
        "consolidation --servers 4 --jobs 5 --resources 3 --shapes 2 --rack-size 2 --must-place-share 0.2",
        lambda: generate_consolidation(4, 5, resources=3, shapes=2, rack_size=2, must_place_share=0.2),
    ),
]


@pytest.mark.parametrize(("words", "made"), CASES, ids=[words for words, _ in CASES])
def test_the_options_are_those_of_the_generator(words: str, made: Callable[[], Instance]) -> None:
    """The command prints what the function returns."""
    done = CliRunner().invoke(generators, words.split())
    assert done.exit_code == 0
    assert parse_instance(yaml.safe_load(done.stdout)).sha256() == made().sha256()


def test_numbers_out_of_range_are_refused() -> None:
    """Before anything is made."""
    done = CliRunner().invoke(generators, ["allocation", "--jobs", "0"])
    assert done.exit_code == 2
