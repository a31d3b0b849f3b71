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
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from runner import FIGURES, RESULTS, Part, Row, in_own_process, is_late, options, peak_gib, run_parts
from runner import solved as solved_in_time
from staging_report import EXACT_LIMIT_S, LIMIT_S, PAPER, PROVISIONING, SIZE, shortcomings, write_report

SIZES = (
    *((5, 2), (10, 2), (16, 2), (16, 4), (16, 8), (30, 8), (50, 8)),
    *((100, 8), (100, 16), (200, 16), (200, 32), (300, 32), (300, 64)),
)
"""Layers and types of the sweep, small to large."""
PROVING = ("milp:highs", "milp:cbc", "milp:scip", "cp-sat", "brute-force")
FAMILIES = ("ctr", "none", "loose", "tight")
"""Click-through-rate models on HeterPS's cluster, and the generic generator by its limits."""
CTR_SEEDS = range(20)
GENERIC_SEEDS = range(20)
TIMED: dict[str, tuple[str, Row]] = {
    "exact": ("exact", {}),
    "genetic": ("genetic", {}),
    "genetic, 5,000 evaluations": ("genetic", {"evaluations": 5_000}),
    "bayesian": ("bayesian", {}),
    "reinforce-lstm": ("reinforce-lstm", {}),
}
"""By name: a method with its default budget, or with a smaller one."""
REPETITIONS = 3
RATIO_INSTANCES = (("ctr", 0), ("ctr", 1), ("ctr", 2), ("none", 0), ("loose", 0), ("tight", 0))
SECONDS = ("build_s", "solve_s", "total_s")
"""Building the model; all the rest, with the checks of plan and certificate; both."""


def instance_of(layers: int, types: int, family: str, seed: int) -> Any:
    """Return a synthetic instance."""
    if family == "ctr":
        from clusterplan.instances.staging.generate_ctr import generate_ctr

        return generate_ctr(layers, seed)
    from clusterplan.instances.staging.generate import generate_staging

    return generate_staging(layers, types, family, seed=seed)  # type: ignore[arg-type]


def solved(instance: Any, method: str, limit_s: float, **settings: Any) -> Row:
    """Solve an instance and return the figures; the message is that of an error."""
    _, row = solved_in_time(instance, method, limit_s, 1, settings, prepared=False)
    message = row["message"] if row["status"] in ("refused", "error") else None
    return row | {"method": method, "message": message, "peak_gib": peak_gib()}


def warm_up(methods: Iterable[str]) -> None:
    """Solve a tiny instance with each, so that what is timed later has its libraries."""
    short = {"genetic": "evaluations", "bayesian": "evaluations"}
    for limits in ("none", "tight"):
        for method in methods:
            key = "episodes" if method.startswith("reinforce") else short.get(method)
            solved(instance_of(6, 2, limits, 99), method, LIMIT_S, **({key: 80} if key else {}))


def measured(case: Row) -> Iterator[Row]:
    """Yield the rows of one case, measured in this process."""
    instance = instance_of(*case["instance"])
    if case["part"] == "sweep":
        yield solved(instance, case["method"], case["limit_s"])
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
            yield solved(instance, "exact", case["limit_s"]) | {"call": call}


def rows_of(case: Row, patience_s: float) -> Iterator[Row]:
    """Yield the rows of one case, each with what it was asked."""
    said = dict(zip(SIZE, case["instance"], strict=True)) | case.get("shown", {})
    for row in in_own_process(case, patience_s):
        yield {**said, **row}


def sweep(given: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for every method at every size, while it keeps its limit."""
    given_up: set[tuple[str, str]] = set()
    for layers, types in SIZES:
        for limits in ("none", "tight") if layers * types <= given.largest else ():
            for method in ("exact", *PROVING, *PAPER):
                if (method, limits) in given_up:
                    continue
                limit_s = EXACT_LIMIT_S if method == "exact" else LIMIT_S
                case = {"part": "sweep", "instance": [layers, types, limits, 0], "method": method}
                case |= {"limit_s": limit_s, "shown": {"method": method}}
                row = list(rows_of(case, 2 * limit_s + 10))[-1]
                if method != "exact" and is_late(row, LIMIT_S):
                    given_up.add((method, limits))
                yield row


def quality(_: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for every method, and every way of giving units, on every instance of 16 layers."""
    cases = [("ctr", seed) for seed in CTR_SEEDS]
    cases += [(FAMILIES[1 + seed % 3], seed) for seed in GENERIC_SEEDS]
    for family, seed in cases:
        yield from rows_of({"part": "quality", "instance": [16, 2, family, seed]}, 12 * LIMIT_S + 2 * 60)


def ratio(_: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for every timed call."""
    for family, seed in RATIO_INSTANCES:
        yield from rows_of({"part": "ratio", "instance": [16, 2, family, seed]}, 600)


def claims(_: argparse.Namespace) -> Iterator[Row]:
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


PARTS = {
    "quality": Part(
        "staging-quality", quality, (*SIZE, "method", "provisioning", *FIGURES, *SECONDS, "message")
    ),
    "ratio": Part("staging-ratio", ratio, (*SIZE, "method", "repetition", *FIGURES, "total_s", "message")),
    "claims": Part(
        "staging-claims",
        claims,
        ("claim", *SIZE, "call", "method", *FIGURES, *SECONDS, "peak_gib", "message"),
    ),
    "sweep": Part("staging", sweep, (*SIZE, "method", *FIGURES, *SECONDS, "peak_gib", "message")),
}


def main() -> None:
    """Run all parts, or some; fail loudly where a method beats `exact`, and say what else falls short."""
    parser = options(__doc__, largest=(SIZES[-1][0] * SIZES[-1][1], "layers × types"))
    said = shortcomings(RESULTS, run_parts(parser, PARTS, measured, write_report))
    if said:
        print(*said, sep="\n", file=sys.stderr)
    if any("BEATEN" in line for line in said):
        sys.exit("exact is beaten")


if __name__ == "__main__":
    main()
