"""The bundled examples and hardware catalogues load, and say where their figures come from."""

from __future__ import annotations

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
def test_example_loads_and_is_named_after_its_file(name: str) -> None:
    """An example can be loaded by the name that it has itself."""
    assert load(f"example:{name}").name == name


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_names_its_source(name: str) -> None:
    """An example says which paper or repository its figures come from, or that they are synthetic."""
    source = load(f"example:{name}").source
    assert source
    assert any(word in source for word in ("arXiv", "commit", "EuroSys", "NSDI", "SYNTHETIC"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_lists_its_assumptions(name: str) -> None:
    """An example lists what is not published, each item a sentence with a full stop."""
    assumptions = load(f"example:{name}").assumptions
    assert assumptions
    assert all(text[0].isupper() or text[0].isdigit() for text in assumptions)
    assert all(text.endswith(".") for text in assumptions)


def test_at_least_two_examples_of_each_kind() -> None:
    """Every kind of decision has two worked examples or more."""
    kinds = Counter(load(f"example:{name}").kind for name in EXAMPLES)
    assert {kind: kinds[kind] >= 2 for kind in KINDS} == dict.fromkeys(KINDS, True)


@pytest.mark.parametrize("name", CATALOGUES)
def test_catalogue_loads_with_source_and_prices(name: str) -> None:
    """A catalogue names its source, and every machine has a price and says what it consists of."""
    catalogue = load_catalogue(f"catalogue:{name}")
    assert catalogue.name == name
    assert catalogue.source
    assert all(machine.price_usd_per_hour > 0 for machine in catalogue.types)
    assert all(machine.vcpus > 0 and machine.memory_gib > 0 for machine in catalogue.types)


@pytest.mark.parametrize("name", CATALOGUES)
def test_every_gpu_machine_has_the_memory_of_its_gpus(name: str) -> None:
    """A machine with GPUs names their model and memory, so that stages on it can be checked."""
    machines = [machine for machine in load_catalogue(f"catalogue:{name}").types if machine.gpus]
    assert machines
    assert all(machine.gpu_model and machine.unit_memory_gib() > 0 for machine in machines)


def test_there_are_two_catalogues() -> None:
    """The prices of a public cloud and those of the HeterPS paper are bundled."""
    assert {"aws-us-east-1", "heterps"} <= set(CATALOGUES)


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
