"""Solving one document with one solver, and everything that is found wrong on the way."""

from __future__ import annotations

import random
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import ClusterplanError, OptionError, UnavailableError
from clusterplan.planner.api import solve
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.result import Result, SolveOptions

from .checks import Finding, findings
from .kinds import BUDGETS, EVERYWHERE, KINDS
from .truth import Truth


def settings(solver: str, rng: random.Random, seconds: float = 20.0) -> dict[str, Any]:
    """Return the options of a solve as plain data; tiny instances take milliseconds."""
    return {
        "threads": 1,
        "seed": 1,
        "time_limit_s": seconds,
        "gap": rng.choice([1e-6, 1e-6, 1e-6, 0.0, 0.05]),
        "method_options": BUDGETS.get(solver, {}),
    }


def solvers_of(data: dict[str, Any], rng: random.Random) -> list[str]:
    """Return the solvers that try a document: some always, the others by their share."""
    others = {} if data.get("edges") is not None else KINDS[data["kind"]].sample
    return [*EVERYWHERE, *(name for name, share in others.items() if rng.random() < share)]


def place(error: BaseException) -> str:
    """Return what an exception is and where it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/fuzz/" not in frame.filename] or frames
    last = own[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.name}: {str(error)[:300]}"


def solved(
    instance: Instance, truth: Truth, solver: str, options: dict[str, Any]
) -> tuple[Result | None, list[Finding]]:
    """Return the result of a solve, None where the solver refuses, and what is wrong with it."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            result = solve(instance, solver, SolveOptions(**options))
            wrong = [*_checked(instance, truth, result)]
        except (OptionError, UnavailableError) as error:
            expected = solver not in EVERYWHERE
            return None, [] if expected else [Finding("refused", solver, str(error))]
        except ClusterplanError as error:
            return None, [Finding("refused", solver, f"{type(error).__name__}: {error}")]
        except Exception as error:  # noqa: BLE001  whatever escapes is what is looked for
            return None, [Finding("exception", solver, place(error))]
    wrong += [Finding("warning", solver, f"{w.category.__name__}: {w.message}") for w in raised]
    return result, wrong


def _checked(instance: Instance, truth: Truth, result: Result) -> Iterator[Finding]:
    yield from findings(truth, result)
    name = result.solver
    verification = verify(instance, result)
    if not verification.ok:
        yield Finding("verify", name, "; ".join(verification.faults))
    if Result.model_validate_json(result.to_json()) != result:
        yield Finding("json", name, "the result read from its JSON differs")
    if KINDS[instance.kind].closes and name in EVERYWHERE and result.status in ("feasible", "unknown"):
        yield Finding("unproven", name, f"{result.status}: {result.message}")
