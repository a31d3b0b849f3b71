"""The default time limit beside none: what a limit that does not cut in costs, whole processes.

Run with `make bench-default-limit`. Every solver that proves solves an instance of its kind twice, as the
command does by default and with `--time-limit 0`. By default it may take a fifth and a second of processors
more, and has to end with the same value. What the default limit stops is not compared. Writes
`benchmarks/results/default-limit.csv` and `default-limit.md`.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from limits import allocation, command, consolidation, openb
from report import bullets, read, table, write
from runner import RESULTS, Row, options, renew

from clusterplan.planner.cli.solving import DEFAULT_TIME_LIMIT_S

SHARE, GRACE_S = 1.2, 1.0
"""The default may take so many times the processor seconds without a limit, and so many seconds more."""
NAME = "default-limit"
COLUMNS = (
    *("instance", "kind", "method", "default_s", "free_s", "within", "default_status", "free_status"),
    *("stopped_by", "same_value"),
)


def staging() -> Any:
    """Return 300 layers on 32 types without limits of units."""
    from clusterplan.instances.staging.generate import generate_staging

    return generate_staging(300, 32, "none", seed=7)


def graph() -> Any:
    """Return 400 layers in pairs of parallel ones, on eight units."""
    from clusterplan.instances.documents import parse_instance

    names = [f"{step}{side}" for step in range(200) for side in "ab"]
    pairs = [(a, b) for a, b in itertools.product(names, names) if int(b[:-1]) == int(a[:-1]) + 1]
    return parse_instance(
        {
            "schema_version": 1,
            "kind": "staging",
            "name": "pairs",
            "objective": "throughput",
            "stage_rule": "free_cuts",
            "training": {"samples": 1e6},
            "probe_batch": 1,
            "most_units_per_stage": 1,
            "types": [{"name": "gpu", "price_usd_per_hour": 2.5, "limit": 8}],
            "layers": [
                {"name": n, "compute_s": {"gpu": 0.001 * (1 + k % 7)}, "compute_parallel": 0.99}
                for k, n in enumerate(names)
            ],
            "edges": [{"source": a, "target": b} for a, b in pairs],
        }
    )


def small_allocation() -> Any:
    """Return 200 jobs on three resources, for explicit models."""
    from clusterplan.instances.allocation.generate import generate_allocation

    return generate_allocation(200, 3, tightness=0.8, seed=1)


def small_staging() -> Any:
    """Return 6 layers on 3 types, for explicit models."""
    from clusterplan.instances.staging.generate import generate_staging

    return generate_staging(6, 3, "loose", seed=1)


def small_consolidation() -> Any:
    """Return 20 servers and 60 jobs, for explicit models."""
    from clusterplan.instances.consolidation.generate import generate_consolidation

    return generate_consolidation(20, 60, load=1.1, seed=1)


def scheduling() -> Any:
    """Return 6 jobs on 4 GPUs."""
    from clusterplan.instances.scheduling.generate import generate_scheduling

    return generate_scheduling(6, 4, seed=1)


INSTANCES: dict[str, tuple[Callable[[], Any], bool]] = {
    "allocation": (allocation, False),
    "staging": (staging, False),
    "graph": (graph, False),
    "consolidation": (consolidation, False),
    "openb": (openb, False),
    "scheduling": (scheduling, False),
    "small-allocation": (small_allocation, True),
    "small-staging": (small_staging, True),
    "small-consolidation": (small_consolidation, True),
}
"""How to make each, and whether solvers with explicit models are measured on it, or `exact` alone."""


def rows(name: str) -> Iterator[Row]:
    """Yield a row for each solver that proves."""
    from clusterplan import save
    from clusterplan.solvers.registry import solvers_for

    make, models = INSTANCES[name]
    instance = make()
    if instance is None:
        print(f"{name}: skipped; there is no such data", file=sys.stderr)
        return
    proving = [one.name for one in solvers_for(instance.kind, available=True) if one.proves]
    chosen = [one for one in proving if one != "exact"] if models else ["exact"]
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / f"{name}.json")
        save(instance, Path(file))
        for method in chosen:
            if method in ("auto", "brute-force"):
                continue
            words = ["solve", file, "--solver", method, "--format", "json", "--quiet"]
            command(words, DEFAULT_TIME_LIMIT_S)  # compiled loops are kept on disk
            _, default_s, found = command(words, DEFAULT_TIME_LIMIT_S)
            row = {
                "instance": name,
                "kind": instance.kind,
                "method": method,
                "default_s": default_s,
                "default_status": found["status"],
                "stopped_by": found.get("limit"),
            }
            if row["stopped_by"] == "none":
                _, free_s, other = command([*words, "--time-limit", "0"], DEFAULT_TIME_LIMIT_S)
                row["free_s"], row["free_status"] = free_s, other["status"]
                row["within"] = default_s <= SHARE * free_s + GRACE_S
                row["same_value"] = found.get("objective") == other.get("objective")
            yield row


def said(make: Callable[[], Any]) -> str:
    """Return what an instance is, as its maker says it."""
    return f"{(make.__doc__ or '').removeprefix('Return ').split(';')[0].rstrip('.')}."


def write_report(folder: Path) -> None:
    """Write `default-limit.md`."""
    frame = read(folder, NAME)
    compared = frame[frame["stopped_by"] == "none"]
    outside = compared[~compared["within"].astype(bool) | ~compared["same_value"].astype(bool)]
    parts = [
        "# The default time limit: measured results",
        f"Seconds of processors of whole processes, by default ({DEFAULT_TIME_LIMIT_S:g} s) and with "
        f"`--time-limit 0`; the default may take {SHARE:g} times as long and {GRACE_S:g} s more. "
        f"**{len(compared) - len(outside)} of {len(compared)}** do, and have the same value. What the "
        "default limit stopped is not compared.",
        bullets(f"{name}: {said(make)}" for name, (make, _) in INSTANCES.items()),
        table(frame),
    ]
    write(folder, NAME, parts)


def main() -> None:
    """Measure all instances, or some; stored rows of the others are kept."""
    parser = options(__doc__)
    parser.add_argument("--part", choices=[*INSTANCES], action="append")
    parts = parser.parse_args().part or [*INSTANCES]
    measured = itertools.chain.from_iterable(map(rows, parts))
    renew(NAME, lambda row: row["instance"] in parts, measured, COLUMNS)
    write_report(RESULTS)


if __name__ == "__main__":
    main()
