"""Consolidation from 16 to 100,000 servers: every method, as far as it goes within its limit.

Run with `make bench-consolidation`. All instances are synthetic. Writes to `benchmarks/results/`:

* `consolidation.csv`: busy clusters of 8-GPU servers, by size and load, GPUs alone;
* `consolidation-resources.csv`: the same with CPUs and memory too, and four shapes of servers;
* `consolidation-hard.csv`: fragmented clusters, on which jobs that want one server need two, `exact` alone;
* `consolidation-migrations.csv`: clusters on which most of the jobs run already;
* `consolidation-quality.csv`: what the heuristics lose against the optimum, over many instances;
* `consolidation-ratio.csv`: `exact` beside the textbook model on CBC, on 64 servers and 80 jobs;
* `consolidation-loading.csv`: 100,000 servers and 150,000 jobs from files to a checked plan;
* `consolidation-blocks.csv`: tensors of models on parameter servers, `exact` beside PAA of Optimus;
* `consolidation.md`, `consolidation.png` and `consolidation-quality.png`: the figures that matter.

Every solve is a process of its own. `exact` and the heuristics have one thread, the solvers of textbook
models every core, and what these prove is their own: no prices of `exact` are added, as `solve` would do.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consolidation_report import (
    ASKED,
    HEURISTICS,
    LIMIT_S,
    LOADS,
    RATIO_JOBS,
    RATIO_SERVERS,
    TEXTBOOK,
    shortcomings,
    write_report,
)
from runner import (
    AT_DEFAULT,
    FIGURES,
    RESULTS,
    Part,
    Row,
    at_default,
    in_own_process,
    options,
    peak_gib,
    run_parts,
    verified,
)
from runner import solved as solved_in_time

SIZES = (16, 32, 64, 128, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
"""Servers; half as many more jobs."""
RESOURCE_SIZES = SIZES[:-2]
HARD_SIZES = (40, 300, 1_000)
HARD_LOADS = (0.8, 1.0, 1.3)
HARD_SEEDS = 5
RUNNING_SIZES = (100, 300, 1_000)
RUNNING_SEEDS = 2
QUALITY_SERVERS = 300
QUALITY_SEEDS = 20
RATIO_SEEDS = 3
LOADED_SERVERS = 100_000
METHODS = ("exact", *TEXTBOOK, *HEURISTICS)
EXACT_LIMIT_S = 120.0
HARD_LIMIT_S = QUALITY_LIMIT_S = 30.0
RUNNING_LIMIT_S = 60.0
MAX_GIB = 12
"""Memory that one process may ask for."""
PATIENCE = 2.0
"""A process is killed after so many times its limit, and ten seconds."""
OBJECTIVES = ("value", "spread", "servers_used")
LOADS_OF_SERVERS = ("imbalance", "spread", "traffic")
BLOCK_SERVERS = (2, 4, 6, 8, 10, 12, 16, 20)
MOST_WHOLE = 10
"""Servers up to which the largest block of ResNet-50 is below the average."""
BLOCKS_LIMIT_S = 20.0
MOVED = ("value", "migrations", "servers_used")
COLUMN = {"servers": "servers_used"}
"""Of an objective, where it is not its name: `servers` is the size of a cluster."""

INSTANCE = ("servers", "jobs", "resources", "load", "seed")
COST = ("build_s", "solve_s", "total_s", "verify_s", "verified", "peak_gib", "message")
"""Building the model; all the rest, with the checks of plan and certificate; both; `verify` of the result."""


def columns_of(objectives: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of a table about these objectives."""
    ends = ("", "_bound", "_certified_bound", "_gap", "_certified_gap")
    details = tuple(name + end for name in objectives for end in ends)
    return (*INSTANCE, "method", "threads", "limit_s", *FIGURES, "certified", *details, *COST, *AT_DEFAULT)


def solved(instance: Any, case: Row) -> Row:
    """Solve an instance, check the result, and return the figures; the message is that of an error."""
    method = case["method"]
    call = own_proof if method in TEXTBOOK else None
    result, row = solved_in_time(instance, method, case["limit_s"], case["threads"], solve=call)
    row["jobs"] = len(instance.jobs)
    if result is None:
        return row
    row |= records_of(result) | {"peak_gib": most_gib()}
    row["message"] = result.message if result.status == "error" else None
    row |= verified(instance, result)
    # Only now: whoever looks at the groups of a job first makes them.
    row["running_tasks"] = sum(sum(g.current.values()) for job in instance.jobs for g in job.task_groups)
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


def records_of(result: Any) -> Row:
    """Return what is known about each objective, and whether the check alone proves all of them."""
    row: Row = {}
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


def load_solve_verify(case: Row) -> Iterator[Row]:
    """Yield a row for each step from a file to a checked plan, all in this process, libraries included."""
    import clusterplan

    started = time.perf_counter()

    def step(name: str) -> Row:
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


def write_files(case: Row) -> Row:
    """Make an instance and save it; return how long saving took, and how large the tables are."""
    from consolidation_instances import generated

    import clusterplan

    instance, path = generated(**case["instance"][1]), Path(case["file"])
    started = time.perf_counter()
    clusterplan.save(instance, path, table=case["table"])
    seconds = time.perf_counter() - started
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.stem}*"))
    return {"step": "save", "total_s": seconds, "megabytes": round(size / 1e6, 2), "peak_gib": peak_gib()}


def measured(case: Row) -> Iterator[Row]:
    """Yield the rows of one case, measured in this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_GIB * 2**30,) * 2)
    if case["do"] == "load":
        yield from load_solve_verify(case)
    elif case["do"] == "write":
        yield write_files(case)
    else:
        import consolidation_instances

        name, arguments = case["instance"]
        yield solved(getattr(consolidation_instances, name)(**arguments), case)


def sizes(given: argparse.Namespace, every: tuple[int, ...]) -> list[int]:
    """Return the sizes that are not larger than is asked for."""
    return [size for size in every if size <= given.largest]


def row_of(
    given: argparse.Namespace, kind: str, method: str, limit_s: float | None = None, **arguments: Any
) -> Row:
    """Solve an instance in a process of its own and return the row."""
    if limit_s is None:
        limit_s = EXACT_LIMIT_S if method == "exact" else LIMIT_S
    said = {"method": method, "threads": os.cpu_count() if method in TEXTBOOK else 1}
    said["limit_s"] = limit_s = min(limit_s, given.limit_s)
    case = {"do": "solve", "instance": [kind, arguments], **said}
    row = in_own_process(case, PATIENCE * limit_s + 10)[-1]
    if method == "exact":
        row |= at_default(case, PATIENCE * EXACT_LIMIT_S + 10, given.limit_s)
    return {**arguments, **said, **row}


def by_size(given: argparse.Namespace, every: tuple[int, ...], kinds: int) -> Iterator[Row]:
    """Yield a row for every method at every size and load.

    A method that failed at a size is not tried at larger ones; `exact` always is.
    """
    failed: dict[tuple[float, str], int] = {}
    for servers, load, method in itertools.product(sizes(given, every), LOADS, METHODS):
        asked = {"servers": servers, "load": load, "seed": 1, "resources": kinds}
        if at := failed.get((load, method)):
            row = {"jobs": 3 * servers // 2, **asked, "method": method, "status": "not run"}
            yield row | {"limit": f"failed on {at} servers"}
            continue
        row = row_of(given, "generated", method, **asked)
        good = ("optimal",) if method in TEXTBOOK else ("optimal", "feasible")
        if method != "exact" and row["status"] not in good:
            failed[load, method] = servers
        yield row


def sweep(given: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of GPUs alone."""
    return by_size(given, SIZES, 1)


def resources(given: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of three resources and four shapes."""
    return by_size(given, RESOURCE_SIZES, 3)


def hard(given: argparse.Namespace) -> Iterator[Row]:
    """Yield a row of `exact` for every fragmented cluster."""
    seeds = range(min(HARD_SEEDS, given.seeds))
    for servers, kinds, load, seed in itertools.product(sizes(given, HARD_SIZES), (1, 3), HARD_LOADS, seeds):
        asked = {"servers": servers, "load": load, "seed": seed, "resources": kinds}
        yield row_of(given, "fragmented", "exact", HARD_LIMIT_S, **asked)


def migrations(given: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for every running cluster: `exact`, and what best fit moves, which does not look."""
    seeds = range(min(RUNNING_SEEDS, given.seeds))
    running = sizes(given, RUNNING_SIZES)
    for servers, kinds, load, seed in itertools.product(running, (1, 3), LOADS, seeds):
        for method in ("exact", "best-fit"):
            asked = {"servers": servers, "load": load, "seed": seed, "resources": kinds}
            yield row_of(given, "running", method, RUNNING_LIMIT_S, **asked)


def quality(given: argparse.Namespace) -> Iterator[Row]:
    """Yield a row of `exact` and of every heuristic on many instances."""
    servers = min(QUALITY_SERVERS, given.largest)
    seeds = range(min(QUALITY_SEEDS, given.seeds))
    for kinds, load, seed, method in itertools.product((1, 3), LOADS, seeds, ("exact", *HEURISTICS)):
        asked = {"servers": servers, "load": load, "seed": seed, "resources": kinds}
        yield row_of(given, "generated", method, QUALITY_LIMIT_S, **asked)


def ratio(given: argparse.Namespace) -> Iterator[Row]:
    """Yield a row of `exact` and of the textbook model on CBC, on 64 servers and 80 jobs."""
    for load, seed in itertools.product(LOADS, range(min(RATIO_SEEDS, given.seeds))):
        for method in ("exact", "milp:cbc"):
            asked = {"servers": RATIO_SERVERS, "jobs": RATIO_JOBS, "load": load, "seed": seed}
            yield {"resources": 1, **row_of(given, "of_size", method, **asked)}


def loading(given: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each step from tables to a checked plan, in Parquet and in CSV."""
    servers = min(LOADED_SERVERS, given.largest)
    asked = {"servers": servers, "load": LOADS[0], "seed": 1, "resources": 1}
    with tempfile.TemporaryDirectory() as folder:
        for table in ("parquet", "csv"):
            said = {**asked, "jobs": 3 * servers // 2, "table": table}
            case = {"instance": ["generated", asked], "table": table, "limit_s": EXACT_LIMIT_S}
            case["file"] = str(Path(folder) / f"{table}.yaml")
            for do in ("write", "load"):
                for row in in_own_process(case | {"do": do}, 3 * EXACT_LIMIT_S):
                    yield {**said, **row}


def blocks(given: argparse.Namespace) -> Iterator[Row]:
    """Yield a row of PAA and of `exact` for each number of parameter servers; where blocks are large, cut."""
    cases = [("resnet50-v2", servers, servers > MOST_WHOLE) for servers in BLOCK_SERVERS]
    cases += [(model, servers, True) for model in ("vgg16", "bert-base") for servers in BLOCK_SERVERS]
    for (model, servers, cuts), method in itertools.product(cases, ("paa", "exact")):
        arguments = {"model": model, "servers": servers, "cuts": cuts}
        said = {"method": method, "threads": 1, "limit_s": min(BLOCKS_LIMIT_S, given.limit_s)}
        case = {"do": "solve", "instance": ["blocks", arguments], **said}
        yield {**arguments, **said, **in_own_process(case, PATIENCE * BLOCKS_LIMIT_S + 10)[-1]}


STEPS = (*INSTANCE, "table", "step", "total_s", "peak_gib", "megabytes", *FIGURES, "certified", "verified")
PARTS = {
    "blocks": Part("consolidation-blocks", blocks, ("model", "cuts", *columns_of(LOADS_OF_SERVERS))),
    "ratio": Part("consolidation-ratio", ratio, columns_of(OBJECTIVES)),
    "loading": Part("consolidation-loading", loading, (*STEPS, "message")),
    "quality": Part("consolidation-quality", quality, columns_of(OBJECTIVES)),
    "migrations": Part("consolidation-migrations", migrations, (*columns_of(MOVED), "running_tasks")),
    "hard": Part("consolidation-hard", hard, columns_of(OBJECTIVES)),
    "resources": Part("consolidation-resources", resources, columns_of(OBJECTIVES)),
    "sweep": Part("consolidation", sweep, columns_of(OBJECTIVES)),
}


def main() -> None:
    """Run all parts, or some; say what falls short, and fail where a proof or a result is wrong."""
    parser = options(
        __doc__,
        largest=(SIZES[-1], "servers of the largest instance"),
        seeds=(QUALITY_SEEDS, "most seeds of a part"),
        limit_s=(EXACT_LIMIT_S, "most seconds of a method"),
    )
    tables = run_parts(parser, PARTS, measured, write_report)
    said = shortcomings(RESULTS, (name for name in tables if name != PARTS["loading"].table))
    if said:
        print(*said, sep="\n", file=sys.stderr)
    if any("WRONG" in line or "FAILED" in line for line in said):
        sys.exit("a proof or a result is wrong")


if __name__ == "__main__":
    main()
