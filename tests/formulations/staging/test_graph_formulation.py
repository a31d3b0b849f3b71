"""Staging on graphs: evaluation, and contiguous stages in one topological order."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from staging_instances import diamond, diamond_rows, half_serial, random_row

from clusterplan.formulations.staging import graph_stages
from clusterplan.formulations.staging.formulation import GraphFormulation, formulation_of
from clusterplan.formulations.staging.graph_order import (
    Classes,
    classes_of,
    ideals_of,
)
from clusterplan.formulations.staging.graph_stages import graph_table
from clusterplan.formulations.staging.stages import Stage, stage_of
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.staging.instance import StagingInstance

BEST = [stage_of([0, 1], "gpu", 1), stage_of([2, 3], "gpu", 1)]


def graph(**fields: object) -> GraphFormulation:
    return GraphFormulation(diamond(**fields))  # type: ignore[arg-type]


def broken(plan: list[Stage], **fields: object) -> set[str]:
    return {violation.constraint for violation in graph(**fields).violations(plan)}


def test_only_edges_make_a_graph() -> None:
    """A chain keeps its formulation."""
    assert type(formulation_of(diamond())) is GraphFormulation
    assert type(formulation_of(half_serial())) is not GraphFormulation


def test_a_stage_pays_for_what_it_sends_and_receives_once() -> None:
    """The tensor of a goes from the first stage to c, that of b to d."""
    formulation = graph()
    assert formulation.times_of_stages_s(BEST) == [4.0, 5.0]
    assert formulation.evaluate(BEST) == (5.0,)
    # Where times overlap the transfers vanish behind the computing.
    assert graph(stage_cost="overlap").evaluate(BEST) == (4.0,)


def test_stages_that_relay_receive_and_send_at_once() -> None:
    """A tensor that skips stages is paid by each of them; two units halve the seconds."""
    rows = diamond_rows(5.0, 1.0, 2.0, 9.0)
    skipping = [{"source": a, "target": b} for a, b in ("ab", "bc", "cd", "ad")]
    alone = [stage_of([layer], "gpu", 1) for layer in range(4)]
    relayed = graph(layers=rows, edges=skipping, stage_cost="relay")
    # After a, b and c: 5 s, 5 + 1 s, 5 + 2 s; the last sends to nobody.
    assert relayed.times_of_stages_s(alone) == [5.0, 6.0, 7.0, 7.0]
    assert graph(layers=rows, edges=skipping, stage_cost="overlap").times_of_stages_s(alone)[2] == 3.0
    halved = [*alone[:2], stage_of([2], "gpu", 2), alone[3]]
    assert relayed.times_of_stages_s(halved) == [5.0, 6.0, 3.5, 7.0]


def test_the_order_of_stages_that_relay_counts() -> None:
    """Of b and c, the one that sends less is to be the first of the two."""
    rows = diamond_rows(5.0, 1.0, 2.0, 9.0)
    plan = [stage_of([layer], "gpu", 1) for layer in (0, 1, 2, 3)]
    other = [plan[0], plan[2], plan[1], plan[3]]
    relayed = graph(limit=4, layers=rows, stage_cost="relay")
    assert relayed.times_of_stages_s(plan) == [5.0, 6.0, 6.0, 3.0]
    assert relayed.times_of_stages_s(other) == [5.0, 7.0, 7.0, 3.0]
    assert (relayed.evaluate(plan), relayed.evaluate(other)) == ((6.0,), (7.0,))
    assert not relayed.violations(plan)
    assert not relayed.violations(other)
    overlapping = graph(limit=4, layers=rows, stage_cost="overlap")
    assert overlapping.evaluate(plan) == overlapping.evaluate(other)


def test_transfers_over_the_link_where_no_time_is_given() -> None:
    """Half a gigabyte over 8 Gbit/s takes half a second; two units halve it."""
    layers = [
        layer.model_copy(update={"transfer_s": None, "output_bytes": 5e8}) for layer in diamond().layers
    ]
    instance = diamond().model_copy(update={"layers": tuple(layers), "link_gbit_per_s": 8.0})
    formulation = GraphFormulation(instance)
    assert formulation.transfer_s[0] == [0.5]
    assert formulation.stage_parts([0, 1], 0) == (3.0, 1.0, 0.0, 0.0)
    assert formulation.times_of_stages_s([stage_of([0, 1], "gpu", 2)]) == [3.5]


def test_constraints() -> None:
    """Order, cover, units and memory; each is named."""
    assert broken(BEST) == set()
    assert broken(BEST[::-1]) == {"order"}
    assert broken(BEST[:1]) == {"layers"}
    assert broken([stage_of([0, 1, 2, 9], "gpu", 1)]) == {"layers"}
    assert broken([stage_of([0, 1], "tpu", 1), BEST[1]]) == {"type", "layers"}
    assert broken([stage_of([0, 1], "gpu", 2), BEST[1]]) == {"units of a stage"}
    assert broken(BEST, limit=1) == {"limit of gpu"}
    # Consecutive layers need not be listed.
    assert broken([Stage(first_layer=0, last_layer=3, type="gpu", units=1)]) == set()


def test_colours_stay_together() -> None:
    """Layers b and c of one colour are in one stage, whatever it costs."""
    rows = diamond_rows()
    for row in rows[1:3]:
        row["colour"] = "x"
    assert broken(BEST, layers=rows) == {"classes"}
    assert GraphFormulation(diamond(layers=rows)).classes.members == ((0,), (1, 2), (3,))


def test_bounds_of_the_stage_time() -> None:
    """The slowest layer, and all work on both units: 7 s on 2."""
    formulation = graph()
    assert formulation.fastest_s == 3.0
    assert formulation.shared_work_s == pytest.approx(3.5)
    assert formulation.elementary_bounds()[0] == pytest.approx(3.5)


@pytest.mark.parametrize("rule", ["sum", "overlap", "relay"])
def test_the_table_has_every_pair_of_ideals_once(rule: str) -> None:
    """Six ideals make 14 pairs; each stage takes what evaluating it after the smaller ideal gives."""
    rows = [layer.model_dump(exclude_none=True) | {"transfer_s": {"gpu": 2.5}} for layer in diamond().layers]
    formulation = graph(limit=3, layers=rows, stage_cost=rule)
    table = formulation.table
    places = set(zip(table.first.tolist(), table.last.tolist(), strict=True))
    assert len(table.first) == len(places) == 14
    times = table.time_s(1)
    for first, last, time in zip(table.first.tolist(), table.last.tolist(), times, strict=True):
        stage = formulation.stage(first, last, 0, 1)
        before = [formulation.stage(0, first - 1, 0, 1)] if first else []
        assert formulation.times_of_stages_s([*before, stage])[-1] == pytest.approx(time)
        assert table.index(first, last, 0) >= 0
    assert table.index(5, 1, 0) == -1
    assert formulation.positions(BEST) is not None
    assert formulation.positions([stage_of([0, 1, 2, 3], "gpu", 1)]) == [table.index(0, 4, 0)]


@pytest.mark.parametrize("seed", range(40))
def test_a_row_has_the_stages_of_its_ideals(seed: int) -> None:
    """Found by their ends, with the times by which plans are evaluated, whatever the rule of transfers."""
    formulation = GraphFormulation(random_row(seed))
    assert formulation.blocks.in_a_row
    ideals = ideals_of(len(formulation.blocks), formulation.blocks.arcs)
    assert (ideals.sets, ideals.complete) == (formulation.ideals.sets, True)
    table = graph_table(formulation.instance, formulation.blocks, ideals, math.inf)
    assert [table.index(*own) for own in zip(table.first, table.last, table.type, strict=True)] == [
        *range(len(table.first))
    ]
    for first, last in itertools.combinations(range(table.layers + 1), 2):
        layers = [layer for own in formulation.places[first:last] for layer in own]
        before = [layer for own in formulation.places[:first] for layer in own]
        parts = table.parts(first, last - 1, 0)
        if math.isfinite(parts[0]):
            expected = formulation.stage_parts(layers, 0, before)
            assert parts == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_a_floor_leaves_fewer_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that no unit is fast enough for are not listed."""
    instance = diamond()
    formulation = GraphFormulation(instance)
    few = graph_table(instance, formulation.blocks, formulation.ideals, 4.0)
    assert 0 < len(few.first) < 14
    assert (few.time_s(1) <= 4.0).all()
    monkeypatch.setattr(graph_stages, "MAX_STAGES", 13)
    with pytest.raises(TooLargeError, match="6 ideals and more than 13 possible stages"):
        _ = GraphFormulation(instance).table


def test_layers_without_time_join_a_neighbour() -> None:
    """Where no stage pays more for it: b takes no time and its tensor weighs less than that of a."""
    rows = diamond_rows()
    rows[1]["compute_s"] = {"gpu": 0.0}
    pairs = [{"source": a, "target": b} for a, b in ("ab", "bc", "cd")]
    formulation = GraphFormulation(diamond(layers=rows, edges=pairs))
    assert sorted(formulation.blocks.layers) in ([(0, 1), (2,), (3,)], [(0,), (1, 2), (3,)])
    # A heavy tensor keeps it with the layer that receives it.
    rows[1]["transfer_s"] = {"gpu": 5.0}
    formulation = GraphFormulation(diamond(layers=rows, edges=pairs))
    assert formulation.blocks.layers == ((0,), (1, 2), (3,))
    assert np.isfinite(formulation.blocks.parts).all()


def test_memory_keeps_layers_without_time_apart() -> None:
    """One that is held somewhere is not moved where memory may be short."""
    rows = diamond_rows(memory_gib=1.0)
    rows[3]["compute_s"] = {"gpu": 0.0}
    types = [{"name": "gpu", "price_usd_per_hour": 1.0, "limit": 4, "memory_gib": 1.0}]
    edges = [{"source": a, "target": b} for a, b in ("ab", "ac", "cd")]
    assert len(GraphFormulation(diamond(layers=rows, types=types, edges=edges)).blocks) == 4
    assert len(GraphFormulation(diamond(layers=rows, edges=edges)).blocks) == 3


def test_layers_of_one_stage_that_no_type_can_run() -> None:
    """They are named: two without a common type, or all where any two have one."""
    kinds = [{"name": name, "price_usd_per_hour": 1.0, "limit": 2} for name in ("gpu", "cpu", "tpu")]
    apart = ({"gpu": 1.0}, {"cpu": 1.0}, {"gpu": 1.0}, {"gpu": 1.0})
    pairs = ({"gpu": 1.0, "cpu": 1.0}, {"cpu": 1.0, "tpu": 1.0}, {"tpu": 1.0, "gpu": 1.0}, {"gpu": 1.0})
    for given, named in ((apart, "'a' and 'b'"), (pairs, "'a' to 'c'")):
        layers = [
            {"name": name, "compute_s": able, "compute_parallel": 0, "colour": None if name == "d" else "x"}
            for name, able in zip("abcd", given, strict=True)
        ]
        found = graph(types=kinds, layers=layers).elementary_infeasibility()
        assert found is not None
        assert found.reasons[0].startswith(f"layers {named} have to be in one stage")
    assert graph().elementary_infeasibility() is None


def classes(layers: str, edges: str) -> Classes:
    """Return the classes of layers such as ``a b:red -c:red``, of which those with a minus are backward."""
    rows: list[dict[str, Any]] = []
    for word in layers.split():
        name, _, colour = word.lstrip("-").partition(":")
        row: dict[str, Any] = {"name": name, "compute_s": {"t": 1}, "compute_parallel": 0}
        rows.append(
            row | ({"colour": colour} if colour else {}) | ({"backward": True} if word[0] == "-" else {})
        )
    made = parse_instance(
        {
            "schema_version": 1,
            "kind": "staging",
            "name": "g",
            "stage_rule": "free_cuts",
            "training": {"samples": 1},
            "probe_batch": 1,
            "types": [{"name": "t", "price_usd_per_hour": 1}],
            "layers": rows,
            "edges": [{"source": a, "target": b} for a, b in edges.split()],
        }
    )
    assert isinstance(made, StagingInstance)
    return classes_of(made)


def test_a_colour_is_one_class_and_forward_edges_order_them() -> None:
    """Edges of the backward pass set no order, and hand over tensors all the same."""
    found = classes("a:1 b:2 -B:2 -A:1", "ab bB BA")
    assert found.members == ((0, 3), (1, 2))
    assert found.arcs == {(0, 1)}
    assert [(tensor.layer, tensor.classes) for tensor in found.tensors] == [(0, {0, 1}), (2, {0, 1})]


def test_orphans_are_ordered_against_their_edges() -> None:
    """X has no forward layer: its backward edge to A puts it after A."""
    found = classes("a:1 -A:1 -X", "XA")
    assert found.members == ((0, 1), (2,))
    assert found.arcs == {(0, 1)}


def test_classes_in_a_cycle_are_one() -> None:
    """The colour of a and c surrounds b."""
    found = classes("a:1 b c:1 d", "ab bc cd")
    assert found.members == ((0, 1, 2), (3,))


def test_one_tensor_goes_to_many() -> None:
    """It touches the classes of its layer and of all that receive it, once."""
    (tensor,) = classes("a b c", "ab ac").tensors
    assert tensor.classes == {0, 1, 2}


DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


def test_a_diamond_has_six_ideals() -> None:
    """By rising size, each with the blocks that may come next."""
    found = ideals_of(4, DIAMOND)
    assert found.complete
    assert found.sets == (0, 0b1, 0b11, 0b101, 0b111, 0b1111)
    links = [
        (index, int(found.block[e]), int(found.target[e]))
        for index in range(6)
        for e in range(found.start[index], found.start[index + 1])
    ]
    assert links == [(0, 0, 1), (1, 1, 2), (1, 2, 3), (2, 2, 4), (3, 1, 4), (4, 3, 5)]


def test_too_many_ideals_leave_those_of_one_order() -> None:
    """Ten blocks without order have 1024."""
    assert len(ideals_of(10, [])) == 1024
    few = ideals_of(10, [], most=1000)
    assert not few.complete
    assert few.sets == tuple((1 << size) - 1 for size in range(11))
    assert len(few.start) == len(few) + 1


def test_broad_orders_are_given_up_at_once() -> None:
    """Any set of blocks that may come next makes an ideal: of 2,000 without order there are 2^2000."""
    assert len(ideals_of(9, [], most=512)) == 512
    assert not ideals_of(2000, []).complete
