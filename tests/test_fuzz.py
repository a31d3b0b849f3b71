"""The campaign of `make fuzz` finds what is planted: wrong bounds, false proofs, crashes, forgeries."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from device_instances import job
from fuzz import campaign, checks, forging, lanes, reading, record
from fuzz.allocation import AllocationTruth
from fuzz.checks import Finding
from fuzz.consolidation_truth import ConsolidationTruth
from fuzz.kinds import KINDS, features
from fuzz.shrinking import shrunk
from fuzz.staging import StagingTruth

from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.documents import parse_instance
from clusterplan.planner.api import solve
from clusterplan.planner.verification import Verification
from clusterplan.solvers.common.result import Result

ALLOCATION: dict[str, Any] = yaml.safe_load("""
schema_version: 1
kind: allocation
name: two
resources: {gpu: 0.3}
jobs:
- name: a
  remaining_steps: 10
  variants: &variants
  - name: v
    worker_demand: {gpu: 0.1}
    speed: {model: table, rows: [{workers: 1, steps_per_s: 1}, {workers: 2, steps_per_s: 2}]}
- {name: b, remaining_steps: 10, variants: *variants}
""")
STAGING: dict[str, Any] = yaml.safe_load("""
schema_version: 1
kind: staging
name: two
training: {samples: 3600}
probe_batch: 1
types: [{name: s, price_usd_per_hour: 1, limit: 2}, {name: t, price_usd_per_hour: 4, limit: 2}]
layers:
- {name: l, compute_s: {s: 4, t: 1}, compute_parallel: 1}
- {name: m, compute_s: {s: 2}, compute_parallel: 0.5}
""")
CONSOLIDATION: dict[str, Any] = yaml.safe_load("""
schema_version: 1
kind: consolidation
name: two
objectives: [value, servers, migrations]
servers: [{name: n, count: 2, capacity: {gpu: 3}}]
jobs:
- {name: a, tasks: 2, task_demand: {gpu: 1}, current: {n-0: 2}}
- {name: b, tasks: 1, task_demand: {gpu: 2}, value: 2.5}
""")


def test_all_plans_of_documents_worked_out_by_hand() -> None:
    """Optima that fit on a page, among them a sum that fills a capacity by the slack alone."""
    allocation = AllocationTruth(ALLOCATION)
    assert sorted(len(menu) for menu in allocation.menus.values()) == [2, 2]
    assert [costs[0] / allocation.unit for costs, _ in allocation.plans] == [20, 15, 15]
    assert allocation.best() == 15
    staging = StagingTruth(STAGING)
    # s alone: one unit takes 6 s at 1 USD/h, two take 3.5 s at 2 USD/h; with t for the first layer, 2 s at 5.
    assert staging.best() == 6
    assert StagingTruth({**STAGING, "throughput_floor_samples_per_s": 0.25}).best() == 7
    assert StagingTruth({**STAGING, "objective": "throughput"}).best() == Fraction(2, 3)
    consolidation = ConsolidationTruth(CONSOLIDATION)
    assert consolidation.best() == 4.5
    best = min(costs for costs, _ in consolidation.plans)
    assert consolidation.values(best) == [4.5, 2, 0]


@pytest.mark.parametrize(
    ("excess", "certain", "possible"), [(0, True, True), (1e-9, False, True), (1.01e-9, False, False)]
)
def test_plans_within_the_slack_are_left_open(excess: float, certain: bool, possible: bool) -> None:
    """What lies at the slack itself is neither refuted nor demanded; 1 % beyond it, it is forbidden."""
    data = {**ALLOCATION, "resources": {"gpu": 0.4 / (1 + excess)}}
    largest = max(AllocationTruth(data).plans, key=lambda plan: -plan[0][0])
    assert (largest[0][0] / AllocationTruth(data).unit == 10) == possible
    assert (possible and largest[1]) == certain


@pytest.mark.parametrize(
    "kind", [*sorted(KINDS.keys() - {"scheduling"}), pytest.param("scheduling", marks=pytest.mark.slow)]
)
def test_a_turn_finds_nothing_wrong_with_right_answers(kind: str) -> None:
    """Twenty instances of each kind are solved, and results tampered with, without a false alarm."""
    counts = lanes.faultless(kind, "smoke", 20)
    assert counts[f"{kind} solved by exact"] > 15
    assert counts["results forged"] > 5


def with_records(result: Result, **figures: Any) -> Result:
    """Return the result with other figures in its first record, and in its headline."""
    first, *others = result.objectives
    changed = (first.model_copy(update=figures), *others)
    found = result.model_copy(update={"objectives": changed})
    deciding = found.deciding
    headline = {key: getattr(deciding, key) for key in ("bound", "gap", "certified_bound", "certified_gap")}
    return found.model_copy(update={**headline, "objective": deciding.value})


def claims_that_the_worst_is_best(result: Result) -> Result:
    """Return a plan of 20 job-seconds, said to be optimal."""
    instance = parse_instance({**ALLOCATION, "resources": {"gpu": 0.2}})
    poor = solve(instance, "exact")
    assert poor.objective == 20
    return poor.model_copy(update={"instance_sha256": result.instance_sha256})


def has_a_bound_beyond(result: Result) -> Result:
    """Return the result with a bound that is a hair above its value, and the gap that goes with it."""
    bound = 15 * (1 + 1e-8)
    return with_records(result, bound=bound, gap=abs(15 - bound) / 15)


def proves_that_there_is_none(result: Result) -> Result:
    """Return the claim that there is no plan."""
    nothing = {"plan": None, "objectives": (), "objective": None, "bound": None, "gap": None}
    more = {"certified_bound": None, "certified_gap": None, "plan_sha256": None, "status": "infeasible"}
    return result.model_copy(update={**nothing, **more})


def breaks_a_capacity(result: Result) -> Result:
    """Return the plan with two workers for every job."""
    plan = tuple(entry.model_copy(update={"workers": 2, "completion_s": 5.0}) for entry in result.plan)
    return result.model_copy(update={"plan": plan})


@pytest.mark.parametrize(
    ("plant", "check"),
    [
        (claims_that_the_worst_is_best, "bound"),
        (has_a_bound_beyond, "bound"),
        (proves_that_there_is_none, "infeasible"),
        (breaks_a_capacity, "plan"),
        (
            lambda result: with_records(result, certified_bound=15.1, certified_gap=0.1 / 15),
            "certified bound",
        ),
        (lambda result: with_records(result, value=15.1, gap=0.1 / 15.1), "value"),
        (lambda result: with_records(result, gap=0.5), "gap"),
        (lambda result: with_records(result, proven=False), "proven"),
        (lambda result: result.model_copy(update={"status": "feasible"}), "status"),
        (lambda result: result.model_copy(update={"objective": 14.0}), "headline"),
        (lambda result: result.model_copy(update={"status": "error", "plan": None}), "error"),
        (lambda result: 1 / 0, "exception"),
    ],
)
def test_planted_answers_are_found(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[Result], Result], check: str
) -> None:
    """A solver that answers wrongly is found out by the check that is meant for it."""
    monkeypatch.setattr(checks, "solve", lambda *given: plant(solve(*given)))
    instance, truth = parse_instance(ALLOCATION), AllocationTruth(ALLOCATION)
    _, found = checks.solved(instance, truth, "exact", {"threads": 1})
    assert check in {finding.check for finding in found}, found


def test_a_warning_and_a_refusal_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """`exact` may neither warn nor refuse an instance; other methods may refuse with a reason."""
    instance, truth = parse_instance(ALLOCATION), AllocationTruth(ALLOCATION)
    _, found = checks.solved(instance, truth, "exact", {"threads": 1, "method_options": {"nonsense": 1}})
    assert [finding.check for finding in found] == ["refused"]
    assert checks.solved(instance, truth, "minlp", {}) == (None, [])

    def warns(*given: Any) -> Result:
        import warnings

        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
        return solve(*given)

    monkeypatch.setattr(checks, "solve", warns)
    assert [finding.check for finding in checks.solved(instance, truth, "exact", {})[1]] == ["warning"]


def forged_checks(check: Callable[..., Any], make: Callable[..., Any]) -> list[Finding]:
    """Return what is found in thirty rounds of forgeries of one result."""
    instance, truth = parse_instance(ALLOCATION), AllocationTruth(ALLOCATION)
    result, rng = solve(instance, "exact"), random.Random(1)
    forged = [data for _ in range(30) for data in make(rng, result)]
    return [finding for data in forged for finding in check(instance, truth, data)]


def test_a_check_that_accepts_everything_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where verify says yes to all, false acceptances are found; where it raises, exceptions."""

    def accepts(instance: Any, data: Any, source: str) -> Verification:
        return Verification.model_construct(instance=instance.name, ok=True, complete=True)

    def raises(*_: Any) -> Verification:
        raise KeyError("kind")

    monkeypatch.setattr(forging, "verify_stored", accepts)
    assert "false acceptance" in {f.check for f in forged_checks(forging.accepted, forging.forgeries)}
    monkeypatch.setattr(forging, "verify_stored", raises)
    assert {f.check for f in forged_checks(forging.accepted, forging.forgeries)} == {"exception"}


def test_a_certificate_that_proves_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the derived bound believes the certificate's cutoff, false acceptances are found."""

    def believes(self: Any, certificate: Any, values: Any = None) -> tuple[float | None]:
        cutoff = certificate.get("cutoff")
        return (cutoff if isinstance(cutoff, float) and math.isfinite(cutoff) else None,)

    monkeypatch.setattr(AllocationFormulation, "certified_bounds", believes)
    found = forged_checks(forging.certified, forging.forged_certificates)
    assert "false acceptance" in {finding.check for finding in found}


def test_readers_that_fail_or_take_long_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that is not for the user, and a reader that takes its time, are found; words are fine."""
    files = reading.unpacked("philly", {"philly.csv": "x"})
    assert list(reading.read(files, "load")) == []
    monkeypatch.setattr(reading, "LONGEST_S", -1.0)
    assert [finding.check for finding in reading.read(files, "load")] == ["slow"]
    monkeypatch.setattr(reading, "LONGEST_S", 60.0)
    monkeypatch.setitem(reading.READERS, "philly", lambda folder: {}["nothing"])
    assert [finding.check for finding in reading.read(files, "load")] == ["exception"]

    def says(text: str) -> None:
        raise OptionError(text)

    for text, check in (("\x1b[2J", "control characters"), ("", "no words")):
        monkeypatch.setitem(reading.READERS, "philly", lambda folder, text=text: says(text))
        assert [finding.check for finding in reading.read(files, "load")] == [check]


def test_a_command_that_crashes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An internal error of the command, and what could command a terminal, are found; a fault is fine."""
    files = reading.unpacked("document", {"instance.json": "{}"})
    assert list(reading.read(files, reading.COMMANDS["document"][0])) == []

    def crashes() -> None:
        raise ValueError("an odd value")

    def commands() -> None:
        raise SystemExit(print("\x1b[2J"))

    for main, check in ((crashes, "exception"), (commands, "control characters")):
        monkeypatch.setattr(f"clusterplan.planner.cli.main.{'app' if main is crashes else 'main'}", main)
        assert [f.check for f in reading.read(files, reading.COMMANDS["document"][0])] == [check]


def test_damaged_files_are_read_or_refused() -> None:
    """A hundred damaged files of all sorts end in an instance or in words."""
    for number in range(100):
        turn = lanes.read_one(random.Random(f"smoke:{number}"))
        assert not turn.failures, (number, [finding for finding, _ in turn.failures])


def test_failures_are_made_small_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document shrinks to what matters, is kept in one file for each sort, and can be tried again."""
    data = {"jobs": [{"name": "a", "n": 3.14159}, {"name": "b"}], "x": [1, 2, {"y": 5}], "z": 123456}
    assert shrunk(data, lambda d: "y" in str(d) and any(v == 5 for v in d["x"][-1].values()), 5) == {
        "x": [{"y": 5}]
    }

    def answers(*given: Any) -> Result:
        result = solve(*given)
        return with_records(result, certified_bound=1e6, certified_gap=1.0) if result.plan else result

    monkeypatch.setattr(checks, "solve", answers)
    case = {"lane": "solve", "instance": ALLOCATION, "solver": "exact", "options": {"threads": 1}}
    finding = next(f for f in lanes.retried(case) if f.check == "certified bound")
    sort = lanes.sort_of(finding, case)
    small = lanes.smallest(case, sort, 3)
    assert len(small["instance"]["jobs"]) == 1
    first, again = (lanes.keep(tmp_path, sort, finding, small, "1:allocation:0") for _ in range(2))
    assert first == again
    ((_, stored),) = lanes.kept(tmp_path)
    assert any(lanes.sort_of(f, stored) == sort for f in lanes.retried(stored))


def test_a_campaign_counts_and_outlives_its_workers(tmp_path: Path) -> None:
    """Turns of a process are counted and written to a page; one that dies is noticed."""
    tally = campaign.run("smoke", ["files", "staging"], 5, 1, tmp_path / "kept", turns=8)
    assert tally.counts["files damaged"] > 0
    assert not tally.failures, tally.files
    record.add(tally, {"seed": "smoke", "minutes": 5, "workers": 1}, tmp_path)
    record.add(tally, {"seed": "smoke", "minutes": 5, "workers": 1}, tmp_path)
    text = (tmp_path / "fuzz.md").read_text(encoding="utf-8")
    assert f"| all | {tally.counts['files damaged']:,} |" in text
    worker = campaign.Worker("smoke", ["files"], 0, 1)
    worker.start()
    worker.process.kill()
    end, lost = time.monotonic() + 60, None
    while lost is None and time.monotonic() < end:
        lost = campaign._listen(worker, tally, tmp_path)
    assert lost == "ended with exit code -9"
    worker.stop()


def test_turns_are_the_same_again() -> None:
    """A label stands for the same document and the same damage, always."""
    assert campaign.turn("smoke:staging:1").counts == campaign.turn("smoke:staging:1").counts
    assert reading.damaged_specimen(random.Random("a:files:4")) == reading.damaged_specimen(
        random.Random("a:files:4")
    )


SCARCE = {
    **{**CONSOLIDATION, "objectives": ["value"]},
    "servers": [{"name": "n", "count": 2, "capacity": {"gpu": 1}}],
    "jobs": [job(f"j{value}", value=value) for value in (5, 3, 2, 1)],
}
WHOLE: dict[str, Any] = yaml.safe_load("""
schema_version: 1
kind: scheduling
name: whole
resources: {gpu: 2}
jobs: [{name: j1, demand: {gpu: 1}, duration_s: 1}, {name: j2, demand: {gpu: 2}, duration_s: 1}]
""")


@pytest.mark.parametrize(
    ("data", "low", "right"),
    [
        (SCARCE, {"prices": {"empty server of 1 gpu": 1.9}}, {"prices": {"empty server of 1 gpu": 2.0}}),
        (SCARCE, {"prices": {"empty server of 1 gpu": -0.1}}, {}),
        (
            {**ALLOCATION, "resources": {"gpu": 0.2}},
            {"message": "one more gpu saves at most 0.0027 job-hours"},
            {"message": "one more gpu saves at most 0.00278 job-hours"},
        ),
        (WHOLE, {"prices": {"gpu": 0.0}}, {"prices": {"gpu": 5.0}}),
    ],
)
def test_prices_that_are_too_low_are_found(
    data: dict[str, Any], low: dict[str, Any], right: dict[str, Any]
) -> None:
    """One more server adds 2, one more GPU saves 10 job-seconds, or 0.5 s of the mean."""
    truth = KINDS[data["kind"]].truth(data)
    result = solve(parse_instance(data), "exact")
    assert result.prices
    done = checks.compared(truth, result.model_copy(update=right))
    assert done.counts[f"{data['kind']} prices compared of what wins something"] > 0
    assert not done.wrong
    assert checks.compared(truth, result.model_copy(update=low)).wrong


@pytest.mark.slow
def test_a_campaign_ends_with_enough_instances(tmp_path: Path) -> None:
    """Files have no target of their own, and come along."""
    tally = campaign.run("enough", ["files", "allocation"], 5, 1, tmp_path, instances=3)
    assert 3 <= tally.counts["allocation instances"] <= 5
    page = record.page(
        [{"seed": "enough", "minutes": 1, "workers": 1, "counts": tally.counts, "failures": {}}]
    )
    assert "What instances have" in page


@pytest.mark.parametrize("kind", KINDS)
def test_documents_have_what_makes_them_hard(kind: str) -> None:
    """A fifth of the consolidation documents have jobs that stay beside what moves cost."""
    seen = Counter(
        name for number in range(200) for name in features(KINDS[kind].document(random.Random(number)))
    )
    assert all(count >= 5 for count in seen.values()), seen
    if kind == "consolidation":
        assert seen["staying jobs and restart costs"] >= 40
        assert min(seen["devices"], seen["pinned jobs"], seen["running jobs on devices"]) >= 10
