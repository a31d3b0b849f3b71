"""Results whose figures are claimed, not proven: from commands, and on frontiers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Command
from forgeries import BUSY, altered, stored
from random_instances import RANDOM
from sample_documents import CONSOLIDATION, DOCUMENT, put

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.planner.batch.solve_many import Journal, read_journal
from clusterplan.planner.cli.solving import summary
from clusterplan.planner.findings import Verification
from clusterplan.planner.stored_results import sealed, verify_stored
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.common.conclude import conclude
from clusterplan.solvers.common.result import SolveOptions


def claimed(**changes: Any) -> str:
    """Write an instance and a result whose bound nobody can derive again; return the result as a line."""
    put("d.yaml", CONSOLIDATION)
    instance = clusterplan.parse_instance(CONSOLIDATION)
    formulation = formulate(instance)
    empty = [
        entry.model_copy(update={"placed": False, "servers": {}, "groups": None}) for entry in best(instance)
    ]
    result = conclude(formulation, "exact", SolveOptions(), Outcome(empty, formulation.evaluate(empty)), 0.1)
    assert result.status == "optimal"
    line = json.dumps({**json.loads(result.to_json()), **changes})
    Path("r.json").write_text(line)
    return line


def best(instance: clusterplan.Instance) -> Any:
    """Return the best plan."""
    return clusterplan.solve(instance, "exact").plan


def test_verify_exits_8_and_accept_claimed_makes_it_0(run: Command) -> None:
    """Between verified and failed: other words, another code, and an option to take it."""
    line = claimed()
    code, out, _ = run("verify", "d.yaml", "r.json")
    assert code == 8
    assert "plan verified, ONLY CLAIMED: that the plan is optimal; the bound 0 on value" in out
    assert "stated, not checked: solver, options, versions, runtime_s" in out
    code, out, _ = run("verify", "d.yaml", "r.json", "--accept-claimed", "--format", "json")
    found = json.loads(out)
    assert (code, found["ok"], found["complete"]) == (0, True, False)
    false = json.dumps({**json.loads(line), "objective": 5.0})
    good = clusterplan.solve(clusterplan.parse_instance(CONSOLIDATION), "exact").to_json()
    for lines, plain, accepting in (([good], 0, 0), ([good, line], 8, 0), ([line, false, good], 7, 7)):
        Path("r.json").write_text("\n".join(lines))
        assert run("verify", "d.yaml", "r.json")[0] == plain
        assert run("verify", "d.yaml", "r.json", "--accept-claimed")[0] == accepting
    assert "8 verified but for what is only claimed" in " ".join(run("--help")[1].split())


def test_a_page_of_a_frontier_says_it_too(run: Command) -> None:
    """Both kinds of frontier."""
    for kind, name in (("staging", "d.yaml"), ("allocation", "example:gavel-three-gpu-types")):
        put("d.yaml", DOCUMENT["staging"])
        frontier = clusterplan.pareto(clusterplan.load(name), error=0.3)
        Path("f.json").write_text(json.dumps({**json.loads(frontier.to_json()), "certified_error": None}))
        assert run("verify", name, "f.json")[0] == 8, kind
        code, _, err = run("report", name, "f.json", "--output", "page.html")
        assert (code, "ONLY CLAIMED: that no plan beats the points" in err) == (0, True)
        assert "<li>that no plan beats the points" in Path("page.html").read_text(encoding="utf-8")


def test_what_a_forger_writes_stays_in_its_line(run: Command) -> None:
    """Of the head of a Kubernetes file, where claims stand as comments."""
    put("d.yaml", BUSY)
    data = stored(clusterplan.load("d.yaml"))
    data["versions"]["clusterplan"] = "9\n---\nkind: Forged\u2028# x"
    data = altered(data, 2, reason="waits\nkind: Forged")
    code, out, _ = run("export-plan", "d.yaml", put("r.json", data), "--format", "kubernetes")
    assert code == 0
    comment, begin, *_ = out.split("\n")
    assert comment.startswith("# ONLY CLAIMED: plan[2].reason is stored as")
    assert begin == "---"
    assert "Forged" not in str(list(yaml.safe_load_all(out)))


def test_half_a_surrogate_pair_breaks_no_report(run: Command) -> None:
    """JSON may hold what is no text: it is shown escaped, in the answer and on a page."""
    put("d.yaml", CONSOLIDATION)
    data = stored(clusterplan.load("d.yaml"))
    unit, data["objectives"][0]["unit"] = data["objectives"][0]["unit"], "\ud800"
    code, out, _ = run("verify", "d.yaml", put("r.json", data), "--format", "json")
    assert code == 7
    assert "unit is stored as '\\ud800'; it is" in json.loads(out)["faults"][0]
    data["objectives"][0]["unit"] = unit
    data["options"]["backend_options"] = {"x": "\ud800"}
    assert run("report", "d.yaml", put("r.json", data), "--output", "page.html")[0] == 0


RECORD = {"source": "a", "solver": "exact", "seconds": 1.0}


@pytest.mark.parametrize(
    "line",
    [
        {**RECORD, "result": 5},
        {**RECORD, "result": []},
        {**RECORD, "result": {}},
        {**RECORD, "result": {"kind": ["staging"]}},
        {**RECORD, "result": {"kind": "staging", "plan": {"a": 1}}},
        {**RECORD, "fault": "x", "code": "none"},
        {**RECORD, "fault": "x", "code": [1]},
        {**RECORD, "seconds": "long", "fault": "x", "code": 1},
        {**RECORD, "fault": "x"},
        {"solver": "exact"},
        "[" * 100_000,
        "{",
        5,
    ],
)
def test_a_malformed_journal_is_refused_in_words(tmp_path: Path, line: Any) -> None:
    """No line of a journal, whatever it holds, ends in anything but an error for people."""
    head = sealed(json.dumps({"journal": 2, "asked": {}}))
    if isinstance(line, dict):
        (tmp_path / "journal.jsonl").write_bytes(head + sealed(json.dumps(line)))
        with pytest.raises(InstanceError, match=r"journal\.jsonl"):
            list(read_journal(tmp_path))
    else:  # without a checksum it counts for nothing
        (tmp_path / "journal.jsonl").write_bytes(head + f"{line}\n".encode())
        assert list(read_journal(tmp_path)) == []
    try:
        journal = Journal(tmp_path, {}, resume=True)
    except (InstanceError, OptionError):
        return
    for pair in journal.finished:
        with pytest.raises(InstanceError):
            journal.read(pair)
    journal.close()


def test_the_table_of_solve_tells_a_verified_plan_from_a_verified_result(run: Command) -> None:
    """A bound that only the solver vouches for is not called verified."""
    claimed()
    instance = clusterplan.load("d.yaml")
    stored_result = clusterplan.Result.model_validate_json(Path("r.json").read_text())
    for result, words in ((clusterplan.solve(instance), "verified"), (stored_result, "plan verified")):
        (line, _) = summary([result], width=80)
        assert str(line).endswith(f" s, {words}")
        (table,) = summary([result], width=200)
        assert not isinstance(table, str)
        (column,) = [column for column in table.columns if str(column.header) == "check"]
        assert str(next(iter(column.cells))) == words


ERROR = {"staging": 0.01, "allocation": 0.1}
NAMES = ("staging", "allocation")


@cache
def loaded(kind: str) -> Instance:
    """Return an instance of a kind."""
    if kind == "staging":
        return generate_staging(6, 3, "loose", seed=5)
    return clusterplan.load("example:gavel-three-gpu-types")


@cache
def text_of(kind: str) -> str:
    """Return its frontier as JSON."""
    return clusterplan.pareto(loaded(kind), error=ERROR[kind]).to_json()


def stored_frontier(of: str, **changes: Any) -> dict[str, Any]:
    """Return the frontier of a kind as plain data, with other fields."""
    return {**json.loads(text_of(of)), **changes}


def checked(kind: str, data: Any) -> Verification:
    """Return what the check finds."""
    return verify_stored(loaded(kind), data, "f.json")


KINDS = pytest.mark.parametrize("kind", NAMES)


@KINDS
def test_a_frontier_is_complete_and_says_its_error(kind: str) -> None:
    """Everything is derived again; an error above the default stands beside the verdict."""
    found = checked(kind, stored_frontier(kind))
    assert found.complete
    assert found.verdict == f"verified; complete means an error of at most {ERROR[kind]} here"


@KINDS
def test_an_error_that_is_not_certified_is_claimed(kind: str) -> None:
    """Without a certified error, or with a larger one, that the frontier is complete is a claim."""
    for wrong in (None, 0.9):
        found = checked(kind, stored_frontier(kind, certified_error=wrong))
        assert found.ok
        assert not found.complete
        assert found.claimed[0].startswith("that no plan beats the points by more than 0.")
        assert found.verdict.startswith("plan verified, ONLY CLAIMED: ")


@KINDS
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"instance": "other"}, "instance is stored as 'other'"),
        ({"points": [], "certified_error": None}, "status is stored as complete, without points"),
        ({"status": "infeasible"}, "status is stored as infeasible, with points"),
        ({"diagnosis": {"reasons": ["none"]}}, "diagnosis says why there is no plan"),
        ({"points": [], "status": "partial"}, "certified_error is given, without points"),
        ({"error": 1e9}, "error: is 1000000000.0"),
        ({"kind": None}, "kind: is None"),
        ({"points": None}, "points: "),
    ],
)
def test_what_does_not_go_together_is_false(kind: str, changes: dict[str, Any], words: str) -> None:
    """Status, points, error and diagnosis agree with each other."""
    found = checked(kind, stored_frontier(kind, **changes))
    assert any(words in fault for fault in found.faults), found


@KINDS
def test_that_no_plan_exists_is_refuted_by_a_plan(kind: str) -> None:
    """A quick method finds one, and is named."""
    nothing = {"points": [], "certified_error": None, "status": "infeasible"}
    nothing |= {"certificate": []} if kind == "staging" else {"others": [], "current": None}
    found = checked(kind, stored_frontier(kind, **nothing))
    assert "finds a plan" in found.faults[0]


def test_that_no_plan_is_so_cheap_is_derived_or_claimed() -> None:
    """A plan that costs more than was asked for refutes nothing; the certificate proves it or does not."""
    instance = loaded("staging")
    cheapest = stored_frontier("staging")["points"][-1]["cost_usd"]
    frontier = clusterplan.pareto(instance, most_usd=cheapest * 0.9)
    assert frontier.status == "infeasible"
    data = json.loads(frontier.to_json())
    found = checked("staging", data)
    assert found.complete, found
    assert any("the certificate prove" in line for line in found.confirmed)
    assert found.verdict == f"verified; infeasible means no plan of at most {cheapest * 0.9:g} USD here"
    found = checked("staging", {**data, "most_usd": cheapest * 10})
    assert "finds a plan" in found.faults[0]
    found = checked("staging", {**data, "certificate": [{"until_s": -1}]})
    assert any(fault.startswith("certificate: ") for fault in found.faults)


def test_that_no_plan_exists_is_only_claimed_where_no_quick_method_finds_one() -> None:
    """A feasible instance whose plans need a cut that the quick methods never make."""
    instance = RANDOM["staging"](3)
    nothing = {"points": [], "certified_error": None, "status": "infeasible", "certificate": []}
    data = {
        **stored_frontier("staging"),
        **nothing,
        "instance": instance.name,
        "instance_sha256": instance.sha256(),
    }
    found = verify_stored(instance, data, "f.json")
    assert (found.ok, found.complete) == (True, False)
    assert found.verdict == "ONLY CLAIMED: that no plan exists"


def test_clusters_without_a_plan_need_a_proof() -> None:
    """That a cluster has no plan is a claim, whatever else is left out of its record."""
    data = stored_frontier("allocation")
    *kept, cheapest = data["points"]
    none = {name: cheapest[name] for name in ("rate_usd_per_hour", "capacities")} | {"no_plan": True}
    found = checked("allocation", {**data, "others": [*data["others"], none]})
    assert any("has no plan, although there is a point that costs no more" in f for f in found.faults)
    data |= {"points": kept, "others": [*data["others"], none], "certified_error": None, "status": "partial"}
    found = checked("allocation", data)
    assert found.claimed == ("that 1 clusters have no plan",)


def test_a_bound_of_the_own_cluster_is_a_claim_too() -> None:
    """Its bound counts like those of the points."""
    data = stored_frontier("allocation")
    assert data["current"]["certified_bound_s"] is not None
    data["current"] |= {"certificate": None, "certified_bound_s": None, "prices": None}
    found = checked("allocation", data)
    assert found.claimed == ("the bounds bound_s of 1 clusters, which are higher than the certified ones",)


@pytest.mark.parametrize("mix", ["fixed", "any"])
def test_the_cost_of_a_cluster_and_the_form_of_its_plan_are_derived(mix: Any) -> None:
    """A cost that is off by less than a step, and a plan that is not as it is stored, are false."""
    data = json.loads(clusterplan.pareto(loaded("allocation"), error=0.4, mix=mix).to_json())
    assert checked("allocation", data).complete
    point = data["points"][-1]
    turned = {**point, "plan": point["plan"][::-1]}
    timeless = {**point, "plan": [{**entry, "completion_s": None} for entry in point["plan"]]}
    dearer = {**point, "rate_usd_per_hour": point["rate_usd_per_hour"] * (1 + 1e-7)}
    for wrong in (turned, timeless, dearer):
        found = checked("allocation", {**data, "points": [*data["points"][:-1], wrong]})
        assert not found.ok
    data["others"][-1]["rate_usd_per_hour"] *= 1 + 1e-7
    assert not checked("allocation", data).ok


def test_an_end_that_was_asked_for_is_said_beside_the_verdict() -> None:
    """A frontier that stops at a cost is complete up to there alone, and has no point beyond."""
    data = stored_frontier("staging")
    cheapest = data["points"][-1]["cost_usd"]
    data |= {"points": data["points"][-1:], "most_usd": cheapest * 1.000001}
    found = checked("staging", data)
    assert found.complete, found
    words = f"an error of at most 0.01 for all plans of at most {data['most_usd']:g} USD"
    assert found.verdict == f"verified; complete means {words} here"
    found = checked("staging", {**data, "most_usd": 0.5 * cheapest})
    assert "points: there are plans dearer than most_usd" in found.faults[0]


def test_infeasible_frontiers_are_derived_again() -> None:
    """On tiny instances that have no plan at all, counting or the certificate shows it every time."""
    found = 0
    for seed in range(40):
        instance = RANDOM["staging"](seed)
        frontier = clusterplan.pareto(instance)
        if frontier.status == "infeasible":
            found += 1
            verification = verify_stored(instance, json.loads(frontier.to_json()), "f.json")
            assert verification.complete, (seed, verification)
    assert found > 3
