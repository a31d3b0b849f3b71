"""Stages of graphs as the check enumerates them, and one topological order."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from staging_instances import GraphTruth, diamond, diamond_rows, random_graph

from clusterplan.formulations.staging.check import certificate, graph_stages
from clusterplan.formulations.staging.check.certificate import proves_no_faster_plan
from clusterplan.formulations.staging.check.graph_stages import (
    GroupOrder,
    derive_graph,
    derive_graph_segments,
    derive_ideals,
)
from clusterplan.formulations.staging.formulation import GraphFormulation
from clusterplan.formulations.staging.graph_stages import graph_table
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.staging.instance import StagingInstance
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.run import solve_with


@pytest.mark.parametrize(("limit", "best"), [(1, 7.0), (2, 5.0), (3, 4.0), (4, 4.0)])
def test_what_devices_allow(limit: int, best: float) -> None:
    """A plan as fast as the best is not refuted, and any faster one is."""
    assert not proves_no_faster_plan(diamond(limit), best)
    assert proves_no_faster_plan(diamond(limit), best * (1 - 1e-9))


@pytest.mark.parametrize("units", range(1, 6))
def test_a_stage_takes_as_few_units_as_suffice(units: int) -> None:
    """One layer of 12 s that units share evenly: all units there are allow just that, and no less."""
    rows = [{"name": "a", "compute_s": {"gpu": 12.0}, "compute_parallel": 1}]
    instance = diamond(units, layers=rows, edges=[], most_units_per_stage=None)
    assert not proves_no_faster_plan(instance, 12 / units)
    assert proves_no_faster_plan(instance, 12 / units * (1 - 1e-9))


@pytest.mark.parametrize("seed", range(40))
def test_what_is_refuted_is_what_no_plan_reaches(seed: int) -> None:
    """Of random graphs that only units and memory restrict, beside all their plans."""
    money = ("cost_limit_usd", "hourly_budget_usd", "throughput_floor_samples_per_s")
    document = {key: value for key, value in random_graph(seed).items() if key not in money}
    document["objective"] = "time"
    best, instance = GraphTruth(document).best(), parse_instance(document)
    assert isinstance(instance, StagingInstance)
    if best is None:
        assert proves_no_faster_plan(instance, math.inf)
        return
    fastest = GraphFormulation(instance).to_stage_time(best)
    assert not proves_no_faster_plan(instance, fastest * (1 + 1e-9))
    assert proves_no_faster_plan(instance, fastest * (1 - 1e-6))


def test_memory_counts() -> None:
    """Two layers of one GiB do not fit into a unit of one and a half."""
    rows = diamond_rows(memory_gib=1.0)
    types = [{"name": "gpu", "price_usd_per_hour": 1.0, "limit": 3, "memory_gib": 1.5}]
    assert proves_no_faster_plan(diamond(layers=rows, types=types), math.inf)


def test_memory_that_is_just_filled_is_enough() -> None:
    """Two layers of one GiB fill a unit of two: 5 s as without memory. A little less, and each is alone."""
    rows = diamond_rows(memory_gib=1.0)
    for room, best in ((2.0, 5.0), (2.0 * (1 - 1e-6), math.inf)):
        types = [{"name": "gpu", "price_usd_per_hour": 1.0, "limit": 2, "memory_gib": room}]
        instance = diamond(layers=rows, types=types)
        assert proves_no_faster_plan(instance, best * (1 - 1e-9) if math.isfinite(best) else math.inf)
        assert math.isinf(best) or not proves_no_faster_plan(instance, best)


def nowhere() -> StagingInstance:
    """Return two layers of one colour that run on different types alone, and one that runs on both."""
    rows = [
        {"name": name, "compute_s": compute, "compute_parallel": 0, "colour": colour}
        for name, compute, colour in (
            ("a", {"gpu": 1.0}, "red"),
            ("b", {"cpu": 1.0}, "red"),
            ("c", {"gpu": 1.0, "cpu": 2.0}, "blue"),
        )
    ]
    types = [{"name": name, "price_usd_per_hour": 1.0, "limit": 2} for name in ("gpu", "cpu")]
    return diamond(layers=rows, types=types, edges=[{"source": "a", "target": "c"}])


def test_a_class_that_no_type_can_run() -> None:
    """There is no plan, however slow; the work of such a class is no number."""
    assert proves_no_faster_plan(nowhere(), math.inf)
    method = find_solver("exact", "staging")
    assert solve_with(nowhere(), method, SolveOptions()).status == "infeasible"


@pytest.mark.parametrize("seed", range(30))
def test_the_stages_are_those_of_the_methods(seed: int) -> None:
    """As many, and as fast, though found from the other end."""
    instance = parse_instance(random_graph(seed))
    assert isinstance(instance, StagingInstance)
    own, formulation = derive_graph_segments(instance, math.inf), GraphFormulation(instance)
    slowest_s = formulation.latest_s
    table = graph_table(instance, formulation.blocks, formulation.ideals, slowest_s)
    if not math.isinf(slowest_s):
        own = own.only(np.flatnonzero(own.time_s(own.limit[own.type]) <= slowest_s))
    assert len(own.first) == len(table.first)
    assert np.sort(own.time_s(np.ones(len(own.first)))) == pytest.approx(np.sort(table.time_s(1)))
    assert len(derive_graph(instance).inside) == table.layers + 1


@pytest.mark.parametrize("seed", range(20))
def test_stages_that_are_too_slow_are_left_out_and_no_others(seed: int) -> None:
    """On as many units as there are, with layers that communicate."""
    document, rng = random_graph(seed), random.Random(seed)
    for layer in document["layers"]:
        layer["communication_s"] = {name: rng.uniform(0, 20) for name in layer["compute_s"]}
        layer["communication_parallel"] = rng.choice((0.1, 0.9))
    instance = parse_instance(document)
    assert isinstance(instance, StagingInstance)
    every = derive_graph_segments(instance, math.inf)
    times = np.sort(every.time_s(every.limit[every.type]))
    for slowest_s in times[[len(times) // 4, len(times) // 2]] * (1 + 1e-6):
        assert len(derive_graph_segments(instance, slowest_s).first) == (times <= slowest_s).sum()


def test_a_claim_that_is_too_good_proves_nothing() -> None:
    """Two units allow 5 s: that none takes less than 5.5 s is not believed, and 3.5 s is elementary."""
    formulation = GraphFormulation(diamond(2))
    (right,) = formulation.certified_bounds({"cutoff": 5.0 * (1 - 1e-9), "intervals": []})
    assert right == pytest.approx(5.0)
    for forged in ({"cutoff": 5.5, "intervals": []}, {"cutoff": None, "intervals": []}):
        (bound,) = formulation.certified_bounds(forged)
        assert bound == pytest.approx(3.5)
    (none,) = GraphFormulation(diamond(2, throughput_floor_samples_per_s=0.21)).certified_bounds(
        {"cutoff": None, "intervals": []}
    )
    assert none == math.inf


def test_too_many_stages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together, although no ideal has so many."""
    segments = derive_graph_segments(diamond(), 10.0)
    monkeypatch.setattr(graph_stages, "MAX_STAGES", len(segments.first))
    assert len(derive_graph_segments(diamond(), 10.0).first) == len(segments.first)
    monkeypatch.setattr(graph_stages, "MAX_STAGES", len(segments.first) - 1)
    with pytest.raises(TooLargeError, match="possible stages"):
        derive_graph_segments(diamond(), 10.0)


def test_states_are_counted_with_the_units_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six ideals with no, one or two units in use are eighteen."""
    monkeypatch.setattr(certificate, "MAX_STATES", 18)
    assert proves_no_faster_plan(diamond(2), 5 * (1 - 1e-9))
    monkeypatch.setattr(certificate, "MAX_STATES", 17)
    assert not proves_no_faster_plan(diamond(2), 5 * (1 - 1e-9))


def test_a_diamond() -> None:
    """Six ideals, found from all groups downwards, and seven links."""
    below = derive_ideals(GroupOrder(diamond()))
    assert below.groups == [0, 1, 2, 3]
    assert sorted(below.sets) == [0, 0b1, 0b11, 0b101, 0b111, 0b1111]
    assert len(below.links) == 6


@pytest.mark.parametrize("seed", range(40))
def test_as_many_groups_and_ideals_as_the_methods(seed: int) -> None:
    """On random graphs, layers without time included."""
    instance = parse_instance(random_graph(seed))
    assert isinstance(instance, StagingInstance)
    formulation, order = GraphFormulation(instance), GroupOrder(instance)
    assert len(order.groups) == len(formulation.blocks)
    assert len(derive_ideals(order).sets) == len(formulation.ideals)


def chain(seconds: dict[str, dict[str, float]], **compute: float) -> StagingInstance:
    """Return layers after each other on two types, whose outputs take so many seconds on each."""
    layers = [
        {"name": name, "compute_s": dict.fromkeys(("one", "two"), compute.get(name, 0.0)), "transfer_s": own}
        for name, own in seconds.items()
    ]
    names = list(seconds)
    return diamond(
        types=[{"name": name, "price_usd_per_hour": 1.0, "limit": 2} for name in ("one", "two")],
        layers=layers,
        edges=[{"source": a, "target": b} for a, b in itertools.pairwise(names)],
    )


@pytest.mark.parametrize(("out_of_x", "groups"), [({"one": 2, "two": 1}, 3), ({"one": 1, "two": 3}, 2)])
def test_a_layer_without_time_joins_where_no_type_pays_more(out_of_x: dict[str, float], groups: int) -> None:
    """One that pays more on either type with either neighbour stays alone."""
    order = GroupOrder(chain({"a": {"one": 1, "two": 3}, "x": out_of_x, "b": {}}, a=1.0, b=1.0))
    assert len(order.groups) == groups


def test_layers_without_time_that_only_touch_each_other_join_any_stage() -> None:
    """What they send to each other inside a stage costs nothing."""
    instance = chain({"x": {"one": 1, "two": 1}, "y": {}, "real": {}}, real=1.0)
    alone = instance.model_copy(update={"edges": instance.edges[:1]})
    assert len(GroupOrder(alone).groups) == 1


def test_a_layer_keeps_the_tensors_of_those_that_joined_it() -> None:
    """X joins y, which saves 5 s and costs 3; both then join a, which saves 3 and costs 2, and not b."""
    seconds = {name: {"one": s, "two": s} for name, s in (("a", 3), ("x", 5), ("y", 2))}
    order = GroupOrder(chain({**seconds, "b": {}}, a=1.0, b=1.0))
    assert sorted(sorted(group.layers) for group in order.groups.values()) == [[0, 1, 2], [3]]
