"""Time limits: every solver of every kind on large instances with limits of 1, 5 and 20 s, whole processes.

Run with `make bench-limits`. A limit counts for building, searching, checking and printing; with all of
these a process may take a tenth of the limit and a second more than it takes to read the instance. Writes
to `benchmarks/results/`:

* `limits-INSTANCE.csv`: a row for each solver and limit, with the seconds of the process, what it takes only
  to read the instance, and how far the plan is from that of the best method that proves nothing;
* `limits.md`: the figures that matter.

The instances are a synthetic allocation of 10,000 jobs, a synthetic chain of 300 layers on 32 types, a
synthetic cluster of 1,000 servers and 5,000 jobs, and a list of the openb trace where there is one.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from limits_report import GRACE_S, LIMITS_S, SHARE, write_report
from runner import FIGURES, RESULTS, Row, data_folder, last_line, machine_load, options, renew

PATIENCE, PATIENCE_S = 3.0, 60.0
"""A process is killed after so many times its limit and so many seconds."""
OPENB_LOAD = 1.3
COLUMNS = (
    *("instance", "kind", "method", "limit_s", "process_s", "processor_s", "read_s", "over_s", "within"),
    *(*FIGURES, "runtime_s", "behind_heuristics", "machine_load", "message"),
)


def allocation() -> Any:
    """Return 10,000 jobs on three resources."""
    from clusterplan.instances.allocation.generate import generate_allocation

    return generate_allocation(10_000, 3, tightness=0.8, seed=1)


def staging() -> Any:
    """Return 300 layers on 32 types with tight limits of units."""
    from clusterplan.instances.staging.generate import generate_staging

    return generate_staging(300, 32, "tight", seed=1)


def consolidation() -> Any:
    """Return 1,000 servers of four shapes and 5,000 jobs that ask for GPUs, CPUs and memory."""
    from clusterplan.instances.consolidation.generate import generate_consolidation

    return generate_consolidation(1_000, 5_000, load=1.3, seed=1, resources=3, shapes=4)


def openb() -> Any:
    """Return the first list of the openb trace, asking for 1.3 times its GPUs; None without it."""
    from clusterplan.instances.importers import import_openb

    folder = data_folder("openb")
    lists = [] if folder is None else sorted(folder.glob("pods_*.csv*"))
    return import_openb(folder / "nodes.csv", lists[0], OPENB_LOAD) if folder and lists else None


INSTANCES: dict[str, Callable[[], Any]] = {
    "allocation": allocation,
    "staging": staging,
    "consolidation": consolidation,
    "openb": openb,
}


def command(words: list[str], limit_s: float) -> tuple[float, float, Row]:
    """Run a command; return its seconds, those of processors, and the result that it printed or its end."""
    start, used = time.perf_counter(), processor_s()
    try:
        run = subprocess.run(  # noqa: S603 - this package
            [sys.executable, "-m", "clusterplan", *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE * limit_s + PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return time.perf_counter() - start, processor_s() - used, {"status": "killed"}
    seconds = time.perf_counter() - start, processor_s() - used
    if run.stdout.startswith("{"):
        return *seconds, json.loads(run.stdout)
    return *seconds, {"status": "refused", "message": last_line(run.stderr or run.stdout)}


def processor_s() -> float:
    """Return the seconds that processors spent on the processes started here."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rows(name: str, limits_s: list[float], methods: list[str] | None) -> Iterator[Row]:
    """Yield the rows of one instance; heuristics first, for the others are compared with them."""
    from clusterplan import save
    from clusterplan.solvers.registry import solvers_for

    instance = INSTANCES[name]()
    if instance is None:
        print(
            f"{name}: skipped; there is no such data in ../shared/data or $CLUSTERPLAN_DATA", file=sys.stderr
        )
        return
    solvers = sorted(solvers_for(instance.kind, available=True), key=lambda solver: solver.proves)
    heuristics = {solver.name for solver in solvers if not solver.proves}
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / f"{name}.json")
        save(instance, Path(file))
        read_s = min(command(["validate", file], PATIENCE_S)[0] for _ in range(2))
        for limit_s in limits_s:
            best: list[tuple[str, float]] | None = None
            for solver in solvers:
                if methods is not None and solver.name not in methods:
                    continue
                row, values = row_of(file, solver.name, limit_s, read_s)
                if solver.name in heuristics and row["within"] and not behind(values, best) >= 0:
                    best = values or best
                row["behind_heuristics"] = behind(values, best)
                yield {"instance": name, "kind": instance.kind, **row}


def row_of(file: str, method: str, limit_s: float, read_s: float) -> tuple[Row, list[tuple[str, float]]]:
    """Return the row of one process, and the sense and value of each objective."""
    load = machine_load()
    words = ["solve", file, "--solver", method, "--time-limit", f"{limit_s:g}", "--format", "json", "--quiet"]
    seconds, used_s, result = command(words, limit_s)
    values = [(record["sense"], record["value"]) for record in result.get("objectives", ())]
    over_s = seconds - read_s - limit_s
    row = {key: result.get(key) for key in (*FIGURES, "runtime_s", "message")}
    return row | {
        "method": method,
        "limit_s": limit_s,
        "process_s": seconds,
        "processor_s": used_s,
        "read_s": read_s,
        "over_s": over_s,
        "within": over_s <= SHARE * limit_s + GRACE_S,
        "machine_load": load,
    }, values if result.get("plan") is not None else []


def behind(values: list[tuple[str, float]] | None, best: list[tuple[str, float]] | None) -> float:
    """Return by which share values are worse than others at the first objective at which they differ.

    Negative where they are better; NaN where either has no plan.
    """
    if not values or not best:
        return math.nan
    for (sense, own), (_, other) in zip(values, best, strict=True):
        if not math.isclose(own, other, rel_tol=1e-9, abs_tol=1e-12):
            return (own - other if sense == "min" else other - own) / max(abs(own), abs(other))
    return 0.0


def main() -> None:
    """Measure all instances, or some; rows that are stored already and not asked for are kept."""
    parser = options(__doc__)
    parser.add_argument("--part", choices=(*INSTANCES, "report"), action="append")
    parser.add_argument("--limit-s", type=float, action="append", help="only this limit; repeatable")
    parser.add_argument("--method", action="append", help="only this method; repeatable")
    given = parser.parse_args()
    limits_s, methods = given.limit_s or [*LIMITS_S], given.method

    def measured_again(row: Row) -> bool:
        return float(row["limit_s"]) in limits_s and (methods is None or row["method"] in methods)

    parts = given.part or [*INSTANCES, "report"]
    for name in INSTANCES:
        if name in parts:
            renew(f"limits-{name}", measured_again, rows(name, limits_s, methods), COLUMNS)
    if "report" in parts:
        write_report(RESULTS)


if __name__ == "__main__":
    main()
