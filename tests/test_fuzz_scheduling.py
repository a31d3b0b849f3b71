"""The campaign's own truth about traces, on what can be worked out by hand, and its documents."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from fuzz import lanes
from fuzz.kinds import KINDS
from fuzz.scheduling import SchedulingTruth, document
from fuzz.truth import TooManyPlansError
from malleable_instances import rigid_jobs

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.documents import parse_instance


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
def test_optima_worked_out_by_hand(data: dict[str, Any], best: Fraction) -> None:
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
def test_wrong_plans_are_refuted_by_truth_and_check_alike(plan: list[dict[str, Any]]) -> None:
    """A job left out, over capacity, too short, too early, twice at a time, on no server, unknown."""
    truth = SchedulingTruth(SHORT_LATER)
    assert truth.judge(segments(("a", 0, 10), ("b", 10, 12)))[1] == []
    assert truth.judge(plan)[1] != []
    instance = parse_instance(SHORT_LATER)
    formulation = SchedulingFormulation(instance)  # type: ignore[arg-type]
    assert formulation.violations(formulation.parse_plan(plan)) != []


def test_documents_of_every_form_are_read() -> None:
    """Servers, events, leases, restarts, checkpoints, speeds, weights, scales far apart."""
    seen: Counter[str] = Counter()
    for number in range(150):
        data = document(random.Random(number))
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
def test_truths_are_found_for_most_documents() -> None:
    """Few have more that can happen than is worth looking through, and few are unclear."""
    left = 0
    for number in range(60):
        try:
            truth = KINDS["scheduling"].truth(document(random.Random(number)))
            left += truth.unclear is None and truth.feasible
        except TooManyPlansError:
            continue
    assert left > 40


@pytest.mark.slow
def test_turns_find_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results and certificates are forged as well."""
    monkeypatch.setattr(lanes, "TAMPERED", 0.3)
    counts = lanes.faultless("scheduling", "smoke:scheduling", 12)
    assert counts["scheduling instances"] > 8
