"""What the benchmarks share: a process of its own for every case, and rows stored as they come."""

from __future__ import annotations

import csv
import json
import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
FIGURES = ("status", "limit", "objective", "bound", "gap", "certified_gap")
"""Fields of a result that every row has."""
AT_DEFAULT = ("default_s", "default_certified_gap")
"""Columns of a row of `exact` whose own limit is another than that of the command."""
_MARK = "row: "
_PATIENCE_AT_END_S = 30


def say(row: dict[str, Any]) -> None:
    """Hand a row to the process that waits for it."""
    print(_MARK + json.dumps(row), flush=True)


def in_own_process(script: str, case: dict[str, Any], patience_s: float) -> list[dict[str, Any]]:
    """Run `script --case CASE` and return the rows it says.

    One that dies or hangs is a last row without figures, not the end; whatever it started ends with it.
    """
    command = [sys.executable, script, "--case", json.dumps(case)]
    child = subprocess.Popen(  # noqa: S603 - one of these scripts
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    failure: dict[str, Any] | None = None
    try:
        out, err = child.communicate(timeout=patience_s)
        if child.returncode:
            said = err.strip().splitlines()[-1:] or [""]
            failure = {"status": "died", "limit": f"exit {child.returncode}", "message": said[0]}
    except subprocess.TimeoutExpired:
        failure = {"status": "killed", "limit": f"after {patience_s:g} s"}
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        out, _ = child.communicate(timeout=_PATIENCE_AT_END_S)
    except BaseException:  # whatever ends the wait, the case must not go on; it is raised again
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        raise
    rows = [json.loads(line.removeprefix(_MARK)) for line in out.splitlines() if line.startswith(_MARK)]
    return [*rows, failure] if failure else rows


def at_default(
    script: str, case: dict[str, Any], patience_s: float, longest_s: float = math.inf
) -> dict[str, Any]:
    """Run a case with the limit that the command has by default, at most `longest_s`.

    Returns seconds and certified gap; nothing where the case has that limit already.
    """
    from clusterplan.planner.cli.solving import DEFAULT_TIME_LIMIT_S

    limit_s = min(DEFAULT_TIME_LIMIT_S, longest_s)
    if case.get("limit_s") == limit_s:
        return {}
    row = in_own_process(script, {**case, "limit_s": limit_s}, patience_s)[-1]
    return dict(zip(AT_DEFAULT, (row.get("total_s"), row.get("certified_gap")), strict=True))


def peak_gib() -> float:
    """Return the most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def kept(name: str, measured_again: Callable[[dict[str, str]], bool]) -> list[dict[str, Any]]:
    """Return the stored rows of a table but those that are measured again."""
    file = RESULTS / f"{name}.csv"
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as stored:
        return [{**row} for row in csv.DictReader(stored) if not measured_again(row)]


def store(name: str, rows: Iterable[dict[str, Any]], columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Write the rows as they come, show them, and return them all."""
    RESULTS.mkdir(exist_ok=True)
    kept = []
    with (RESULTS / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            shown = {
                k: f"{v:.6g}" if isinstance(v, float) and k.endswith(("_s", "gib", "gap")) else v
                for k, v in row.items()
            }
            writer.writerow(shown)
            file.flush()
            print("  ".join(f"{column}={shown.get(column, '')}" for column in columns), flush=True)
            kept.append(row)
    return kept
