"""Which tests run a line, the quickest first."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from .recording import NOTES

TESTS = (
    "tests/formulations",
    "tests/planner/test_stored_results.py",
    "tests/planner/test_verification.py",
    "tests/test_certified_optima.py",
)
"""What is looked through; tests of methods and of the whole would come after these."""
DECORATORS = ("compiled", "compiled_in_place")
SOURCES = ("formulations/*/check/*.py", "formulations/scheduling/cost_of_work.py")
"""The checks, and tools of theirs that solvers use too."""
OWN = Path(__file__).resolve().parents[1]
Notes = dict[str, dict[str, Any]]


def noted(root: Path, folder: Path, tests: Sequence[str] = TESTS) -> Notes:
    """Return what each test runs of the checks; it is kept in the folder until tests or checks change."""
    given = [root / name for name in tests]
    sources = [path for one in given for path in (sorted(one.rglob("*.py")) if one.is_dir() else [one])]
    sources += checks(root)
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    path = folder / f"{key}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{key}.unfinished"
        environment = {**os.environ, NOTES: str(fresh), "PYTHONPATH": f"{root.parent}:{OWN}"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants.recording", *PYTEST, *tests]
        subprocess.run(command, cwd=root, env=environment, check=False, stdout=subprocess.DEVNULL)
        if not fresh.exists():
            raise RuntimeError("the tests ended without a note of what they run; run them by themselves")
        fresh.rename(path)
    found: Notes = json.loads(path.read_text(encoding="utf-8"))
    return found


def checks(root: Path) -> list[Path]:
    """Return the files in which mistakes are planted."""
    return [path for pattern in SOURCES for path in sorted(root.glob(pattern))]


PYTEST = ("-m", "not slow", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-seed=0")


def covering(root: Path, notes: Notes, file: str, line: int) -> list[str]:
    """Return the tests that run a line, the quickest first; of a module's own lines, all that run any."""
    places = _seen_as(root, file, line)
    chosen = [
        (noted["seconds"], name)
        for name, noted in notes.items()
        if any(
            there and (at is None or at in there)
            for where, at in places
            for there in [noted["lines"].get(where)]
        )
    ]
    return [name for _, name in sorted(chosen)]


def _seen_as(root: Path, file: str, line: int) -> set[tuple[str, int | None]]:
    """Return the lines that stand for one: itself, or those that call its function if that is compiled."""
    found: set[tuple[str, int | None]] = set()
    left, done = [(file, line)], set()
    while left:
        where, at = left.pop()
        function = _function(root / where, at)
        if function is None or at < function.body[0].lineno:
            found.add((where, None))
        elif not _is_compiled(function):
            found.add((where, at))
        elif (where, function.name) not in done:
            done.add((where, function.name))
            left += _calls(root, function.name)
    return found


@cache
def _functions(path: Path) -> list[ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _function(path: Path, line: int) -> ast.FunctionDef | None:
    """Return the outermost function that a line is in."""
    around = [f for f in _functions(path) if f.lineno <= line <= (f.end_lineno or 0)]
    return min(around, key=lambda f: f.lineno, default=None)


def _is_compiled(function: ast.FunctionDef) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id in DECORATORS for mark in function.decorator_list)


@cache
def _calls(root: Path, name: str) -> list[tuple[str, int]]:
    """Return the lines of the checks that name a function."""
    found = []
    for path in checks(root):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and node.id == name:
                found.append((path.relative_to(root).as_posix(), node.lineno))
    return found
