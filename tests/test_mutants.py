"""`make mutate` tells what tests notice from what they do not, on checks of a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants import __main__ as command
from mutants import running
from mutants.choosing import covering, noted
from mutants.operators import Mutant, mutants_of
from sample_documents import put

SOURCE = '''\
"""A check."""

MOST = 3


def compiled(function):
    return function


def few(amounts: list[int | None]) -> bool:
    """Return whether there are few."""
    return len(amounts) < MOST and largest(amounts) >= 0


@compiled
def largest(amounts):
    best = 0
    for amount in amounts:
        best = max(best, amount)
    return best


def unseen(amount):
    return -amount
'''
TEST = """\
from clusterplan.formulations.toy.check.area import few


def test_few():
    assert few([5, 1])
    assert not few([1, 2, 3])


def test_nothing():
    assert True
"""
FILE = "formulations/toy/check/area.py"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a package with one check and its test."""
    root = tmp_path_factory.mktemp("toy") / "clusterplan"
    for name, text in ((FILE, SOURCE), ("tests/test_area.py", TEST)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def mutant(before: str, after: str) -> Mutant:
    """Return one of the mutants of the check."""
    (found,) = [m for m in mutants_of(FILE, SOURCE) if (m.before, m.after) == (before, after)]
    return found


def test_mistakes_of_every_sort_are_made_at_their_places() -> None:
    """Annotations, texts and decorators are left alone; what is made can be read by Python."""
    mutants = mutants_of(FILE, SOURCE)
    assert {m.operator for m in mutants} == {
        "comparison",
        "and, or",
        "constant",
        "function",
        "return",
        "sign",
    }
    for one in mutants:
        compile(one.applied(SOURCE), FILE, "exec")
    assert "len(amounts) <= MOST" in mutant("len(amounts) < MOST", "(len(amounts) <= MOST)").applied(SOURCE)
    assert not any("None" in m.before for m in mutants)
    more = "a += 1\nx = (a - 2) * f'{a + 1}'\nf(a)\nif not a is None:\n    raise ValueError\n"
    assert {m.operator for m in mutants_of(FILE, more)} >= {"arithmetic", "statement", "not", "comparison"}
    assert "a -= 1" in [m.after for m in mutants_of(FILE, more)]


def test_to_divide_by_a_sign_is_no_mistake() -> None:
    """Where it can only be 1 or −1; to add it is one."""
    source = "x = a * (-1 if b else 1)\ny = a * (2 if b else 1)\nz = a - 1\n"
    changed = [(m.line, m.after) for m in mutants_of(FILE, source) if m.operator == "arithmetic"]
    assert changed == [(2, "(a / (2 if b else 1))"), (3, "(a + 1)")]


@pytest.mark.slow
def test_what_tests_notice_is_killed_and_what_they_do_not_survives(tree: Path, tmp_path: Path) -> None:
    """The limit is tested from both sides, the sign of amounts is not, and one function never runs."""
    notes = noted(tree, tmp_path / "notes", ("tests",))
    assert list(notes) == ["tests/test_area.py::test_few"]
    for one in (mutant("3", "4"), mutant("max", "(min)")):  # a constant of the module, a compiled function
        assert covering(tree, notes, FILE, one.line) == ["tests/test_area.py::test_few"]
    wanted = {
        mutant("len(amounts) < MOST", "(len(amounts) <= MOST)"): running.KILLED,
        mutant("3", "2"): running.KILLED,
        mutant("return best", "return None"): running.KILLED,
        mutant("max", "(min)"): running.SURVIVED,
        mutant("-amount", "(amount)"): running.UNTESTED,
    }
    copies = [running.copied(tree, tmp_path / "copy")]
    assert running.run(copies, list(wanted), notes) == list(wanted.values())
    assert (tree / FILE).read_text(encoding="utf-8") == SOURCE
    assert (copies[0] / FILE).read_text(encoding="utf-8") == SOURCE


def test_time_that_is_not_enough_counts_as_survived(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So do tests that cannot be run at all, of which one is told."""
    copy = running.copied(tree, tmp_path)
    monkeypatch.setattr(running, "AT_MOST", 0)
    assert running.tried(copy, mutant("3", "2"), 0, ["tests/test_area.py::test_few"]) == running.OUT_OF_TIME
    monkeypatch.setattr(running, "AT_MOST", 5)
    with pytest.raises(RuntimeError, match="cannot be run without any mistake"):
        running.tried(copy, mutant("3", "2"), 1, ["tests/test_area.py::test_gone"])


def test_the_page_tells_survivors_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of the same seed takes the place of the earlier one."""
    reasons = tmp_path / "reasons.json"
    reason = {
        "file": FILE,
        "text": "best = max(best, amount)",
        "before": "max",
        "after": "(min)",
        "why": "never negative",
    }
    put(reasons, [reason])
    monkeypatch.setattr(command, "REASONS", reasons)
    tried = [mutant("3", "2"), mutant("max", "(min)")]
    for _ in range(2):
        command.add(tried, [running.KILLED, running.SURVIVED], "7", tmp_path)
    page = (tmp_path / "mutants.md").read_text(encoding="utf-8")
    assert "| 7 | 2 | 1 | 1 | 1 |" in page
    assert "| `max` → `(min)` | survived | never negative |" in page
