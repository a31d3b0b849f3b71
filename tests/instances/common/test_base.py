"""The base model of instances, registration of kinds, arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pandas as pd
import pytest
from sample_documents import CONSOLIDATION, STAGING

import clusterplan
from clusterplan.instances.common.base import MAX_ROWS, Instance, card, figure, percent, scale_figures
from clusterplan.instances.common.kind import Builder, InstanceKind
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.references import Folder


def test_pointers_name_one_figure_or_all() -> None:
    document = {"a": [{"b/c": 2.0, "d": 3}, {"b/c": 4.0}], "e": True}
    assert not list(scale_figures(document, "/a/*/b~1c", 0.5))
    assert not list(scale_figures(document, "/a/0/d", 2.0))
    assert document == {"a": [{"b/c": 1.0, "d": 6.0}, {"b/c": 2.0}], "e": True}


@pytest.mark.parametrize(
    ("pointer", "what"),
    [
        ("a", "no pointer"),
        ("", "no pointer"),
        ("/a/7", "names no figure"),
        ("/f", "names no figure"),
        ("/e", "names bool"),
        ("/a/x", "names no figure"),
        ("/a/0", "names dict"),
        ("/e/0", "names no figure"),
    ],
)
def test_pointers_that_name_no_figure(pointer: str, what: str) -> None:
    ((place, said),) = scale_figures({"a": [{"b": 2.0}], "e": True}, pointer, 2.0)
    assert place == pointer
    assert what in said


def _uncertain(**one: object) -> clusterplan.Instance:
    return clusterplan.parse_instance({**STAGING, "uncertainty": [one]})


def test_ends_have_other_figures_and_no_intervals() -> None:
    plain = clusterplan.parse_instance(STAGING)
    assert "uncertainty" not in plain.document()
    instance = _uncertain(figure="/layers/*/compute_s/*", low=0.5, high=2)
    ends = instance.at_ends()
    assert list(ends) == ["low", "middle", "high"]
    assert ends["middle"].sha256() == plain.sha256() != instance.sha256()
    for name, factor in (("low", 0.5), ("high", 2.0)):
        for layer, before in zip(ends[name].layers, plain.layers, strict=True):
            assert layer.compute_s == {k: pytest.approx(factor * v) for k, v in before.compute_s.items()}


def test_what_is_wrong_names_the_interval() -> None:
    with pytest.raises(clusterplan.InstanceError, match=r"uncertainty\[0\].figure: '/layer' names no figure"):
        _uncertain(figure="/layer", low=1, high=1).at_ends()
    with pytest.raises(clusterplan.InstanceError, match=r"uncertainty\[0\].low"):
        _uncertain(figure="/layers", low=0, high=1)
    with pytest.raises(clusterplan.OptionError, match="has no intervals"):
        clusterplan.parse_instance(STAGING).at_ends()


def test_figures() -> None:
    """Seven digits, a share in per cent, a dash for what is unknown."""
    assert [figure(1234567.89), figure(0.5), figure(None)] == ["1,234,568", "0.5", "–"]
    assert [percent(0.12345), percent(None)] == ["12.3 %", "–"]


def test_everything_is_escaped_and_many_rows_are_counted() -> None:
    """Names come from files that nobody vouches for."""
    made = card("<b>", ["a & b", ""], ("<th>", "n"), [("<i>", "1")] * (MAX_ROWS + 3))
    assert "&lt;b&gt;" in made
    assert "a &amp; b" in made
    assert made.count("&lt;i&gt;") == MAX_ROWS
    assert "… and 3 more" in made
    assert "<b>" not in made
    assert "<i>" not in made


def test_without_rows_there_is_no_table() -> None:
    """The heading alone."""
    assert card("t", []) == "<div><strong>t</strong></div>"


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
