"""A plugin of pytest that notes which lines of the checks each test runs, and how long it takes.

Compiled functions run unseen; who calls them is seen.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
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
