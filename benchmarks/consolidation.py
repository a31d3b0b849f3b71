"""Consolidation from 16 to 100,000 servers: every method, as far as it goes within its limit.

Run with `make bench-consolidation`. All instances are synthetic. Writes to `benchmarks/results/`:

* `consolidation.csv`: busy clusters of 8-GPU servers, by size and load, GPUs alone;
* `consolidation-resources.csv`: the same with CPUs and memory too, and four shapes of servers;
* `consolidation-hard.csv`: fragmented clusters, on which jobs that want one server need two, `exact` alone;
* `consolidation-migrations.csv`: clusters on which most of the jobs run already;
* `consolidation-quality.csv`: what the heuristics lose against the optimum, over many instances;
* `consolidation-ratio.csv`: `exact` beside the textbook model on CBC, on 64 servers and 80 jobs;
* `consolidation-loading.csv`: 100,000 servers and 150,000 jobs from files to a checked plan;
* `consolidation.md`, `consolidation.png` and `consolidation-quality.png`: the figures that matter.

Every solve is a process of its own. `exact` and the heuristics have one thread, the solvers of textbook
models every core, and what these prove is their own: no prices of `exact` are added, as `solve` would do.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import AT_DEFAULT, FIGURES, RESULTS, at_default, in_own_process, peak_gib, say, store

if TYPE_CHECKING:
    import pandas as pd  # not in the processes that are measured

SIZES = (16, 32, 64, 128, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
"""Servers; half as many more jobs."""
RESOURCE_SIZES = SIZES[:-2]
LOADS = (0.95, 1.4)
HARD_SIZES = (40, 300, 1_000)
HARD_LOADS = (0.8, 1.0, 1.3)
HARD_SEEDS = 5
RUNNING_SIZES = (100, 300, 1_000)
RUNNING_SEEDS = 2
QUALITY_SERVERS = 300
QUALITY_SEEDS = 20
RATIO_SERVERS, RATIO_JOBS = 64, 80
RATIO_SEEDS = 3
LOADED_SERVERS = 100_000
HEURISTICS = ("best-fit", "first-fit-decreasing", "consolidate-or-wait")
TEXTBOOK = ("milp:cbc", "milp:highs", "cp-sat")
METHODS = ("exact", *TEXTBOOK, *HEURISTICS)
LIMIT_S = 60.0
"""Of every method but `exact`; one that does not end, or prove, within it is not tried at larger sizes."""
EXACT_LIMIT_S = 120.0
HARD_LIMIT_S = QUALITY_LIMIT_S = 30.0
RUNNING_LIMIT_S = 60.0
MOST_GIB = 12
"""Memory that one process may ask for."""
NO_ANSWER = ("died", "killed", "refused")
PATIENCE = 2.0
"""A process is killed after so many times its limit, and ten seconds."""
OBJECTIVES = ("value", "spread", "servers_used")
MOVED = ("value", "migrations", "servers_used")
COLUMN = {"servers": "servers_used"}
"""Of an objective, where it is not its name: `servers` is the size of a cluster."""
ASKED = 1e-6

INSTANCE = ("servers", "jobs", "resources", "load", "seed")
KEY = ("servers", "resources", "load", "seed")
"""What tells the instances of a table apart; a process that dies does not say how many jobs there were."""
COST = ("build_s", "solve_s", "total_s", "verify_s", "verified", "peak_gib", "message")
"""Building the model; all the rest, with the checks of plan and certificate; both; `verify` of the result."""


def columns_of(objectives: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of a table about these objectives."""
    ends = ("", "_bound", "_certified_bound", "_gap", "_certified_gap")
    details = tuple(name + end for name in objectives for end in ends)
    return (*INSTANCE, "method", "threads", "limit_s", *FIGURES, "certified", *details, *COST, *AT_DEFAULT)


def solved(instance: Any, case: dict[str, Any]) -> dict[str, Any]:
    """Solve an instance, check the result, and return the figures."""
    import clusterplan

    method = case["method"]
    options = clusterplan.SolveOptions(time_limit_s=case["limit_s"], threads=case["threads"])
    row: dict[str, Any] = {"jobs": len(instance.jobs)}
    started = time.perf_counter()
    try:
        call = own_proof if method in TEXTBOOK else clusterplan.solve
        result = call(instance, method, options)
    except clusterplan.ClusterplanError as error:
        return {**row, "status": "refused", "limit": "none", "message": str(error)[:80]}
    total = time.perf_counter() - started
    row |= {key: getattr(result, key) for key in FIGURES} | records_of(result)
    row |= {"build_s": result.build_s, "solve_s": total - result.build_s, "total_s": total}
    row["peak_gib"] = most_gib()
    started = time.perf_counter()
    verification = clusterplan.verify(instance, result)
    row |= {"verify_s": time.perf_counter() - started, "verified": verification.ok}
    # Only now: whoever looks at the groups of a job first makes them.
    row["running_tasks"] = sum(sum(g.current.values()) for job in instance.jobs for g in job.task_groups)
    row["message"] = "; ".join(verification.faults) or (result.message if result.status == "error" else None)
    return row


def own_proof(instance: Any, method: str, options: Any) -> Any:
    """Solve an instance, and believe only what the method proves by itself, or counting does."""
    from clusterplan.formulations.registry import formulate
    from clusterplan.solvers.common.base import Clock
    from clusterplan.solvers.common.conclude import conclude
    from clusterplan.solvers.registry import find_solver

    clock = Clock(options.time_limit_s)
    formulation = formulate(instance)
    outcome = find_solver(method, instance.kind).solve(formulation, options, clock)
    return conclude(formulation, method, options, outcome, clock.elapsed_s)


def records_of(result: Any) -> dict[str, Any]:
    """Return what is known about each objective, and whether the check alone proves all of them."""
    row: dict[str, Any] = {}
    for record in result.objectives:
        name = COLUMN.get(record.name, record.name)
        row[name] = record.value
        for field in ("bound", "certified_bound", "gap", "certified_gap"):
            row[f"{name}_{field}"] = getattr(record, field)
    gaps = [record.certified_gap for record in result.objectives]
    row["certified"] = bool(gaps) and all(gap is not None and gap <= ASKED for gap in gaps)
    return row


def most_gib() -> float:
    """Return the most memory that this process, or a solver that it started, has held."""
    return max(peak_gib(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20)


def load_solve_verify(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each step from a file to a checked plan, all in this process, libraries included."""
    import clusterplan

    started = time.perf_counter()

    def step(name: str) -> dict[str, Any]:
        nonlocal started
        seconds, started = time.perf_counter() - started, time.perf_counter()
        return {"step": name, "total_s": seconds, "peak_gib": peak_gib()}

    instance = clusterplan.load(case["file"])
    yield step("load")
    options = clusterplan.SolveOptions(time_limit_s=case["limit_s"], threads=1)
    result = clusterplan.solve(instance, "exact", options)
    yield step("solve") | {key: getattr(result, key) for key in FIGURES} | records_of(result)
    verified = clusterplan.verify(instance, result).ok
    yield step("verify") | {"verified": verified}


def write_files(case: dict[str, Any]) -> dict[str, Any]:
    """Make an instance and save it; return how long saving took, and how large the tables are."""
    from consolidation_instances import generated

    import clusterplan

    instance, path = generated(**case["instance"][1]), Path(case["file"])
    started = time.perf_counter()
    clusterplan.save(instance, path, table=case["table"])
    seconds = time.perf_counter() - started
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.stem}*"))
    return {"step": "save", "total_s": seconds, "megabytes": round(size / 1e6, 2), "peak_gib": peak_gib()}


def run(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of one case, measured in this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_GIB * 2**30,) * 2)
    if case["do"] == "load":
        yield from load_solve_verify(case)
    elif case["do"] == "write":
        yield write_files(case)
    else:
        import consolidation_instances

        name, arguments = case["instance"]
        yield solved(getattr(consolidation_instances, name)(**arguments), case)


@dataclass(frozen=True)
class Trial:
    """What the command line asks for.

    Attributes
    ----------
    largest
        No instance has more servers.
    seeds
        No part takes more seeds.
    limit_s
        No method has longer.
    """

    largest: int = SIZES[-1]
    seeds: int = QUALITY_SEEDS
    limit_s: float = EXACT_LIMIT_S

    def sizes(self, all_sizes: tuple[int, ...]) -> list[int]:
        """Return the sizes that are not too large."""
        return [size for size in all_sizes if size <= self.largest]

    def row(self, kind: str, method: str, limit_s: float | None = None, **arguments: Any) -> dict[str, Any]:
        """Solve an instance in a process of its own and return the row."""
        if limit_s is None:
            limit_s = EXACT_LIMIT_S if method == "exact" else LIMIT_S
        limit_s = min(limit_s, self.limit_s)
        threads = os.cpu_count() if method in TEXTBOOK else 1
        case = {"do": "solve", "instance": [kind, arguments], "method": method}
        case |= {"limit_s": limit_s, "threads": threads}
        row = in_own_process(__file__, case, PATIENCE * limit_s + 10)[-1]
        if method == "exact":
            row |= at_default(__file__, case, PATIENCE * EXACT_LIMIT_S + 10, self.limit_s)
        return {**arguments, "method": method, "threads": threads, "limit_s": limit_s, **row}


class GivenUp:
    """Methods that failed at a size, and are not tried at larger ones."""

    def __init__(self) -> None:
        self._failed: dict[tuple[object, ...], int] = {}

    def row(self, trial: Trial, kind: str, method: str, **arguments: Any) -> dict[str, Any]:
        """Return the row of a solve, or that it was not tried; `exact` always is."""
        key = (method, *(value for name, value in arguments.items() if name != "servers"))
        if key in self._failed:
            servers = arguments["servers"]
            why = f"failed on {self._failed[key]} servers"
            return {
                "jobs": 3 * servers // 2,
                **arguments,
                "method": method,
                "status": "not run",
                "limit": why,
            }
        row = trial.row(kind, method, **arguments)
        unproven = method in TEXTBOOK and row["status"] != "optimal"
        if method != "exact" and (unproven or row["status"] not in ("optimal", "feasible")):
            self._failed[key] = arguments["servers"]
        return row


def sweep(trial: Trial) -> Iterator[dict[str, Any]]:
    """Yield a row for every method at every size and load, GPUs alone."""
    given_up = GivenUp()
    for servers, load, method in itertools.product(trial.sizes(SIZES), LOADS, METHODS):
        yield given_up.row(trial, "generated", method, servers=servers, load=load, seed=1, resources=1)


def resources(trial: Trial) -> Iterator[dict[str, Any]]:
    """Yield a row for every method at every size and load, with three resources and four shapes."""
    given_up = GivenUp()
    for servers, load, method in itertools.product(trial.sizes(RESOURCE_SIZES), LOADS, METHODS):
        yield given_up.row(trial, "generated", method, servers=servers, load=load, seed=1, resources=3)


def hard(trial: Trial) -> Iterator[dict[str, Any]]:
    """Yield a row of `exact` for every fragmented cluster."""
    seeds = range(min(HARD_SEEDS, trial.seeds))
    for servers, kinds, load, seed in itertools.product(trial.sizes(HARD_SIZES), (1, 3), HARD_LOADS, seeds):
        asked = {"servers": servers, "load": load, "seed": seed, "resources": kinds}
        yield trial.row("fragmented", "exact", HARD_LIMIT_S, **asked)


def migrations(trial: Trial) -> Iterator[dict[str, Any]]:
    """Yield a row for every running cluster: `exact`, and what best fit moves, which does not look."""
    seeds = range(min(RUNNING_SEEDS, trial.seeds))
    sizes = trial.sizes(RUNNING_SIZES)
    for servers, kinds, load, seed in itertools.product(sizes, (1, 3), LOADS, seeds):
        for method in ("exact", "best-fit"):
            asked = {"servers": servers, "load": load, "seed": seed, "resources": kinds}
            yield trial.row("running", method, RUNNING_LIMIT_S, **asked)


def quality(trial: Trial) -> Iterator[dict[str, Any]]:
    """Yield a row of `exact` and of every heuristic on many instances."""
    servers = min(QUALITY_SERVERS, trial.largest)
    seeds = range(min(QUALITY_SEEDS, trial.seeds))
    for kinds, load, seed, method in itertools.product((1, 3), LOADS, seeds, ("exact", *HEURISTICS)):
        asked = {"servers": servers, "load": load, "seed": seed, "resources": kinds}
        yield trial.row("generated", method, QUALITY_LIMIT_S, **asked)


def ratio(trial: Trial) -> Iterator[dict[str, Any]]:
    """Yield a row of `exact` and of the textbook model on CBC, on 64 servers and 80 jobs."""
    for load, seed in itertools.product(LOADS, range(min(RATIO_SEEDS, trial.seeds))):
        for method in ("exact", "milp:cbc"):
            asked = {"servers": RATIO_SERVERS, "jobs": RATIO_JOBS, "load": load, "seed": seed}
            yield {"resources": 1, **trial.row("of_size", method, **asked)}


def loading(trial: Trial) -> Iterator[dict[str, Any]]:
    """Yield a row for each step from tables to a checked plan, in Parquet and in CSV."""
    servers = min(LOADED_SERVERS, trial.largest)
    asked = {"servers": servers, "load": LOADS[0], "seed": 1, "resources": 1}
    with tempfile.TemporaryDirectory() as folder:
        for table in ("parquet", "csv"):
            said = {**asked, "jobs": 3 * servers // 2, "table": table}
            case = {"instance": ["generated", asked], "table": table, "limit_s": EXACT_LIMIT_S}
            case["file"] = str(Path(folder) / f"{table}.yaml")
            for do in ("write", "load"):
                for row in in_own_process(__file__, case | {"do": do}, 3 * EXACT_LIMIT_S):
                    yield {**said, **row}


@dataclass(frozen=True)
class Part:
    """A part of the benchmark: the name of its table, its rows and its columns."""

    name: str
    rows: Callable[[Trial], Iterator[dict[str, Any]]]
    columns: tuple[str, ...]


STEPS = (*INSTANCE, "table", "step", "total_s", "peak_gib", "megabytes", *FIGURES, "certified", "verified")
PARTS = {
    "ratio": Part("consolidation-ratio", ratio, columns_of(OBJECTIVES)),
    "loading": Part("consolidation-loading", loading, (*STEPS, "message")),
    "quality": Part("consolidation-quality", quality, columns_of(OBJECTIVES)),
    "migrations": Part("consolidation-migrations", migrations, (*columns_of(MOVED), "running_tasks")),
    "hard": Part("consolidation-hard", hard, columns_of(OBJECTIVES)),
    "resources": Part("consolidation-resources", resources, columns_of(OBJECTIVES)),
    "sweep": Part("consolidation", sweep, columns_of(OBJECTIVES)),
}


def shortcomings(frame: pd.DataFrame) -> list[str]:
    """Return where `exact` has no proof, is not certified or is beaten, and what failed the check."""
    said = []
    objectives = [name for name in ("value", "spread", "migrations", "servers_used") if name in frame]
    for key, rows in frame.groupby(list(KEY)):
        servers, kinds, load, seed = key
        name = f"{servers:,} servers, resources: {kinds}, load {load:g}, seed {seed}"
        said += [f"{name}: {row.method} FAILED the check" for row in rows[failed(rows)].itertuples()]
        for _, row in rows[rows["method"] == "exact"].iterrows():
            said += [f"{name}: exact: {line}" for line in left_open(row, objectives)]
        said += [f"{name}: {line}" for line in beating(rows, objectives)]
    return said


def left_open(row: pd.Series, objectives: list[str]) -> Iterator[str]:
    """Yield what a row of `exact` does not prove, or does not certify."""
    if row["status"] != "optimal":
        said = row["message"] if row["status"] in NO_ANSWER else between(row, objectives, "bound")
        yield f"{row['status']}, stopped by {row['limit']}; {said}"
    elif not row["certified"]:
        yield f"proven, but not certified: {between(row, objectives, 'certified_bound')}"


def between(row: pd.Series, objectives: list[str], bound: str) -> str:
    """Return values and bounds of the objectives for which they differ."""
    said = [
        f"{name.replace('_', ' ')} {row[name]:g}, bound {row[f'{name}_{bound}']:g}"
        for name in objectives
        if row[name] != row[f"{name}_{bound}"]
    ]
    return "; ".join(said) or "all bounds are reached"


def failed(rows: pd.DataFrame) -> pd.Series:
    """Return which results the check found wrong, or the library refused as an error."""
    return (rows["verified"].astype(str) == "False") | (rows["status"] == "error")


def beating(rows: pd.DataFrame, objectives: list[str]) -> Iterator[str]:
    """Yield which methods have a better plan than `exact`, or claim that a worse one is the best."""

    def rank(row: pd.Series) -> tuple[float, ...]:
        return tuple(-row[name] if name == "value" else row[name] for name in objectives)

    exact = rows[rows["method"] == "exact"]
    best = exact.iloc[0] if len(exact) and exact["value"].notna().all() else None
    for _, row in rows[(rows["method"] != "exact") & rows["value"].notna()].iterrows():
        if best is None or rank(row) < rank(best):
            proven = best is not None and best["status"] == "optimal"
            yield f"{row['method']} has a better plan than exact{', which is WRONG' if proven else ''}"
        elif row["status"] == "optimal" and rank(row) > rank(best):
            yield f"{row['method']} calls a plan optimal that is worse than that of exact"


def main() -> None:
    """Run all parts, or some."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--part", choices=(*PARTS, "report"), action="append")
    parser.add_argument("--largest", type=int, default=Trial.largest, help="servers of the largest instance")
    parser.add_argument("--seeds", type=int, default=Trial.seeds, help="most seeds of a part")
    parser.add_argument("--limit-s", type=float, default=Trial.limit_s, help="most seconds of a method")
    given = parser.parse_args()
    if given.case:
        for row in run(json.loads(given.case)):
            say(row)
        return
    trial = Trial(given.largest, given.seeds, given.limit_s)
    chosen = [part for name, part in PARTS.items() if given.part is None or name in given.part]
    for part in chosen:
        store(part.name, part.rows(trial), part.columns)
    if given.part is None or "report" in given.part:
        from consolidation_report import write_report

        write_report(RESULTS)
    check([RESULTS / f"{part.name}.csv" for part in chosen if part.name != "consolidation-loading"])


def check(files: list[Path]) -> None:
    """Fail loudly where a proof or a result is wrong; say what else falls short."""
    import pandas as pd

    said = [line for file in files for line in shortcomings(pd.read_csv(file))]
    if said:
        print(*said, sep="\n", file=sys.stderr)
    if any("WRONG" in line or "FAILED" in line for line in said):
        sys.exit("a proof or a result is wrong")


if __name__ == "__main__":
    main()
