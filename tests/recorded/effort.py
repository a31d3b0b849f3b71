"""What the checks of stored results cost: the lines that Python executes in them, and the bounds they reach.

Steps are counted, not seconds, so that a check that looks at more than it has to is noticed on a busy
machine too. The bounds are compared more closely than those of `certificates`, for rounding margins show
only in their last digits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import clusterplan
from clusterplan.formulations.common.compiled import interpreted
from clusterplan.formulations.registry import formulate
from clusterplan.planner.stored_results import parse_result

from .store import Case, Outcome, given


def cases() -> list[Case]:
    """Return the cases; tests of `verify` compare all of them, so that none is compared as quick here."""
    return [
        Case(name, partial(outcome, **pair))
        for name, pair in sorted(given("certificates").items())
        if pair["result"]["certificate"]
    ]


def outcome(instance: dict[str, Any], result: dict[str, Any], most: float = math.inf) -> Outcome:
    """Return the bounds that a stored certificate proves, and the lines executed in the folders `check`.

    Raises
    ------
    AssertionError
        If these are more than `most`: a loop without an end would be one.
    """
    formulation = formulate(clusterplan.parse_instance(instance))
    record = parse_result(result, "stored")
    values = None
    if record.plan is not None:
        values = formulation.evaluate(formulation.parse_plan(result["plan"]))
    steps = Steps(most)

    with interpreted(), steps.counted():
        bounds = list(formulation.certified_bounds(record.certificate, values))
    return {"bounds": bounds, "steps": steps.count}


SHARED = ("enumeration", "cost_of_work")
"""Modules outside of the folders `check` whose lines are steps of checks too."""


class Steps:
    """Counts the lines that are executed in the folders `check`."""

    def __init__(self, most: float) -> None:
        self.count, self.most = 0, most
        self._ours: dict[CodeType, bool] = {}

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count inside the block; whoever traces already, such as a measurement of coverage, still does."""
        before = sys.gettrace()

        def called(frame: FrameType, event: str, arg: Any) -> Any:
            inner = before(frame, event, arg) if before else None
            code = frame.f_code
            if code not in self._ours:
                path = Path(code.co_filename)
                self._ours[code] = path.parent.name == "check" or path.stem in SHARED
            return partial(followed, inner) if self._ours[code] else inner

        def followed(inner: Any, frame: FrameType, event: str, arg: Any) -> Any:
            self.count += event == "line"
            assert self.count <= self.most, f"takes more than {self.most:,} steps"
            return partial(followed, inner and inner(frame, event, arg))

        sys.settrace(called)
        try:
            yield
        finally:
            sys.settrace(before)
