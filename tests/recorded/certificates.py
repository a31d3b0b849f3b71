"""Results with certificates, as they were stored: which forgeries the check accepts, and what it costs.

The results of `given` are never made anew: what was stored once has to be accepted ever after. Of the effort
the lines that Python executes in checks are counted, not seconds, so that a check that looks at more than it
has to is noticed on a busy machine too; the bounds are compared more closely than verdicts, for rounding
margins show only in their last digits.
"""

from __future__ import annotations

import hashlib
import math
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from fuzz.forging import complete, mutated_document

import clusterplan
from clusterplan import ClusterplanError
from clusterplan.formulations.common.compiled import interpreted
from clusterplan.formulations.registry import formulate
from clusterplan.planner.stored_results import parse_result, verify_stored

from .store import Case, Outcome, given

FORGERIES = 10
"""Of each result."""
QUICK = 9
"""Every so many-th result is checked in the quick part too."""


def cases() -> list[Case]:
    """Return the cases."""
    return [
        Case(name, partial(_outcome, name, **pair), quick=number % QUICK == 0)
        for number, (name, pair) in enumerate(sorted(given("certificates").items()))
    ]


def _outcome(name: str, instance: dict[str, Any], result: dict[str, Any]) -> Outcome:
    """Return how a result and its forgeries are judged, and by which digests the forgeries are told apart."""
    known = clusterplan.parse_instance(instance)
    altered = [forged(f"{name}:{number}", result) for number in range(FORGERIES)]
    return {
        "result": verdict(known, result),
        "forgeries": [verdict(known, one) for one in altered],
        "digests": [hashlib.sha256(repr(one).encode(errors="replace")).hexdigest()[:8] for one in altered],
    }


def forged(label: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result that was tampered with, always the same for a label."""
    rng = random.Random(label)
    places = [(), ("objectives",), *([("certificate",)] if result["certificate"] else []), ("plan",)]
    return mutated_document(
        rng, result, rng.choice([place for place in places if not place or result[place[0]]])
    )


def verdict(instance: clusterplan.Instance, result: dict[str, Any]) -> str:
    """Return ``verified``, ``verified, claims left`` or ``refused``."""
    try:
        verification = verify_stored(instance, result, "stored")
    except ClusterplanError:
        return "refused"
    if not verification.ok:
        return "refused"
    return "verified" if complete(verification) else "verified, claims left"


def effort_cases() -> list[Case]:
    """Return the cases of effort; tests of `verify` compare them all, so that none is quick here."""
    return [
        Case(name, partial(effort, **pair))
        for name, pair in sorted(given("certificates").items())
        if pair["result"]["certificate"]
    ]


def effort(instance: dict[str, Any], result: dict[str, Any], most: float = math.inf) -> Outcome:
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
