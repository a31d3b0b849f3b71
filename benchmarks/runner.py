"""What runs benchmarks: a process of its own for every case; rows are shown and stored as they come.

It imports nothing large, nor do reports before they are written: the memory of a process that starts others
counts as theirs too.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DATA = Path(os.environ.get("CLUSTERPLAN_DATA") or ROOT.parent / "shared" / "data")
"""Data that others published, a folder for each source."""
FIGURES = ("status", "limit", "objective", "bound", "gap", "certified_gap")
"""Fields of a result that every row has."""
AT_DEFAULT = ("default_s", "default_certified_gap")
"""Columns of a row of `exact` whose own limit is another than that of the command."""
NO_ANSWER = ("died", "killed", "refused")
"""How a case ends that has no result."""
_MARK = "row: "
_PATIENCE_AT_END_S = 30

Row = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """A part of a benchmark, which has a table of its own.

    Attributes
    ----------
    table
        Its name.
    rows
        Measures what the options ask for.
    columns
        Of the table.
    again
        Whether a stored row is measured again, by the options; the others are kept.
    always
        Whether the part is measured unless options name others.
    """

    table: str
    rows: Callable[[argparse.Namespace], Iterable[Row]]
    columns: tuple[str, ...]
    again: Callable[[argparse.Namespace, Row], bool] = lambda *_: True
    always: bool = True


def options(about: str | None, **numbers: tuple[float, str]) -> argparse.ArgumentParser:
    """Return the options of a benchmark.

    Parameters
    ----------
    about
        What its module says of itself.
    numbers
        Of each option that is a number: what it is by default, and its help.
    """
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    for name, (default, said) in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help=said)
    return parser


def run_parts(
    parser: argparse.ArgumentParser,
    parts: Mapping[str, Part],
    measured: Callable[[Row], Iterable[Row]],
    write_report: Callable[[Path], None],
) -> list[str]:
    """Measure all parts of a benchmark, or some, and write its report; return the names of new tables.

    Parameters
    ----------
    measured
        Measures a case in this process.
    """
    parser.add_argument("--part", choices=(*parts, "report"), action="append")
    given = parser.parse_args()
    if given.case:
        _say(measured(given.case))
        sys.exit()
    names = given.part or [*(name for name, part in parts.items() if part.always), "report"]
    chosen = [part for name, part in parts.items() if name in names]
    for part in chosen:
        renew(part.table, lambda row, again=part.again: again(given, row), part.rows(given), part.columns)
    if "report" in names:
        write_report(RESULTS)
    return [part.table for part in chosen]


def run_cases(
    parser: argparse.ArgumentParser,
    name: str,
    keys: tuple[str, ...],
    cases: Callable[[argparse.Namespace], Iterable[Row]],
    measured: Callable[[Row], Iterable[Row]],
    columns: tuple[str, ...],
    write_report: Callable[[Path], None],
) -> None:
    """Measure all cases of a benchmark, or those with some values in some columns, and write its report.

    Parameters
    ----------
    keys
        Columns with an option each, which chooses cases by their values.
    cases
        Yields them, with `patience_s`; what has a `status` is a row already.
    measured
        Measures a case in this process.
    """
    for key in keys:
        parser.add_argument(f"--{key}", action="append", help=f"only this {key}; repeatable")
    parser.add_argument("--report", action="store_true", help="only write the report anew")
    given = parser.parse_args()
    if given.case:
        _say(measured(given.case))
        return
    asked = {key: names for key in keys if (names := getattr(given, key))}

    def chosen(case: Row) -> bool:
        return all(str(case.get(key)) in names for key, names in asked.items())

    def rows() -> Iterator[Row]:
        for case in filter(chosen, cases(given)):
            yield case if "status" in case else case | in_own_process(case, case["patience_s"])[-1]

    if not given.report:
        renew(name, chosen, rows(), columns)
    write_report(RESULTS)


def _say(rows: Iterable[Row]) -> None:
    """Hand rows to the process that waits for them."""
    for row in rows:
        print(_MARK + json.dumps(row), flush=True)


def in_own_process(case: Row, patience_s: float) -> list[Row]:
    """Run this script with `--case CASE` and return the rows it says.

    One that dies or hangs is a last row without figures, not the end; whatever it started ends with it.
    """
    command = [sys.executable, sys.argv[0], "--case", json.dumps(case)]
    child = subprocess.Popen(  # noqa: S603 - one of these scripts
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    failure: Row | None = None
    try:
        out, err = child.communicate(timeout=patience_s)
        if child.returncode:
            failure = {"status": "died", "limit": f"exit {child.returncode}", "message": last_line(err)}
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


def last_line(text: str) -> str:
    """Return the last line of what a process said, cut to a cell."""
    return (text.strip().splitlines() or [""])[-1][:200]


def at_default(case: Row, patience_s: float, longest_s: float = math.inf) -> Row:
    """Run a case with the limit that the command has by default, at most `longest_s`.

    Returns seconds and certified gap; nothing where the case has that limit already.
    """
    from clusterplan.planner.cli.solving import DEFAULT_TIME_LIMIT_S

    limit_s = min(DEFAULT_TIME_LIMIT_S, longest_s)
    if case.get("limit_s") == limit_s:
        return {}
    row = in_own_process({**case, "limit_s": limit_s}, patience_s)[-1]
    return dict(zip(AT_DEFAULT, (row.get("total_s"), row.get("certified_gap")), strict=True))


def is_late(row: Row, limit_s: float) -> bool:
    """Return whether a method is not tried at larger sizes, since it has no answer or takes all its time."""
    return row["status"] in NO_ANSWER or row["total_s"] > 0.9 * limit_s


def solved(
    instance: Any,
    method: str,
    limit_s: float | None,
    threads: int | None = None,
    settings: Row | None = None,
    solve: Callable[..., Any] | None = None,
    prepared: bool = True,
) -> tuple[Any, Row]:
    """Solve an instance in this process, and return the result, None if it is refused, and its figures.

    `build_s` is building the model, `solve_s` all the rest with the checks of plan and certificate, and
    `total_s` both. On a machine that others use, `processor_s` says how much of the time was to be had.

    Parameters
    ----------
    solve
        Instead of `clusterplan.solve`.
    prepared
        Whether options are read, and what reads them is loaded, before the time begins.
    """
    import clusterplan

    def read() -> Any:
        return clusterplan.SolveOptions(time_limit_s=limit_s, threads=threads, method_options=settings or {})

    options = read() if prepared else None
    started, worked = time.perf_counter(), time.process_time()
    try:
        result = (solve or clusterplan.solve)(instance, method, options or read())
    except clusterplan.ClusterplanError as error:
        return None, {"status": "refused", "limit": "none", "message": str(error)[:200]}
    total_s, processor_s = time.perf_counter() - started, time.process_time() - worked
    return result, {key: getattr(result, key) for key in FIGURES} | {
        "build_s": result.build_s,
        "solve_s": total_s - result.build_s,
        "total_s": total_s,
        "processor_s": processor_s,
        "peak_gib": peak_gib(),
        "message": result.message,
    }


def verified(instance: Any, result: Any) -> Row:
    """Check a result; return the seconds, whether it holds, what is only claimed, and what is wrong."""
    import clusterplan

    started = time.perf_counter()
    verification = clusterplan.verify(instance, result)
    row = {"verify_s": time.perf_counter() - started, "verified": verification.ok}
    row["claimed"] = "; ".join(verification.claimed)
    return row | ({} if verification.ok else {"message": "; ".join(verification.faults)})


def peak_gib() -> float:
    """Return the most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def machine_load() -> float:
    """Return how many processes have been running on average of late."""
    return round(os.getloadavg()[0], 1)


def data_folder(name: str) -> Path | None:
    """Return a folder of published data; None where there is none."""
    folder = DATA / name
    return folder if folder.is_dir() else None


def tell_absent(*names: str) -> None:
    """Say which folders of published data are not there."""
    if absent := [name for name in names if data_folder(name) is None]:
        where = "../shared/data or $CLUSTERPLAN_DATA"
        print(f"left out: {', '.join(absent)}; there is no such folder in {where}", file=sys.stderr)


def kept(name: str, measured_again: Callable[[Row], bool]) -> list[Row]:
    """Return the stored rows of a table but those that are measured again."""
    file = RESULTS / f"{name}.csv"
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as stored:
        return [{**row} for row in csv.DictReader(stored) if not measured_again(row)]


def store(name: str, rows: Iterable[Row], columns: tuple[str, ...]) -> None:
    """Write the rows as they come, and show them."""
    RESULTS.mkdir(exist_ok=True)
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


def store_cells(name: str, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a table of cells as they are."""
    with (RESULTS / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def renew(
    name: str, measured_again: Callable[[Row], bool], rows: Iterable[Row], columns: tuple[str, ...]
) -> None:
    """Store rows after those that are kept."""
    store(name, itertools.chain(kept(name, measured_again), rows), columns)
