"""The bundled examples and hardware catalogues load, and say where their figures come from."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from clusterplan.instances import catalogues, examples
from clusterplan.instances.documents import load, load_catalogue
from clusterplan.instances.registry import KINDS
from clusterplan.instances.staging.instance import StagingInstance

EXAMPLES = sorted(path.stem for path in Path(examples.__path__[0]).glob("*.yaml"))
CATALOGUES = sorted(path.stem for path in Path(catalogues.__path__[0]).glob("*.yaml"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_say_where_their_figures_come_from(name: str) -> None:
    """Which paper or repository, or that they are synthetic, and in sentences what is not published."""
    example = load(f"example:{name}")
    assert example.name == name
    assert any(word in str(example.source) for word in ("arXiv", "commit", "EuroSys", "NSDI", "SYNTHETIC"))
    assert example.assumptions
    assert all(re.match(r"[A-Z0-9].*\.$", text, re.DOTALL) for text in example.assumptions)


def test_at_least_two_examples_of_each_kind() -> None:
    """Every kind of decision has two worked examples or more."""
    kinds = Counter(load(f"example:{name}").kind for name in EXAMPLES)
    assert {kind: kinds[kind] >= 2 for kind in KINDS} == dict.fromkeys(KINDS, True)


@pytest.mark.parametrize("name", CATALOGUES)
def test_catalogue_loads_with_source_and_prices(name: str) -> None:
    """A catalogue names its source; every machine has a price and what it consists of, its GPUs too."""
    catalogue = load_catalogue(f"catalogue:{name}")
    assert catalogue.name == name
    assert catalogue.source
    assert all(machine.price_usd_per_hour > 0 for machine in catalogue.types)
    assert all(machine.vcpus > 0 and machine.memory_gib > 0 for machine in catalogue.types)
    machines = [machine for machine in catalogue.types if machine.gpus]
    assert machines
    assert all(machine.gpu_model and machine.unit_memory_gib() > 0 for machine in machines)


def test_heterps_example_takes_prices_from_the_catalogue() -> None:
    """A type that names its hardware has the price and memory of the catalogue."""
    instance = load("example:heterps-ctr")
    assert isinstance(instance, StagingInstance)
    machines = {machine.name: machine for machine in load_catalogue("catalogue:heterps").types}
    assert [kind.price_usd_per_hour for kind in instance.types] == [0.04, 2.42]
    for kind in instance.types:
        assert kind.hardware is not None
        assert kind.memory_gib == machines[kind.hardware].unit_memory_gib()


def test_layers_from_a_table_are_read_by_type() -> None:
    """Columns such as compute_s.A100-40 of the table become one number for each type."""
    instance = load("example:opt-350-three-gpus")
    assert isinstance(instance, StagingInstance)
    names = {kind.name for kind in instance.types}
    assert len(instance.layers) == 26
    assert all(set(layer.compute_s) == set(layer.communication_s) == names for layer in instance.layers)
