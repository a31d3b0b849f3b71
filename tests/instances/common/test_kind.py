"""What a kind brings to the floor of instances, where it says nothing else.

Builders of all kinds: the instances that documents give, and faults when they are built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pandas as pd
import pytest
from sample_documents import CONSOLIDATION, STAGING

import clusterplan
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.kind import Builder, InstanceKind
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.references import Folder


class Toy(Instance):
    """An instance without anything."""

    kind: Literal["toy"] = "toy"


def test_a_kind_without_tables_leaves_its_document_as_it_is() -> None:
    """What is read goes to the validation, and nothing is saved in tables."""
    kind = InstanceKind(model=Toy, lists=(), tiny=lambda: Toy(name="t"))
    data = {"kind": "toy", "name": "t"}
    assert kind.resolved(data, "doc", Folder(Path())) is data
    assert kind.tables is None
    assert kind.tiny() == Toy(name="t")


def test_a_staging_is_that_of_its_document() -> None:
    others = {key: STAGING[key] for key in ("throughput_floor_samples_per_s",)}
    builder = clusterplan.Staging("s", samples=1000, probe_batch=4, **others)
    builder.add_type("A", 1, limit=4).add_types(pd.DataFrame([STAGING["types"][1]]))
    builder.add_layer("l0", {"A": 1, "B": 0.5}, compute_parallel=0.9)
    builder.add_layer("l1", compute_parallel=0.9, a_ms=2000, b_us=300_000)
    assert builder.build().sha256() == parse_instance(STAGING).sha256()


def test_a_consolidation_is_that_of_its_document() -> None:
    fields = {
        k: v for k, v in CONSOLIDATION.items() if k not in ("schema_version", "kind", "servers", "jobs")
    }
    built = clusterplan.Consolidation(**fields).add_servers(CONSOLIDATION["servers"])
    assert built.add_jobs(CONSOLIDATION["jobs"]).build().sha256() == parse_instance(CONSOLIDATION).sha256()
    small = clusterplan.Consolidation().add_server("n", {"gpu": 8}, count=2, gpu_model="A100")
    instance = small.add_job("j", 2, {"gpu": 4}, gpu_model="A100").build()
    assert len(instance.expanded_servers) == 2
    assert instance.jobs[0].worth == 8


def test_a_builder_goes_on_after_it_has_built() -> None:
    builder = clusterplan.Allocation(gpu=2).add_job("a", {1: 1.0}, 10)
    first = builder.build()
    second = builder.add_job("b", {1: 1.0}, 10).build()
    assert [len(instance.jobs) for instance in (first, second)] == [1, 2]


def test_throughput_is_added_as_a_table() -> None:
    """Beside other jobs, with what is assumed of it."""
    frame = pd.DataFrame({"job": ["x", "x"], "gpus": [1, 2], "samples_per_s": [3.0, 5.0]})
    built = clusterplan.Allocation(gpu=2).add_job("a", {1: 1.0}, 10).add_jobs(frame).build()
    assert [job.name for job in built.jobs] == ["a", "x"]
    assert any("an hour of work" in note for note in built.assumptions)


def test_what_is_wrong_is_said_when_it_is_built() -> None:
    """All of it, with the place where it would stand in a document."""
    builder = clusterplan.Allocation("mine", gpu=-1).add_job("a", {}, 0)
    with pytest.raises(clusterplan.InstanceError) as caught:
        builder.build()
    said = str(caught.value)
    assert "mine: resources.gpu: is -1" in said
    assert "jobs[0].remaining_steps: is 0" in said
    assert "speed.rows: has 0 entries" in said


def test_what_is_built_can_be_solved_at_once() -> None:
    builder = clusterplan.Allocation(gpu=3).add_job("a", {1: 1.0, 2: 2.0}, 10).add_job("b", {1: 1.0}, 10)
    assert isinstance(builder, Builder)
    assert clusterplan.solve(builder, time_limit_s=30).objective == pytest.approx(5 + 10)
