"""The campaign's own truths about graphs, devices and traces, worked out by hand, and its documents."""

from __future__ import annotations

import copy
import math
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
import staging_instances
import yaml
from device_instances import gpus, job, sharing
from fuzz import lanes
from fuzz.consolidation_truth import ConsolidationTruth, groups_of
from fuzz.device_truth import BUILT_IN, FREE, Layout, asks_of, fits, states_of, taken
from fuzz.kinds import KINDS
from fuzz.scheduling import SchedulingTruth
from fuzz.staging import GraphTruth, staging_truth
from fuzz.truth import TooManyPlansError
from malleable_instances import rigid_jobs

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.hardware import GEOMETRIES
from clusterplan.instances.documents import parse_instance

DIAMOND = staging_instances.diamond().document()
"""a before b and c, and both before d, of 1, 2, 3 and 1 s; a tensor takes half a second."""


def with_limit(limit: int, **fields: Any) -> dict[str, Any]:
    return {**DIAMOND, "types": [{"name": "gpu", "price_usd_per_hour": 1, "limit": limit}], **fields}


@pytest.mark.parametrize(("limit", "seconds"), [(1, 7), (2, 5), (3, 4)])
def test_optima_of_a_diamond(limit: int, seconds: float) -> None:
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
    layers = yaml.safe_load("""
    - {name: f, compute_s: {gpu: 1}, compute_parallel: 0, colour: x}
    - {name: o, compute_s: {gpu: 1}, compute_parallel: 0, backward: true}
    - {name: b, compute_s: {gpu: 1}, compute_parallel: 0, backward: true, colour: x}
    """)
    edges = [{"source": "o", "target": "b"}]
    truth = GraphTruth(with_limit(2, layers=layers, edges=edges))
    assert truth.arcs == {(1, 2)}
    assert truth.best() == 2


def staged(*stages: tuple[tuple[int, ...], int]) -> list[dict[str, Any]]:
    return [
        {"first_layer": own[0], "last_layer": own[-1], "layers": list(own), "type": "gpu", "units": units}
        for own, units in stages
    ]


@pytest.mark.parametrize(
    "plan",
    [
        staged(((0, 1), 1)),
        staged(((2, 3), 1), ((0, 1), 1)),
        staged(((0, 3), 1), ((1, 2), 1)),
        staged(((0, 1), 1), ((1, 2, 3), 1)),
        staged(((0, 1), 2), ((2, 3), 1)),
        staged(((0,), 1), ((1, 2), 1), ((3,), 1)),
        staged(((0, 1), 1), ((2, 3, 4), 1)),
    ],
)
def test_wrong_graph_plans_are_refuted(plan: list[dict[str, Any]]) -> None:
    """Layers left out, twice or unknown; stages out of order; too many units, of one stage or of all."""
    truth = GraphTruth(with_limit(2))
    right = truth.judge(staged(((0, 1), 1), ((2, 3), 1)))
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


def test_graphs_of_every_form_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches, colours, orphans, zero times, seconds of transfers, memory, limits, all rules."""
    monkeypatch.setattr("fuzz.staging.ON_GRAPHS", 1.0)
    seen: Counter[str] = Counter()
    for number in range(150):
        data = KINDS["staging"].document(random.Random(number))
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


A100 = BUILT_IN["a100-40"]


def _document(**fields: Any) -> dict[str, Any]:
    return {"schema_version": 1, "kind": "consolidation", "name": "n", "objectives": ["value"], **fields}


@pytest.mark.parametrize(
    ("asks", "devices", "expected"),
    [
        ([("share", 600)] * 3, 2, False),
        ([("share", 600), ("share", 400)] * 2, 2, True),
        ([("devices", 1), ("share", 1)], 1, False),
        ([("devices", 2)], 2, True),
        ([("profile", "3g.20gb")] * 3, 1, False),
        ([("profile", "3g.20gb"), ("profile", "4g.20gb")], 1, True),
        ([("profile", "1g.5gb")] * 7, 1, True),
        ([("profile", "1g.5gb")] * 8, 1, False),
        ([("profile", "2g.10gb")] * 3 + [("profile", "1g.5gb")], 1, True),
        ([("profile", "1g.5gb"), ("share", 100)], 1, False),
    ],
)
def test_what_devices_hold(asks: list[tuple[str, Any]], devices: int, expected: bool) -> None:
    """A device is whole, shared or partitioned; three of two slots leave room for one more in the fourth."""
    assert fits((FREE,) * devices, A100, asks) == expected


def test_the_tables_are_those_of_the_package() -> None:
    """Written down again here, so that an error of either shows."""
    for name, layout in BUILT_IN.items():
        profiles = GEOMETRIES[name].profiles.items()
        assert {(p, of.size, of.starts) for p, of in profiles} == set(layout.profiles)


def test_what_others_hold() -> None:
    """In all forms; and devices that `free` does not count are held whole."""
    others = [{"device": 0}, {"device": 1, "share": 300}, {"device": 2, "profile": "3g.20gb", "slot": 4}]
    devices = {"gpu": {"count": 4, "geometry": "a100-40", "taken": others}}
    states = states_of({"devices": devices}, "gpu")
    assert states == (("whole", ()), ("shared", 300), ("parted", (4, 5, 6, 7)), FREE)
    assert taken(states, A100, ("profile", "3g.20gb"), {"device": 2, "slot": 4}) is None
    assert taken(states, A100, ("profile", "3g.20gb"), {"device": 2, "slot": 1}) is None
    assert taken(states, A100, ("share", 800), [1]) is None
    assert taken(states, A100, ("devices", 2), [1, 3]) is None
    assert states_of({"free": {"gpu": 1}, "devices": {"gpu": {"count": 2}}}, "gpu")[1] == ("whole", ())
    assert taken(states, Layout(()), ("devices", 1), [4]) is None


def test_optima_on_devices() -> None:
    """Two devices hold two shares of 600; for a whole device one of two that run has to move."""
    server = gpus("n", 2)
    jobs = [sharing(name, 600, value=1) for name in "abc"]
    assert ConsolidationTruth(_document(servers=[server], jobs=jobs)).best() == 2
    running = [
        sharing(name, 400, value=1, current={"n": 1}, current_devices={"n": [{"gpu": [device]}]})
        for device, name in enumerate("ab")
    ]
    whole = job("c", 1, {"cpu": 0}, devices={"gpu": 1}, value=1)
    data = _document(servers=[server], jobs=[*running, whole], objectives=["value", "migrations"])
    for device_moves, moved in ((None, 0), (False, 0), (True, 1)):
        truth = ConsolidationTruth({**data, "device_moves": device_moves})
        assert truth.values(min(costs for costs, _ in truth.plans)) == [3, moved]


def _running(**fields: Any) -> dict[str, Any]:
    """Return a share that runs on the first of two devices, beside a job that asks for both."""
    server = gpus("n", 2, taken=[{"device": 1}])
    runs = sharing("a", 400, value=1, current={"n": 1}, current_devices={"n": [{"gpu": [0]}]}, **fields)
    return _document(servers=[server], jobs=[runs], restart_cost_h=0.5, device_moves=True)


def test_who_keeps_its_devices_pays_nothing_and_who_stays_keeps_them() -> None:
    """With the first device taken, a job moves to the second for half of its value; one that stays cannot."""
    data = _running()
    assert ConsolidationTruth(data).best() == 1
    taken_by_others = {"gpu": {"count": 2, "taken": [{"device": 0}]}}
    data["servers"][0]["devices"] = taken_by_others
    assert ConsolidationTruth(data).best() == Fraction(1, 2)
    assert ConsolidationTruth({**data, "max_moves": 0}).best() is None
    assert ConsolidationTruth({**data, "device_moves": False, "max_moves": 0}).best() == 1
    assert not ConsolidationTruth({**data, "pinned": ["*"]}).feasible


def _planned() -> tuple[ConsolidationTruth, list[dict[str, Any]]]:
    """Return a truth and its best plan: a share, a partition and a whole device on three devices."""
    jobs = [
        sharing("s", 400, value=1),
        job("p", 1, {"cpu": 0}, profile={"gpu": "2g.10gb"}, value=1),
        job("w", 1, {"cpu": 0}, devices={"gpu": 1}, value=1),
    ]
    held = ({"gpu": [0]}, {"gpu": {"device": 1, "slot": 2}}, {"gpu": [2]})
    plan = [
        {"job": row["name"], "placed": True, "servers": {"n": 1}, "devices": {"tasks": {"n": [task]}}}
        for row, task in zip(jobs, held, strict=True)
    ]
    return ConsolidationTruth(_document(servers=[gpus("n", 3, geometry="a100-40")], jobs=jobs)), plan


@pytest.mark.parametrize(
    ("entry", "devices"),
    [
        (0, "null"),
        (0, "tasks: {n: [{gpu: [2]}]}"),
        (0, "tasks: {n: [{gpu: [3]}]}"),
        (0, "tasks: {n: [{gpu: [0, 1]}]}"),
        (0, "tasks: {n: [{gpu: {device: 0, slot: 0}}]}"),
        (0, "tasks: {n: [{gpu: [0]}, {gpu: [0]}]}"),
        (0, "tasks: {n: [{gpu: [0], nic: [0]}]}"),
        (0, "tasks: {n: [{gpu: [0]}], m: [{gpu: [0]}]}"),
        (0, "{tasks: {n: [{gpu: [0]}]}, other: {n: [{gpu: [0]}]}}"),
        (1, "tasks: {n: [{gpu: {device: 1, slot: 1}}]}"),
        (1, "tasks: {n: [{gpu: {device: 0, slot: 2}}]}"),
        (1, "tasks: {n: [{gpu: [1]}]}"),
        (2, "tasks: {n: [{gpu: [0]}]}"),
        (2, "tasks: {n: [{gpu: [2, 2]}]}"),
    ],
)
def test_plans_on_wrong_devices_are_refuted(entry: int, devices: str) -> None:
    """The right plan is not."""
    truth, plan = _planned()
    assert truth.judge(plan) == ((-3,), [])
    wrong = copy.deepcopy(plan)
    wrong[entry]["devices"] = yaml.safe_load(devices)
    assert truth.judge(wrong)[1] != []


def test_devices_of_every_form_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, shares, partitions, two names, what others hold, what tasks hold now, and moves that count."""
    monkeypatch.setattr("fuzz.consolidation_documents.ON_DEVICES", 1.0)
    seen: Counter[str] = Counter()
    for number in range(150):
        data = KINDS["consolidation"].document(random.Random(number))
        parse_instance(data)
        seen["moves"] += bool(data.get("device_moves"))
        for server in data["servers"]:
            devices = server.get("devices") or {}
            seen["two names"] += len(devices) > 1
            seen["others"] += any(had.get("taken") for had in devices.values())
            seen["free"] += "gpu" in (server.get("free") or {})
        for group in (group for row in data["jobs"] for group in groups_of(row)):
            seen.update(form for form, _ in asks_of(group).values())
            seen["now"] += bool(group.get("current_devices"))
    kinds = {"devices", "share", "profile", "two names", "others", "free", "now", "moves"}
    assert all(seen[name] >= 10 for name in kinds), seen


def test_turns_on_devices_find_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results and certificates of instances with devices are forged as well."""
    monkeypatch.setattr("fuzz.consolidation_documents.ON_DEVICES", 1.0)
    counts = lanes.faultless("consolidation", "devices", 12)
    assert counts["consolidation solved by exact"] > 8
    assert counts["certificates forged"] > 3


def trace(*jobs: tuple[float, int, float], gpus: float = 2, **fields: Any) -> dict[str, Any]:
    """Return jobs a, b, … of (arrival, tasks of a GPU, duration)."""
    plain = {"schema_version": 1, "kind": "scheduling", "name": "t", "resources": {"gpu": gpus}}
    return {**plain, "jobs": rigid_jobs(*jobs), **fields}


SHORT_LATER = trace((0, 2, 10), (1, 2, 2))
SERVERS = {"resources": {}, "servers": [{"name": f"s{k}", "capacity": {"gpu": 1}} for k in range(2)]}


@pytest.mark.parametrize(
    ("data", "best"),
    [
        (SHORT_LATER, Fraction(12 + 2, 2)),
        ({**SHORT_LATER, "preemption": "none"}, Fraction(13 + 2, 2)),
        ({**SHORT_LATER, "preemption": "costs", "restart_s": 1}, Fraction(13 + 2, 2)),
        ({**SHORT_LATER, "lease_s": 4}, Fraction(13 + 2, 2)),
        ({**SHORT_LATER, "objective": "makespan"}, 12),
        (trace((0, 2, 2), (0, 1, 8), (0, 2, 6)), Fraction(2 + 8 + 16, 3)),
        ({**trace((0, 2, 4)), **SERVERS}, 4),
        (trace((0, 2, 4), events=[{"at_s": 3, "change": {"gpu": -1}}, {"at_s": 5, "change": {"gpu": 1}}]), 6),
    ],
)
def test_optima_of_traces(data: dict[str, Any], best: Fraction) -> None:
    """The long job is stopped for the short one, or waits for it, where it may not be stopped for nothing."""
    assert SchedulingTruth(data).best() == best


def test_speeds_and_losses_are_known() -> None:
    """Half the speed on two servers; all work is lost at 3 s, or what is beyond the last checkpoint."""
    slow = trace((0, 2, 4), **SERVERS)
    slow["jobs"][0]["speed_by_servers"] = {1: 1, 2: 0.5}
    assert SchedulingTruth(slow).best() == 8
    events = [{"at_s": 3, "change": {"gpu": -1}}, {"at_s": 5, "change": {"gpu": 1}}]
    rules = {"preemption": "none", "evict": "restart", "events": events}
    assert SchedulingTruth(trace((0, 2, 4), **rules)).best() == 9
    assert SchedulingTruth(trace((0, 2, 4), **rules, checkpoint_s=2)).best() == 7


def segments(*rows: tuple[str, float, float], **servers: dict[str, int]) -> list[dict[str, Any]]:
    return [{"job": j, "start_s": b, "end_s": e, "servers": servers.get(j, {})} for j, b, e in rows]


@pytest.mark.parametrize(
    "plan",
    [
        segments(("a", 0, 10)),
        segments(("a", 0, 10), ("b", 5, 7)),
        segments(("a", 0, 10), ("b", 10, 11.9)),
        segments(("a", 2, 12), ("b", 0, 2)),
        segments(("a", 0, 6), ("a", 5, 9), ("b", 10, 12)),
        segments(("a", 0, 10), ("b", 10, 12), a={"x": 2}),
        segments(("a", 0, 10), ("c", 10, 12)),
    ],
)
def test_wrong_schedules_are_refuted_by_truth_and_check_alike(plan: list[dict[str, Any]]) -> None:
    """A job left out, over capacity, too short, too early, twice at a time, on no server, unknown."""
    truth = SchedulingTruth(SHORT_LATER)
    assert truth.judge(segments(("a", 0, 10), ("b", 10, 12)))[1] == []
    assert truth.judge(plan)[1] != []
    instance = parse_instance(SHORT_LATER)
    formulation = SchedulingFormulation(instance)  # type: ignore[arg-type]
    assert formulation.violations(formulation.parse_plan(plan)) != []


def test_traces_of_every_form_are_read() -> None:
    """Servers, events, leases, restarts, checkpoints, speeds, weights, scales far apart."""
    seen: Counter[str] = Counter()
    for number in range(150):
        data = KINDS["scheduling"].document(random.Random(number))
        parse_instance(data)
        for key in ("servers", "events", "lease_s", "restart_s", "checkpoint_s", "evict", "objective"):
            seen[key] += key in data
        for key in ("speed_by_servers", "weight", "tasks", "estimate_s", "skew"):
            seen[key] += any(key in job for job in data["jobs"])
        seen[data["preemption"]] += 1
        seen["apart"] += lanes.scales_apart(data)
    assert len(seen) == 16
    assert all(count >= 8 for count in seen.values()), seen


@pytest.mark.slow
def test_truths_are_found_for_most_traces() -> None:
    """Few have more that can happen than is worth looking through, and few are unclear."""
    left = 0
    for number in range(60):
        try:
            truth = KINDS["scheduling"].truth(KINDS["scheduling"].document(random.Random(number)))
            left += truth.unclear is None and truth.feasible
        except TooManyPlansError:
            continue
    assert left > 40


@pytest.mark.slow
def test_turns_on_traces_find_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results and certificates are forged as well."""
    monkeypatch.setattr(lanes, "TAMPERED", 0.3)
    counts = lanes.faultless("scheduling", "smoke:scheduling", 12)
    assert counts["scheduling instances"] > 8
