"""Mix instances: what they refuse, names of configurations, prices of a catalogue."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from random_instances import random_mix
from sample_documents import MIX, faults, is_kept, refused

from clusterplan.instances.common.hardware import HardwareCatalogue
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.mix.instance import Configuration, MixInstance
from clusterplan.instances.mix.kind import Mix

REQUESTS = [{"name": "a", "requests_per_s": 2}, {"name": "b", "requests_per_s": 1}]


def serving() -> Mix:
    """Return a builder of two types of requests."""
    return Mix("s").add_requests("a", 2).add_requests("b", 1).add_hardware("g", 3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["types"][0].pop("count"), "types[0].count: is missing; jobs have count"),
        (
            lambda d: d["types"][1].update(requests_per_s=1),
            "types[1].requests_per_s: is given; jobs have count",
        ),
        (lambda d: d["types"][0].update(names=["x"]), "types[0].names: are 1; count has to be as many"),
        (lambda d: d["types"][1].update(name="a"), "types[1].name: 'a' is already used"),
        (lambda d: d["hardware"][0].update(name="devices"), "have 'devices' in common"),
        (
            lambda d: d["configurations"][0].update(hardware="h"),
            "configurations[0].hardware: unknown hardware",
        ),
        (
            lambda d: d["configurations"][1]["progress"].pop("b"),
            "configurations[1].progress: has no 'b'; jobs and progress have the same types",
        ),
        (lambda d: d["configurations"][0].update(jobs={}), "configurations[0].jobs: is missing"),
        (
            lambda d: d["configurations"][0].update(requests_per_s={"a": 1}),
            "configurations[0].requests_per_s: is given; jobs have",
        ),
        (lambda d: d.update(configurations=[]), "configurations: is missing; say what may run together"),
        (lambda d: d.update(budget_usd_per_hour=1), "hardware[0].price_usd_per_hour: of 'g' is missing"),
    ],
)
def test_faults_of_jobs(change: Callable[[dict[str, Any]], Any], says: str) -> None:
    """One for each, with its place."""
    document = copy.deepcopy(MIX)
    change(document)
    assert any(says in line for line in faults(lambda: parse_instance(document)))


@pytest.mark.parametrize("key", ["must_run", "least_progress", "share_up_to", "overhead"])
def test_requests_have_no_fields_of_jobs(key: str) -> None:
    """Each is named."""
    value = {"least_progress": 0.5, "overhead": {2: 1.5}}.get(key, 1 if key == "share_up_to" else True)
    document = {**serving().add_replica("g", {"a": 2, "b": 1}).build().document(), key: value}
    with refused(f"{key}: is for jobs, and the types are of requests"):
        parse_instance(document)


def test_more_copies_than_a_plan_can_state_are_refused() -> None:
    """Two types that one configuration serves, whose copies are too many together."""
    mix = Mix().add_requests("a", 6e8).add_requests("b", 6e8).add_hardware("g", 2.0)
    with refused("configurations[0].requests_per_s: would take 1,000,000,000 copies or more"):
        mix.add_replica("g", {"a": 1, "b": 1}).build()


def test_configurations_are_named_after_what_runs() -> None:
    """And where."""
    built = serving().add_replica("g", {"a": 2, "b": 1}, devices=2).add_replica("g", {"b": 2}).build()
    assert [one.name for one in built.configurations] == ["a + b on 2 g", "b on g"]
    assert Configuration(hardware="g", jobs={"a": 2, "b": 1}, progress={}).name == "2 × a + b on g"
    group = Mix("j").add_jobs("a", 1).add_hardware("g").add_group("g", {"a": 0.5}).build()
    assert (group.serves, group.configurations[0].jobs) == (False, {"a": 1})
    assert len(group.to_frame()) == 1


def test_a_catalogue_has_the_price_of_a_device() -> None:
    """Of a machine with eight it is an eighth."""
    machine = {"name": "m", "price_usd_per_hour": 24, "vcpus": 1, "memory_gib": 1, "gpus": 8}
    catalogue = HardwareCatalogue(name="c", source="s", date="2026-01-01", types=[machine])
    fields = {"catalogue": catalogue, "types": REQUESTS, "hardware": [{"name": "g", "hardware": "m"}]}
    found = MixInstance(
        name="x", configurations=[{"hardware": "g", "requests_per_s": {"a": 1, "b": 1}}], **fields
    )
    assert found.hardware[0].price_usd_per_hour == 3


@pytest.mark.parametrize("seed", range(20))
def test_instances_survive_their_documents(seed: int) -> None:
    """As YAML and as JSON."""
    assert is_kept(random_mix(seed))
