"""What is only claimed on the command line: exit codes, words, pages, exported plans and journals."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from forgeries import BUSY, altered, stored
from sample_documents import CONSOLIDATION, DOCUMENT

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.planner.batch.solve_many import Journal, read_journal
from clusterplan.planner.cli import main as cli
from clusterplan.planner.cli.solving import summary
from clusterplan.planner.stored_results import sealed
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.common.conclude import conclude
from clusterplan.solvers.common.result import SolveOptions

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Return a function that runs the command in this process, inside an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["clusterplan", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        seen = capsys.readouterr()
        assert "internal error" not in seen.err, seen.err
        return int(stop.value.code or 0), seen.out, seen.err

    return call


def claimed(**changes: Any) -> str:
    """Write an instance and a result whose bound nobody can derive again; return the result as a line."""
    Path("d.yaml").write_text(yaml.safe_dump(CONSOLIDATION, allow_unicode=True))
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


def test_a_page_says_what_is_only_claimed(run: Command) -> None:
    """`report` goes on, says it on stderr, and the page does not call the plan proven."""
    claimed()
    code, _, err = run("report", "d.yaml", "r.json", "--output", "page.html")
    assert code == 0
    assert "ONLY CLAIMED: that the plan is optimal" in err
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Only claimed by the solver, not proven here" in page
    assert "<li>that the plan is optimal</li>" in page
    assert "optimal: not all of it is proven here" in page
    assert "proven optimal" not in page
    Path("r.json").write_text(clusterplan.solve(clusterplan.load("d.yaml")).to_json())
    assert run("report", "d.yaml", "r.json", "--output", "page.html")[2] == "written: page.html\n"
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Only claimed" not in page
    assert "proven optimal" in page


def test_a_page_says_by_which_gap_a_plan_is_optimal(run: Command) -> None:
    """A wide gap that was asked for stands where else `proven optimal` would."""
    Path("d.yaml").write_text(yaml.safe_dump(DOCUMENT["staging"], allow_unicode=True))
    result = clusterplan.solve(clusterplan.load("d.yaml"), "exact", SolveOptions(gap=0.5))
    Path("r.json").write_text(result.to_json())
    assert run("report", "d.yaml", "r.json", "--output", "page.html")[0] == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert '<span class="chip fair">optimal means a gap of at most 0.5 here' in page


def test_a_page_of_a_frontier_says_it_too(run: Command) -> None:
    """Both kinds of frontier."""
    for kind, name in (("staging", "d.yaml"), ("allocation", "example:gavel-three-gpu-types")):
        Path("d.yaml").write_text(yaml.safe_dump(DOCUMENT["staging"], allow_unicode=True))
        frontier = clusterplan.pareto(clusterplan.load(name), error=0.3)
        Path("f.json").write_text(json.dumps({**json.loads(frontier.to_json()), "certified_error": None}))
        assert run("verify", name, "f.json")[0] == 8, kind
        code, _, err = run("report", name, "f.json", "--output", "page.html")
        assert (code, "ONLY CLAIMED: that no plan beats the points" in err) == (0, True)
        assert "<li>that no plan beats the points" in Path("page.html").read_text(encoding="utf-8")


def test_an_exported_plan_says_what_is_only_claimed(run: Command) -> None:
    """On stderr, in JSON, and at the head of a Kubernetes file; what a forger writes stays in its line."""
    Path("d.yaml").write_text(yaml.safe_dump(BUSY, allow_unicode=True))
    data = stored(clusterplan.load("d.yaml"))
    assert "ONLY CLAIMED" not in run("export-plan", "d.yaml", put(data))[2]
    exported = json.loads(run("export-plan", "d.yaml", "r.json")[1])
    assert (exported["complete"], exported["claimed"]) == (True, [])
    data["versions"]["clusterplan"] = "9\n---\nkind: Forged\u2028# x"
    data = altered(data, 2, reason="waits\nkind: Forged")
    code, out, err = run("export-plan", "d.yaml", put(data), "--format", "kubernetes")
    assert code == 0
    assert "ONLY CLAIMED: plan[2].reason is stored as" in err
    comment, begin, *_ = out.split("\n")
    assert comment.startswith("# ONLY CLAIMED: plan[2].reason is stored as")
    assert begin == "---"
    assert "Forged" not in str(list(yaml.safe_load_all(out)))
    exported = json.loads(run("export-plan", "d.yaml", "r.json")[1])
    assert (exported["complete"], len(exported["claimed"])) == (False, 1)
    data["status"] = "feasible"
    assert run("export-plan", "d.yaml", put(data))[0] == 7


def put(data: Any) -> str:
    """Write a result; return the name of its file."""
    Path("r.json").write_text(json.dumps(data), encoding="utf-8")
    return "r.json"


def test_half_a_surrogate_pair_breaks_no_report(run: Command) -> None:
    """JSON may hold what is no text: it is shown escaped, in the answer and on a page."""
    Path("d.yaml").write_text(yaml.safe_dump(CONSOLIDATION, allow_unicode=True))
    data = stored(clusterplan.load("d.yaml"))
    unit, data["objectives"][0]["unit"] = data["objectives"][0]["unit"], "\ud800"
    code, out, _ = run("verify", "d.yaml", put(data), "--format", "json")
    assert code == 7
    assert "unit is stored as '\\ud800'; it is" in json.loads(out)["faults"][0]
    data["objectives"][0]["unit"] = unit
    data["options"]["backend_options"] = {"x": "\ud800"}
    assert run("report", "d.yaml", put(data), "--output", "page.html")[0] == 0


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
