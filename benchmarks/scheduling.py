"""Schedulers: every policy on traces, with its distance from what is possible, beside published figures.

Run with `make bench-scheduling`; what the data is missing for is left out, with a line. Writes to
`benchmarks/results/`:

* `scheduling.csv`: a row for each method on each trace, as it is measured;
* `scheduling.md`: tables of them, each gap against the best certified bound of the trace.

The traces: the first 3,000 jobs of Philly, no longer than a week, at three sizes of the cluster; all of
Philly on 512 GPUs; the four traces of Muri, by its simulator's own rules; workloads of Pollux; and malleable
jobs, made up. Every solve is a process of its own. Policies are solved twice, since the first solve loads
compiled loops; the seconds are those of the second, but for those that take long.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runner import FIGURES, Row, data_folder, machine_load, options, run_cases, solved, tell_absent, verified
from scheduling_report import write_report

LIMIT_S, POLICY_LIMIT_S = 60.0, 300.0
"""Of methods that take all the time they get, and of policies, which end by themselves."""
PATIENCE, PATIENCE_S = 3.0, 120.0
"""A process is killed after so many times its limit and so many seconds."""
THREADS = 2
QUICK_S = 10.0
"""A policy whose first solve takes longer is not solved again."""
WEEK_S = 604_800.0
PHILLY_GPUS, PHILLY_FIRST, PHILLY_ALL_GPUS = (215, 172, 144), 3_000, 512
MURI = ("trace1", "trace1_pr", "trace2", "trace2_pr")
MURI_POLICIES = {"srtf": "srtf", "srsf": "srsf", "las": "tiresias-l"}
"""Ours that know the rules of Muri's simulator, by the names of its policies."""
POLLUX, POLLUX_GPUS = ("workload-1", "workload-2", "workload-3"), 64
POLLUX_POLICIES = {"optimus": "optimus", "las": "tiresias"}
MALLEABLE_JOBS, MALLEABLE_GPUS, MALLEABLE_LOAD = 400, 64, 1.2
POLLUX_SAMPLES = {
    "cifar10": 100 * 50_000,
    "bert": 2 * 88_641,
    "deepspeech2": 80 * 7_135,
    "imagenet": 90 * 1_281_167,
}
"""Passes and samples of the simulator: `max_epochs` of applications.py, and steps in its validation-*.csv."""
INTERVALS = {"interval_s": 60}
ALLOCATING = ("optimus", "optimus-exact")
POLLUX_METHODS = ("srsf", "las", *ALLOCATING, *(f"{name} aim=speeds" for name in ALLOCATING), "dl2", "exact")
SEARCH = ("exact", "price")
"""Methods that stop at a limit."""
PROGRAMMES = ("max-min", "themis", "optimus-exact", "dl2")
"""Policies that solve a programme at each round: for some thousand jobs."""
NOT_COMPARED = ("auto", "brute-force")
"""One is `exact` again, the other is for instances that fit a line."""
COLUMNS = (
    *("part", "trace", "gpus", "jobs", "method", "semantics", "threads", "limit_s", *FIGURES),
    *("published", "solve_s", "processor_s", "verify_s", "verified", "peak_gib", "machine_load", "message"),
)


def traces() -> Iterator[Row]:
    """Yield what each trace is made of; say which are left out."""
    if folder := data_folder("pollux"):
        philly = {"file": str(folder / "philly.csv")}
        for gpus in PHILLY_GPUS:
            yield {"part": "philly-3000", "trace": f"philly, first {PHILLY_FIRST:,}", "gpus": gpus, **philly}
        yield {"part": "philly-all", "trace": "philly, all", "gpus": PHILLY_ALL_GPUS, **philly}
        for name in POLLUX:
            file = folder / "workloads" / f"{name}.csv"
            yield {"part": "pollux", "trace": name, "gpus": POLLUX_GPUS, "file": str(file)}
            more = {"trace": f"{name}, malleable", "gpus": POLLUX_GPUS, "file": str(file)}
            yield {"part": "pollux-malleable", **more}
    if folder := data_folder("muri"):
        for name in MURI:
            (file,) = folder.glob(f"{name}.csv*")
            yield {"part": "muri", "trace": name, "gpus": 64, "file": str(file)}
    yield {"part": "malleable", "trace": "generated, malleable", "gpus": MALLEABLE_GPUS}
    tell_absent("pollux", "muri")


def made(case: Row) -> Any:
    """Return an instance."""
    from clusterplan.instances.importers import import_muri, import_philly_trace, import_pollux_trace
    from clusterplan.instances.scheduling.generate import generate_scheduling

    file, gpus = Path(case.get("file", "")), case["gpus"]
    if case["part"] == "philly-3000":
        return import_philly_trace(file, gpus=gpus, first=PHILLY_FIRST, max_duration_s=WEEK_S)
    if case["part"] == "philly-all":
        return import_philly_trace(file, gpus=gpus)
    if case["part"] == "muri":
        return import_muri(file, file.with_name("n8g8.csv"))
    if case["part"].startswith("pollux"):
        measured_in = sorted(path.parent for path in file.parents[1].glob("*/placements.csv"))
        work = {"samples": POLLUX_SAMPLES, "malleable": True} if case["part"] == "pollux-malleable" else {}
        return import_pollux_trace(file, tuple(measured_in), gpus=gpus, **work)
    return generate_scheduling(MALLEABLE_JOBS, gpus, load=MALLEABLE_LOAD, seed=1, malleable=True)


def semantics_of(part: str, method: str) -> str:
    """Return the rules by which a policy counts time."""
    return "muri" if part == "muri" and method in MURI_POLICIES else ""


def published() -> dict[tuple[str, str], float]:
    """Return published mean completion times, by trace and the publisher's name of the policy."""
    folder, found = data_folder("published"), {}
    for name, column in (("muri", "trace"), ("pollux_jobload", "workload")) if folder else ():
        with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            found |= {
                (row[column], row["policy"]): float(row["average_jct_s"]) for row in csv.DictReader(file)
            }
    return found


def measured(case: Row) -> Iterator[Row]:
    """Make an instance, solve it, check the result, and yield the figures."""
    from clusterplan.instances.scheduling.generate import generate_scheduling

    (method, *given), instance = case["method"].split(), made(case)
    search, limit_s = method in SEARCH, case["limit_s"]
    load = {"jobs": len(instance.jobs), "machine_load": machine_load()}
    settings: Row = {}
    if case["part"] == "pollux-malleable" and method in (*ALLOCATING, "dl2"):
        settings |= INTERVALS
    settings |= dict(one.split("=") for one in given)
    threads = case["threads"] if search else None
    if search:
        solved(generate_scheduling(50, 8, malleable="malleable" in case["part"]), method, 10.0)
    solve = as_muri if case["semantics"] else None
    result, row = solved(instance, method, limit_s, threads, settings, solve)
    if result and not search and row["total_s"] < QUICK_S:
        result, row = solved(instance, method, limit_s, threads, settings, solve)
    checked = verified(instance, result) if result else {}
    yield load | row | {"solve_s": row.get("total_s")} | checked


def as_muri(instance: Any, method: str, options: Any) -> Any:
    """Return the result of a policy by the rules of Muri's simulator."""
    from muri import MuriPolicy

    from clusterplan.solvers.run import solve_with

    return solve_with(instance, MuriPolicy(method), options)


def cases(given: argparse.Namespace) -> Iterator[Row]:
    """Yield a case for each method on each trace, then rows of those that are only published."""
    known = published()
    for trace in traces():
        part, name = trace["part"], trace["trace"]
        ours = {"muri": MURI_POLICIES, "pollux": POLLUX_POLICIES}.get(part, {})
        for method in methods(part):
            search = method in SEARCH
            limit_s = given.limit_s if search else POLICY_LIMIT_S
            yield trace | {
                "method": method,
                "threads": THREADS if search else 1,
                "semantics": semantics_of(part, method),
                "limit_s": limit_s,
                "patience_s": PATIENCE * limit_s + PATIENCE_S,
                "published": known.get((name, ours.get(method, ""))),
            }
        for at, policy in known if part == "muri" else ():
            if at == name and policy not in ours.values():
                yield trace | {"method": policy, "status": "published", "published": known[at, policy]}


def methods(part: str) -> list[str]:
    """Return the methods of a part: all, but none that would take hours, and on Muri's those that it has."""
    from clusterplan.solvers.registry import solvers_for

    names = [solver.name for solver in solvers_for("scheduling", available=True)]
    names = [name for name in names if name not in NOT_COMPARED]
    if part == "pollux-malleable":
        return [name for name in POLLUX_METHODS if name.split()[0] in names]
    if part == "muri":
        return [name for name in names if name in (*MURI_POLICIES, "exact")]
    if part == "philly-all":
        return [name for name in names if name not in PROGRAMMES]
    return [*(name for name in names if name not in PROGRAMMES), *PROGRAMMES]


if __name__ == "__main__":
    run_cases(
        options(__doc__, limit_s=(LIMIT_S, "seconds of exact and price")),
        "scheduling",
        ("part", "trace", "gpus", "method"),
        cases,
        measured,
        COLUMNS,
        write_report,
    )
