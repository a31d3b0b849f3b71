"""A budget that only falls: no place has more nodes, files or folders than it had."""

from __future__ import annotations

from pathlib import Path

import budget
import pytest
from budget import PLACES, Size, nodes, size

MOST: dict[str, tuple[int, int, int]] = {
    # A fifth kind, mix, raised all places.
    "instances": (136_515, 112, 18),
    "formulations": (89_303, 78, 12),
    "solvers": (141_541, 112, 13),  # two files until the former contracts of policies go
    "planner": (72_244, 83, 11),
    # Frontiers of servers, against brute force; checks of what a smaller check must not lose.
    # Frontiers, messages and extreme figures of a mix.
    "tests": (381_287, 287, 57),
    # Replicas of stages and predictions of single operators came from instances, as nothing else uses them.
    "benchmarks": (37_543, 34, 1),
    "root": (438, 2, 1),
}
"""AST nodes, files and folders of each place. A change may lower a number. What raises one has to say why."""


def excess(place: str, one: Size) -> list[str]:
    """Return what a place has too much of."""
    pairs = zip(
        ("AST nodes", "files", "folders"), (one.nodes, one.files, one.folders), MOST[place], strict=True
    )
    return [f"{place}: {found:,} {what}, at most {most:,}" for what, found, most in pairs if found > most]


@pytest.mark.parametrize("place", PLACES)
def test_a_place_keeps_its_budget(place: str) -> None:
    """Reuse what there is, and delete what is replaced; `make count` prints all sizes."""
    assert excess(place, size(place)) == []


def test_one_node_too_many_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any file of a place; a comment or a docstring more costs nothing."""
    (tmp_path / "solvers").mkdir()
    file = tmp_path / "solvers" / "method.py"
    monkeypatch.setattr(budget, "ROOT", tmp_path)
    monkeypatch.setitem(MOST, "solvers", (4, 1, 1))
    file.write_text("x = 1\n")  # module, assignment, name, number
    assert excess("solvers", size("solvers")) == []
    file.write_text('"""What it is."""\n\nx = 1  # why\n"""What it holds."""\n')
    assert excess("solvers", size("solvers")) == []
    file.write_text("x = 12\ny: int\n")
    assert excess("solvers", size("solvers")) == ["solvers: 7 AST nodes, at most 4"]
    file.write_text("x = 1\n")
    (tmp_path / "solvers" / "other.py").touch()
    assert excess("solvers", size("solvers")) == [
        "solvers: 5 AST nodes, at most 4",
        "solvers: 2 files, at most 1",
    ]


def test_what_counts() -> None:
    """Texts that stand alone do not, others do; how a name is used does not."""
    assert nodes('"""A module."""') == 1
    assert nodes('f("a text")') == 5  # module, expression, call, name, text
    assert nodes("del x") == nodes("x") == 3


def test_the_sizes_are_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each place, with its data beside."""
    monkeypatch.setattr(budget, "size", lambda place: Size(1, 1, 1, 0.0))
    budget.main()
    head, *lines = capsys.readouterr().out.splitlines()
    assert "AST nodes" in head
    assert [line.split()[0] for line in lines] == [*PLACES]
