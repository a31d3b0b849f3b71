"""What users get is what is recorded; and a comparison that would not notice a change fails here."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from recorded import __main__ as command
from recorded import store
from recorded.parts import PARTS
from recorded.store import ABSENT, Case, Outcome, changes, differences, given, outcomes_of, stored
from sample_documents import INTERNAL

SHARES, QUICK_SHARES = 8, 2
"""The cases of a part are shared out among so many tests, which run beside each other."""
LARGEST = 15_000_000
"""Bytes of everything that is recorded."""


@cache
def cases_of(part: str) -> tuple[Case, ...]:
    """Return the cases of a part, made once in a process."""
    return tuple(PARTS[part]())


def compared(part: str, quick: bool, share: int, shares: int) -> list[str]:
    """Return in what a share of the cases of a part differs from what is recorded."""
    chosen = [case for case in cases_of(part) if case.possible and (case.quick or not quick)][share::shares]
    recorded, names = stored(part), {case.name for case in chosen}
    found = changes(part, {name: recorded[name] for name in names & recorded.keys()}, outcomes_of(chosen))
    return [str(difference) for difference in found]


@pytest.mark.parametrize("share", range(QUICK_SHARES))
@pytest.mark.parametrize("part", PARTS)
def test_some_outcomes_are_those_recorded(part: str, share: int) -> None:
    """If this fails on purpose: `make record PART=…`, and a line in the changelog that names the change."""
    assert compared(part, True, share, QUICK_SHARES) == []


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("part", PARTS)
def test_all_outcomes_are_those_recorded(part: str, share: int) -> None:
    """The quick ones once more among them."""
    assert compared(part, False, share, SHARES) == []


@pytest.mark.parametrize("part", PARTS)
def test_all_that_is_recorded_is_compared(part: str) -> None:
    """A case that is no longer made would be recorded for nothing."""
    assert {case.name for case in cases_of(part)} == stored(part).keys()


def test_wrong_inputs_of_every_command_are_answered_in_words() -> None:
    """A hundred and more: a line says what was given and what is allowed, and shows nothing of the inside."""
    commands = {case["arguments"][0] for case in given("refusals").values()}
    assert len(given("refusals")) >= 100
    assert commands >= {"solve", "compare", "pareto", "verify", "report", "diff", "export-plan", "validate"}
    assert commands >= {"schema", "solvers", "export-model", "import", "generate", "fit", "predict"}
    for name, outcome in stored("refusals").items():
        assert outcome["exit code"] in (2, 3, 4, 5, 6, 7, 8), name
        assert any(outcome["stderr"] + outcome["stdout"]), name
        for line in outcome["stderr"]:
            assert line.isprintable(), line
            assert not any(word in line for word in INTERNAL), line


def test_it_takes_little_room() -> None:
    """A checkout has to stay small."""
    assert sum(file.stat().st_size for file in store.HERE.rglob("*.*")) < LARGEST


def _first(part: str, wanted: Callable[[Outcome], Any]) -> str:
    """Return the first quick case of a part whose outcome has what is wanted."""
    recorded = stored(part)
    return next(
        case.name for case in cases_of(part) if case.quick and case.possible and wanted(recorded[case.name])
    )


def _raised(holder: Any, key: Any) -> str:
    """Make a number larger by a millionth, or a text longer; return how the place ends."""
    old = holder[key]
    holder[key] = old * (1 + 1e-6) if isinstance(old, float) else f"{old}x"
    return f"[{key}]" if isinstance(key, int) else str(key)


def _a_value(outcome: Outcome) -> str:
    return f"objectives[0].{_raised(outcome['objectives'][0], 'value')}"


def _a_bound(outcome: Outcome) -> str:
    return f"objectives[0].{_raised(outcome['objectives'][0], 'certified_bound')}"


def _a_line(key: str) -> Callable[[Outcome], str]:
    return lambda outcome: f"{key}{_raised(outcome[key], len(outcome[key]) // 2)}"


def _a_written_line(outcome: Outcome) -> str:
    (name, lines), *_ = outcome["files"].items()
    return f"files.{name}{_raised(lines, len(lines) // 2)}"


def _with_default(outcome: Outcome) -> str | None:
    """Return the name of an option that has a default."""
    options = outcome.get("options", {})
    return next((name for name, option in options.items() if option.get("default") is not None), None)


def _a_default(outcome: Outcome) -> str:
    name = _with_default(outcome)
    return f"options.{name}.{_raised(outcome['options'][name], 'default')}"


def _an_exit_code(outcome: Outcome) -> str:
    outcome["exit code"] += 1
    return "exit code"


def _a_forgery(outcome: Outcome) -> str:
    number = outcome["forgeries"].index("refused")
    outcome["forgeries"][number] = "verified"
    return f"forgeries[{number}]"


CHANGED: dict[str, tuple[str, Callable[[Outcome], Any], Callable[[Outcome], str]]] = {
    "the value of a plan": ("solves", lambda outcome: outcome.get("objectives"), _a_value),
    "a certified bound": (
        "solves",
        lambda outcome: outcome.get("objectives") and outcome["objectives"][0]["certified_bound"],
        _a_bound,
    ),
    "the plan of a heuristic": (
        "solves",
        lambda outcome: outcome.get("plan_sha256"),
        lambda outcome: _raised(outcome, "plan_sha256"),
    ),
    "an accepted forgery": ("certificates", lambda outcome: "refused" in outcome["forgeries"], _a_forgery),
    "a stored result that is refused": (
        "certificates",
        lambda outcome: True,
        lambda outcome: _raised(outcome, "result"),
    ),
    "a line of a document": ("imports", lambda outcome: len(outcome["stdout"]) > 3, _a_line("stdout")),
    "a line of a script": ("exports", lambda outcome: len(outcome["stdout"]) > 3, _a_line("stdout")),
    "a line of a page": ("pages", lambda outcome: outcome["files"], _a_written_line),
    "a message": ("refusals", lambda outcome: len(outcome["stderr"]) > 1, _a_line("stderr")),
    "an exit code": ("refusals", lambda outcome: True, _an_exit_code),
    "the default of an option": ("surface", _with_default, _a_default),
}
"""A change → its part, a case that has it, and what makes it and returns its place."""


@pytest.mark.parametrize("change", CHANGED)
def test_a_change_is_found_and_named(change: str) -> None:
    """By the file, the case and the field; the outcome is computed, what is recorded of it is altered."""
    part, wanted, make = CHANGED[change]
    name = _first(part, wanted)
    recorded = copy.deepcopy({name: stored(part)[name]})
    place = make(recorded[name])
    now = outcomes_of(case for case in cases_of(part) if case.name == name)
    found = changes(part, recorded, now)
    assert [difference.place for difference in found] == [f"{part}.json: {name}: {place}"]


def test_numbers_agree_up_to_rounding_and_nothing_else_does() -> None:
    """A truth value is no number, and a text is not the number that it shows."""
    assert [*differences({"a": 1.0, "b": [1e9]}, {"a": 1, "b": [1e9 + 0.5]}, ": ")] == []
    for one, other in ((1, True), ("1", 1), (None, 0), (1.0, 1.00001), ([1], [1, 2])):
        assert len([*differences(one, other, "x")]) == 1


def test_of_a_text_the_first_line_that_differs_is_named() -> None:
    """The rest is shifted where a line is new; a field that is gone has a name too."""
    (found,) = differences({"lines": ["a", "b", "c"]}, {"lines": ["a", "x", "b", "c"]}, "p.json: n: ")
    assert str(found) == "p.json: n: lines[1]: recorded 'b', now 'x'"
    (gone,) = differences({"lines": []}, {}, "p.json: n: ")
    assert gone.place == "p.json: n: lines"
    assert gone.now is ABSENT


def test_recording_says_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is possible is recorded anew; what is not stays as it was; the next comparison is clean."""
    answers = {"one": 1.0, "two": 2.0}
    cases = [
        *(Case(name, lambda name=name: {"value": answers[name]}) for name in answers),
        Case("three", lambda: {"value": 3.0}, possible=False),
    ]
    monkeypatch.setattr(store, "OUTCOMES", tmp_path)
    monkeypatch.setitem(command.PARTS, "toy", lambda: cases)
    store.store("toy", {"one": {"value": 1.0}, "three": {"value": 4.0}, "four": {"value": 4.0}})

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["recorded", *words])
        return command.main(), capsys.readouterr().out

    code, said = run("toy")
    assert code == 1
    assert "toy.json: two: recorded nothing, now {'value': 2.0}" in said
    code, said = run("--record", "toy")
    assert code == 0
    assert "cases: 1 new, 1 gone" in said or "cases: 1 gone, 1 new" in said
    assert run("toy") == (0, "toy: 2 cases, 0 differences\n")
    answers["two"] = 2.1
    assert run("--record", "toy")[0] == 0
    assert stored("toy") == {"one": {"value": 1.0}, "two": {"value": 2.1}, "three": {"value": 4.0}}


def test_a_part_that_is_unknown_is_a_line() -> None:
    """It lists those that there are."""
    done = subprocess.run(
        [sys.executable, "-m", "recorded", "nothing"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "there is no part 'nothing'; there are solves, " in done.stderr
