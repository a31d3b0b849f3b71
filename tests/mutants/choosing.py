"""Which tests run a line of a check, the quickest first: noted by a plugin of pytest.

Compiled functions run unseen; who calls them is seen.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

NOTES = "MUTANTS_NOTES"
"""Environment variable: the file that is written; the folder of the package is where pytest runs."""


class Recorder:
    """Traces the files whose paths match, and no others."""

    def __init__(self) -> None:
        self.root = Path.cwd()
        self.seen: dict[str, set[int]] = defaultdict(set)
        self.known: dict[CodeType, str | None] = {}
        self.tests: dict[str, dict[str, Any]] = {}

    def called(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Follow the lines of a function only if it is one of a check."""
        del event, arg
        code = frame.f_code
        if code not in self.known:
            path = Path(code.co_filename)
            ours = path.parent.name == "check" and path.is_relative_to(self.root)
            self.known[code] = path.relative_to(self.root).as_posix() if ours else None
        name = self.known[code]
        if name is None:
            return None
        lines = self.seen[name]

        def follow(inner: FrameType, event: str, arg: Any) -> Any:
            del event, arg
            lines.add(inner.f_lineno)
            return follow

        lines.add(frame.f_lineno)
        return follow

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace one test with its fixtures."""
        self.seen.clear()
        start = time.process_time()
        sys.settrace(self.called)
        threading.settrace(self.called)
        yield
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        lines = {name: sorted(lines) for name, lines in self.seen.items()}
        if lines and item.nodeid not in self.tests:
            self.tests[item.nodeid] = {"seconds": time.process_time() - start, "lines": lines}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out what fails or is skipped without any mistake."""
        if not report.passed:
            self.tests[report.nodeid] = {"seconds": 0.0, "lines": {}}

    def pytest_sessionfinish(self) -> None:
        """Write what was noted."""
        tests = {name: noted for name, noted in self.tests.items() if noted["lines"]}
        Path(os.environ[NOTES]).write_text(json.dumps(tests), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Begin where it is said where to write."""
    if NOTES in os.environ:
        config.pluginmanager.register(Recorder())


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
        command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants.choosing", *PYTEST, *tests]
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
