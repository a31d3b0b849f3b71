"""The campaign's own truth about graphs of layers, on what can be worked out by hand, and its documents."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pytest
import staging_instances
from fuzz import lanes
from fuzz.graph_truth import GraphTruth, staging_truth
from fuzz.staging import document

from clusterplan.instances.documents import parse_instance

DIAMOND = staging_instances.diamond().document()
"""a before b and c, and both before d, of 1, 2, 3 and 1 s; a tensor takes half a second."""


def with_limit(limit: int, **fields: Any) -> dict[str, Any]:
    return {**DIAMOND, "types": [{"name": "gpu", "price_usd_per_hour": 1, "limit": limit}], **fields}


@pytest.mark.parametrize(("limit", "seconds"), [(1, 7), (2, 5), (3, 4)])
def test_optima_worked_out_by_hand(limit: int, seconds: float) -> None:
    """All together; a and b, then c and d; a and b, then c, then d."""
    assert staging_truth(with_limit(limit)).best() == seconds


def test_overlapping_transfers_take_no_time_here() -> None:
    """Half a second for one tensor or two is less than computing; two units share the three seconds of c."""
    assert staging_truth(with_limit(2, stage_cost="overlap")).best() == 4
    layers = [{**layer, "compute_parallel": 1} for layer in DIAMOND["layers"]]
    assert staging_truth(with_limit(2, most_units_per_stage=2, layers=layers)).best() == 3.5


def test_tensors_are_paid_once_by_each_stage() -> None:
    """Layer a hands one tensor to b and c in one other stage: a pays once, and so does that stage."""
    truth = GraphTruth(with_limit(2))
    a, b, c, d = (1 << place for place in range(4))
    assert truth.by_key[0, 1, a, 0].seconds == 1.5
    assert truth.by_key[0, 1, b | c | d, 0].seconds == 6.5
    assert truth.by_key[0, 1, b, 0].seconds == 3
    assert len(truth.by_key) == 15


def test_backward_layers_follow_their_colour() -> None:
    """An orphan is ordered by its backward edge reversed, as a forward layer in its place would be."""
    layers = [
        {"name": "f", "compute_s": {"gpu": 1}, "compute_parallel": 0, "colour": "x"},
        {"name": "o", "compute_s": {"gpu": 1}, "compute_parallel": 0, "backward": True},
        {"name": "b", "compute_s": {"gpu": 1}, "compute_parallel": 0, "backward": True, "colour": "x"},
    ]
    edges = [{"source": "o", "target": "b"}]
    truth = GraphTruth(with_limit(2, layers=layers, edges=edges))
    assert truth.arcs == {(1, 2)}
    assert truth.best() == 2


def plan_of(*stages: tuple[tuple[int, ...], int]) -> list[dict[str, Any]]:
    return [
        {"first_layer": own[0], "last_layer": own[-1], "layers": list(own), "type": "gpu", "units": units}
        for own, units in stages
    ]


@pytest.mark.parametrize(
    "plan",
    [
        plan_of(((0, 1), 1)),
        plan_of(((2, 3), 1), ((0, 1), 1)),
        plan_of(((0, 3), 1), ((1, 2), 1)),
        plan_of(((0, 1), 1), ((1, 2, 3), 1)),
        plan_of(((0, 1), 2), ((2, 3), 1)),
        plan_of(((0,), 1), ((1, 2), 1), ((3,), 1)),
        plan_of(((0, 1), 1), ((2, 3, 4), 1)),
    ],
)
def test_wrong_plans_are_refuted(plan: list[dict[str, Any]]) -> None:
    """Layers left out, twice or unknown; stages out of order; too many units, of one stage or of all."""
    truth = GraphTruth(with_limit(2))
    right = truth.judge(plan_of(((0, 1), 1), ((2, 3), 1)))
    assert right == ((5 * truth.time_unit,), [])
    assert truth.judge(plan)[1] != []


def test_two_truths_agree() -> None:
    """That of the campaign and that of the agreement tests know nothing of each other."""
    compared = 0
    for seed in range(40):
        data = staging_instances.random_graph(seed)
        best = staging_instances.GraphTruth(data).best()
        try:
            own = staging_truth(data).best()
        except lanes.TooManyPlansError:
            continue
        compared += 1
        assert (own is None) == (best is None), seed
        assert own is None or math.isclose(float(own), best or 0.0, rel_tol=1e-9), seed
    assert compared > 20


def test_documents_of_every_form_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches, colours, orphans, zero times, seconds of transfers, memory, limits, all rules."""
    monkeypatch.setattr("fuzz.staging.ON_GRAPHS", 1.0)
    seen: Counter[str] = Counter()
    for number in range(150):
        data = document(random.Random(number))
        parse_instance(data)
        layers = data["layers"]
        led = {layer.get("colour") for layer in layers if not layer.get("backward")}
        seen[data.get("stage_cost", "none")] += 1
        seen["units"] += "most_units_per_stage" in data
        seen["edges"] += len(data["edges"]) > 2
        seen["colours"] += "shared" in led
        seen["orphans"] += any(layer.get("backward") and layer["colour"] not in led for layer in layers)
        seen["idle"] += any(not any(layer["compute_s"].values()) for layer in layers)
        seen["transfers"] += any("transfer_s" in layer for layer in layers)
        seen["memory"] += any("memory_gib" in kind for kind in data["types"])
        seen["floor"] += "throughput_floor_samples_per_s" in data
        seen["budget"] += "hourly_budget_usd" in data
        seen["apart"] += lanes.scales_apart(data)
    assert len(seen) == 14
    assert all(count >= 8 for count in seen.values()), seen


def test_turns_on_graphs_find_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results and certificates of graphs are forged as well."""
    monkeypatch.setattr("fuzz.staging.ON_GRAPHS", 1.0)
    monkeypatch.setattr(lanes, "TAMPERED", 0.3)
    counts = lanes.faultless("staging", "graphs", 16)
    assert counts["staging instances with graphs of layers"] > 8
    assert counts["certificates forged"] > 3
