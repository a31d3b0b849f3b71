"""What users get is what is recorded; and a comparison that would not notice a change fails here."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from recorded import __main__ as command
from recorded import store
from recorded.__main__ import PARTS
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


def _altered(outcome: Outcome, path: Sequence[Any]) -> str:
    """Alter what is at a place: a number, a text, or a verdict; return how the place is called."""
    holder = outcome
    for step in path[:-1]:
        holder = holder[step]
    old = holder[path[-1]]
    altered = {"refused": "verified"}.get(old, f"{old}x") if not isinstance(old, int | float) else None
    holder[path[-1]] = altered or (old + 1 if isinstance(old, int) else old * (1 + 1e-6))
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]


def _middle(key: str, least: int = 3) -> Callable[[Outcome], Any]:
    """Return what finds the middle line of a list with more lines than so many."""
    return lambda outcome: len(outcome[key]) > least and (key, len(outcome[key]) // 2)


def _a_default(outcome: Outcome) -> Any:
    options = outcome.get("options", {})
    return next(
        (("options", key, "default") for key in options if options[key].get("default") is not None), None
    )


def _a_written_line(outcome: Outcome) -> Any:
    return next((("files", name, len(lines) // 2) for name, lines in outcome["files"].items()), None)


def _a_bound(outcome: Outcome) -> Any:
    found = outcome.get("objectives")
    return found and found[0]["certified_bound"] and ("objectives", 0, "certified_bound")


CHANGED: dict[str, tuple[str, Callable[[Outcome], Any]]] = {
    "the value of a plan": ("solves", lambda found: found.get("objectives") and ("objectives", 0, "value")),
    "a certified bound": ("solves", _a_bound),
    "the plan of a heuristic": ("solves", lambda found: found.get("plan_sha256") and ["plan_sha256"]),
    "an accepted forgery": (
        "certificates",
        lambda found: "refused" in found["forgeries"] and ("forgeries", found["forgeries"].index("refused")),
    ),
    "a stored result that is refused": ("certificates", lambda _: ["result"]),
    "a line of a document": ("imports", _middle("stdout")),
    "a line of a script": ("exports", _middle("stdout")),
    "a line of a page": ("pages", _a_written_line),
    "a message": ("refusals", _middle("stderr", 1)),
    "an exit code": ("refusals", lambda _: ["exit code"]),
    "the default of an option": ("surface", _a_default),
}
"""A change → its part, and the place of it in an outcome that has it."""


@pytest.mark.parametrize("change", CHANGED)
def test_a_change_is_found_and_named(change: str) -> None:
    """By the file, the case and the field; the outcome is computed, what is recorded of it is altered."""
    part, path_in = CHANGED[change]
    known = {case.name: stored(part)[case.name] for case in cases_of(part) if case.quick and case.possible}
    name = next(name for name, outcome in known.items() if path_in(outcome))
    recorded = copy.deepcopy({name: known[name]})
    place = _altered(recorded[name], path_in(recorded[name]))
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
