"""Staging from 5 layers on 2 types to 300 on 64: every method that finishes within its limit.

Run with `make bench-staging`. All instances are synthetic. Writes to `benchmarks/results/`:

* `staging-quality.csv`: 40 instances of 16 layers and 2 types, solved by `exact` and by every method of
  HeterPS's comparison set, with the units of the paper's load balance and with exact ones; fails if any
  method ever beats `exact`;
* `staging-ratio.csv`: repeated, interleaved times of `exact` and of the methods that search, in one process;
* `staging-claims.csv`: what is claimed of `exact`, each claim measured;
* `staging.csv`: the sweep over sizes, without limits of units and with tight ones;
* `staging.md` and `staging.png`: the figures that matter.

Every method has one thread, so that nothing looks fast because others wait for shared cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from common import FIGURES, RESULTS, in_own_process, peak_gib, say, store

SIZES = (
    (5, 2),
    (10, 2),
    (16, 2),
    (16, 4),
    (16, 8),
    (30, 8),
    (50, 8),
    (100, 8),
    (100, 16),
    (200, 16),
    (200, 32),
    (300, 32),
    (300, 64),
)
"""Layers and types of the sweep, small to large."""
LIMIT_S = 30.0
"""Of every method but `exact`; one that misses it is not tried at larger sizes."""
EXACT_LIMIT_S = 60.0
PAPER = ("single-type", "greedy", "genetic", "bayesian", "reinforce-lstm", "reinforce-rnn")
PROVING = ("milp:highs", "milp:cbc", "milp:scip", "cp-sat", "brute-force")
PROVISIONING = ("load-balance", "exact")
FAMILIES = ("ctr", "none", "loose", "tight")
"""Click-through-rate models on HeterPS's cluster, and the generic generator by its limits."""
CTR_SEEDS = range(20)
GENERIC_SEEDS = range(20)
TIMED: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": ("exact", {}),
    "genetic": ("genetic", {}),
    "genetic, 5,000 evaluations": ("genetic", {"evaluations": 5_000}),
    "bayesian": ("bayesian", {}),
    "reinforce-lstm": ("reinforce-lstm", {}),
}
"""By name: a method with its default budget, or with a smaller one."""
REPETITIONS = 3
RATIO_INSTANCES = (("ctr", 0), ("ctr", 1), ("ctr", 2), ("none", 0), ("loose", 0), ("tight", 0))
BEATEN = 1e-6
SLOW_S = 20.0
SIZE = ("layers", "types", "limits", "seed")
SECONDS = ("build_s", "solve_s", "total_s")
"""Building the model; all the rest, with the checks of plan and certificate; both."""


def instance_of(layers: int, types: int, family: str, seed: int) -> Any:
    """Return a synthetic instance."""
    if family == "ctr":
        from clusterplan.instances.staging.generate_ctr import generate_ctr

        return generate_ctr(layers, seed)
    from clusterplan.instances.staging.generate import generate_staging

    return generate_staging(layers, types, family, seed=seed)  # type: ignore[arg-type]


def solved(instance: Any, method: str, limit_s: float, **settings: Any) -> dict[str, Any]:
    """Solve an instance and return the figures."""
    import clusterplan

    started = time.perf_counter()
    options = clusterplan.SolveOptions(time_limit_s=limit_s, threads=1, method_options=settings)
    try:
        result = clusterplan.solve(instance, method, options)
    except clusterplan.ClusterplanError as error:
        return {"method": method, "status": "refused", "limit": "none", "message": str(error)[:80]}
    total = time.perf_counter() - started
    return {
        "method": method,
        **{key: getattr(result, key) for key in FIGURES},
        "build_s": result.build_s,
        "solve_s": total - result.build_s,
        "total_s": total,
        "message": result.message if result.status == "error" else None,
    }


def warm_up(methods: Iterable[str]) -> None:
    """Solve a tiny instance with each, so that what is timed later has its libraries."""
    short = {"genetic": "evaluations", "bayesian": "evaluations"}
    for limits in ("none", "tight"):
        for method in methods:
            key = "episodes" if method.startswith("reinforce") else short.get(method)
            solved(instance_of(6, 2, limits, 99), method, LIMIT_S, **({key: 80} if key else {}))


def run(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of one case, measured in this process."""
    instance = instance_of(*case["instance"])
    if case["part"] == "sweep":
        yield solved(instance, case["method"], case["limit_s"]) | {"peak_gib": peak_gib()}
    elif case["part"] == "quality":
        warm_up(("exact", *PAPER))
        yield solved(instance, "exact", EXACT_LIMIT_S)
        for method in PAPER:
            for way in PROVISIONING:
                yield solved(instance, method, LIMIT_S, provisioning=way) | {"provisioning": way}
    elif case["part"] == "ratio":
        warm_up({method for method, _ in TIMED.values()})
        for repetition in range(REPETITIONS):
            for name, (method, settings) in TIMED.items():
                row = solved(instance, method, EXACT_LIMIT_S, **settings)
                yield row | {"method": name, "repetition": repetition}
    else:
        for call in range(1, 1 + case["calls"]):
            yield solved(instance, "exact", case["limit_s"]) | {"call": call, "peak_gib": peak_gib()}


def rows_of(case: dict[str, Any], patience_s: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of one case, each with what it was asked."""
    said = dict(zip(SIZE, case["instance"], strict=True)) | case.get("shown", {})
    for row in in_own_process(__file__, case, patience_s):
        yield {**said, **row}


def sweep(sizes: Iterable[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Yield a row for every method at every size, while it keeps its limit."""
    given_up: set[tuple[str, str]] = set()
    for layers, types in sizes:
        for limits in ("none", "tight"):
            for method in ("exact", *PROVING, *PAPER):
                if (method, limits) in given_up:
                    continue
                limit_s = EXACT_LIMIT_S if method == "exact" else LIMIT_S
                case = {"part": "sweep", "instance": [layers, types, limits, 0], "method": method}
                case |= {"limit_s": limit_s, "shown": {"method": method}}
                row = list(rows_of(case, 2 * limit_s + 10))[-1]
                late = row["status"] in ("refused", "killed", "died") or row["total_s"] > 0.9 * LIMIT_S
                if late and method != "exact":
                    given_up.add((method, limits))
                yield row


def quality() -> Iterator[dict[str, Any]]:
    """Yield a row for every method, and every way of giving units, on every instance of 16 layers."""
    cases = [("ctr", seed) for seed in CTR_SEEDS]
    cases += [(FAMILIES[1 + seed % 3], seed) for seed in GENERIC_SEEDS]
    for family, seed in cases:
        yield from rows_of({"part": "quality", "instance": [16, 2, family, seed]}, 12 * LIMIT_S + 2 * 60)


def ratio() -> Iterator[dict[str, Any]]:
    """Yield a row for every timed call."""
    for family, seed in RATIO_INSTANCES:
        yield from rows_of({"part": "ratio", "instance": [16, 2, family, seed]}, 600)


def claims() -> Iterator[dict[str, Any]]:
    """Yield a row for every call of `exact` that a claim is about."""
    cases = [
        ("proven within 10 s", [300, 32, "none", 0], 10.0, 2),
        ("proven within 50 ms once loaded", [16, 8, "none", 0], 10.0, 6),
        ("proven within 50 ms once loaded", [16, 8, "tight", 0], 10.0, 6),
        *(("proven within 60 s", [50, 8, "tight", seed], 60.0, 1) for seed in range(10)),
        *(
            ("certified gap within 60 s", [layers, types, "tight", 0], 60.0, 1)
            for layers, types in ((100, 8), (100, 16), (200, 8), (300, 32))
        ),
    ]
    for claim, instance, limit_s, calls in cases:
        case = {"part": "claims", "instance": instance, "limit_s": limit_s, "calls": calls}
        yield from rows_of(case | {"shown": {"claim": claim, "method": "exact"}}, calls * (limit_s + 60))


def shortcomings(frame: pd.DataFrame) -> list[str]:
    """Return where `exact` is slow, has no plan, is not certified or is beaten, and processes that died."""
    said = []
    for key, rows in frame.groupby(list(SIZE)):
        layers, types, family, seed = key
        name = f"{layers} × {types} {family}, seed {seed}"
        broken = rows["method"].isna()
        said += [f"{name}: the process {row.status}: {row.message}" for row in rows[broken].itertuples()]
        exact = rows[rows["method"] == "exact"]
        best = exact["objective"].min()
        for row in exact.itertuples():
            if row.status in ("refused", "killed", "died", "error", "unknown", "infeasible"):
                said.append(f"{name}: exact: {row.status}, stopped by {row.limit}")
            if row.total_s > SLOW_S:
                said.append(f"{name}: exact took {row.total_s:.3g} s; gap {row.gap:.2g}")
            if row.gap <= BEATEN < row.certified_gap:
                said.append(
                    f"{name}: exact proves a gap of {row.gap:.2g} but certifies {row.certified_gap:.2g}"
                )
        said += [f"{name}: {line}" for line in beating(rows, best)]
    return said


def beating(rows: pd.DataFrame, best: float) -> Iterator[str]:
    """Yield which methods have a better plan of an instance than `exact`, or one where it has none."""
    for row in rows[rows["method"] != "exact"].itertuples():
        if row.objective < best * (1 - BEATEN) or (pd.isna(best) and pd.notna(row.objective)):
            yield f"exact is BEATEN by {row.method}: {row.objective:.10g} < {best:.10g}"


def main() -> None:
    """Run all parts, or some."""
    parts: dict[str, tuple[str, tuple[str, ...]]] = {
        "quality": ("staging-quality", (*SIZE, "method", "provisioning", *FIGURES, *SECONDS, "message")),
        "ratio": ("staging-ratio", (*SIZE, "method", "repetition", *FIGURES, "total_s", "message")),
        "claims": (
            "staging-claims",
            ("claim", *SIZE, "call", "method", *FIGURES, *SECONDS, "peak_gib", "message"),
        ),
        "sweep": ("staging", (*SIZE, "method", *FIGURES, *SECONDS, "peak_gib", "message")),
    }
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--part", choices=(*parts, "report"), action="append")
    parser.add_argument("--largest", type=int, default=SIZES[-1][0] * SIZES[-1][1], help="layers × types")
    given = parser.parse_args()
    if given.case:
        for row in run(json.loads(given.case)):
            say(row)
        return
    sizes = [(layers, types) for layers, types in SIZES if layers * types <= given.largest]
    runs = {"quality": quality, "ratio": ratio, "claims": claims, "sweep": lambda: sweep(sizes)}
    for part in given.part or parts:
        if part != "report":
            store(parts[part][0], runs[part](), parts[part][1])
    if given.part is None or "report" in given.part:
        from staging_report import write_report

        write_report(RESULTS)
    check([RESULTS / f"{parts[part][0]}.csv" for part in given.part or parts if part != "report"])


def check(files: list[Path]) -> None:
    """Fail loudly where a method beats `exact`; say what else falls short."""
    said = [line for file in files for line in shortcomings(pd.read_csv(file))]
    if said:
        print(*said, sep="\n", file=sys.stderr)
    if any("BEATEN" in line for line in said):
        sys.exit("exact is beaten")


if __name__ == "__main__":
    main()
