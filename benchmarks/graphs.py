"""Graphs of layers: `exact` on published graphs, beside published optima and the authors' own programmes.

Run with `make bench-graphs`; what the data or a checkout is missing for is left out, with a line. Checkouts
of msr-fiddle/dnn-partitioning and msr-fiddle/pipedream are named by options, or by `DNN_PARTITIONING` and
`PIPEDREAM`. Writes to `benchmarks/results/`:

* `graphs.csv`: a row for each planner on each graph;
* `graphs.md`: tables of them, beside the optima that others have published.

The graphs: those of dnn-partitioning on the accelerators and CPUs of the file; PipeDream's five profiles on 4
and 16 GPUs with replicated stages, with and without the time of transfers between stages. Every solve is a
process of its own.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import authors
from clusters import data_folder
from common import FIGURES, RESULTS, in_own_process, kept, peak_gib, say, store

DNN, PIPEDREAM, PIPER = "dnn-partitioning", "pipedream", "piper"
OURS = "exact"
THEIRS = {DNN: "authors' dynamic programme", PIPEDREAM: "PipeDream's optimiser"}
VARIABLES = {DNN: "DNN_PARTITIONING", PIPEDREAM: "PIPEDREAM"}
LIMIT_S, PATIENCE_S = 300.0, 900.0
THREADS = 2
NO_GRAPHS = ("expert",)
"""Ends of the names of files that hold plans."""
GPUS = (4, 16)
BYTES_PER_S = 1e9
"""What PipeDream's optimiser takes for the network unless it is told."""
NO_TRANSFERS, TRANSFERS = "replicas", "replicas and transfers"
CANNOT_RUN = (
    "the integer programmes of dnn-partitioning: they need a licence of Gurobi",
    "its baseline Scotch: it needs that package",
    "piper: its tensor-parallel model is another problem",
)
COLUMNS = (
    *("source", "graph", "gpus", "rule", "planner", "threads", "limit_s", *FIGURES),
    *("layers", "ms", "certified_ms", "published_ms", "priced_ms", "stages"),
    *("total_s", "verify_s", "verified", "peak_gib", "machine_load", "message"),
)


def cases() -> Iterator[dict[str, Any]]:
    """Yield what each graph is made of; say which are left out."""
    published = optima()
    if folder := data_folder(DNN):
        for file in sorted(folder.glob("*.json")):
            if not file.stem.endswith(NO_GRAPHS):
                best = published.get(f"{DNN}/{file.name}")
                yield {"source": DNN, "graph": file.stem, "file": str(file), "published_ms": best}
    if folder := data_folder(PIPEDREAM):
        for file, gpus in itertools.product(sorted(folder.glob("*/graph.txt")), GPUS):
            for rule in (NO_TRANSFERS, TRANSFERS):
                graph = file.parent.name
                yield {"source": PIPEDREAM, "graph": graph, "file": str(file), "gpus": gpus, "rule": rule}
    if folder := data_folder(PIPER):
        for file in sorted(folder.glob("*.json")):
            yield {"source": PIPER, "graph": file.stem, "file": str(file)}
    absent = [name for name in (DNN, PIPEDREAM, PIPER) if data_folder(name) is None]
    if absent:
        where = "../shared/data or $CLUSTERPLAN_DATA"
        print(f"left out: {', '.join(absent)}; there is no such folder in {where}", file=sys.stderr)


def optima() -> dict[str, float]:
    """Return the published optima [ms] by the names of their files."""
    folder = data_folder("published")
    if folder is None:
        return {}
    with (folder / "reference_optima.csv").open(newline="", encoding="utf-8") as file:
        return {
            row["file"]: float(row["answer"]) for row in csv.DictReader(file) if row["file"].startswith(DNN)
        }


def made(case: dict[str, Any]) -> Any:
    """Return the instance of a case, whose objective is the seconds of one sample or batch."""
    from clusterplan.instances.importers import import_dnn_partitioning

    if case["source"] == PIPEDREAM:
        from pipedream import optimised

        transfers = case["rule"] == TRANSFERS
        instance = optimised(Path(case["file"]), case["gpus"], BYTES_PER_S, transfers)
    else:
        types = {"accelerator": 2.5, "cpu": 0.5}
        instance = import_dnn_partitioning(Path(case["file"]), types, shape="graph")
    once = instance.training.model_copy(update={"samples": instance.probe_batch, "epochs": 1.0})
    return instance.model_copy(update={"objective": "time", "training": once})


def measured(case: dict[str, Any]) -> dict[str, Any]:
    """Plan a graph with one planner, and return the figures."""
    load = {"machine_load": round(os.getloadavg()[0], 1)}
    if case["planner"] == OURS:
        return load | ours(case)
    if case["source"] == DNN:
        return load | authors.dynamic_programme(Path(case["checkout"]), Path(case["file"]))
    transfers = case["rule"] == TRANSFERS
    checkout = Path(case["checkout"])
    return load | authors.pipedream(checkout, Path(case["file"]), case["gpus"], BYTES_PER_S, transfers)


def ours(case: dict[str, Any]) -> dict[str, Any]:
    """Make an instance, solve it, check the result, and return the figures."""
    import clusterplan

    row: dict[str, Any] = {"limit": "none"}
    start = time.perf_counter()
    try:
        instance = made(case)
        options = clusterplan.SolveOptions(time_limit_s=case["limit_s"], threads=case["threads"])
        start = time.perf_counter()
        result = clusterplan.solve(instance, OURS, options)
    except clusterplan.ClusterplanError as error:
        file = Path(case["file"])
        return row | {"status": "refused", "message": str(error).replace(str(file), file.name)[:200]}
    row = {key: getattr(result, key) for key in FIGURES}
    row |= {"total_s": time.perf_counter() - start, "peak_gib": peak_gib(), "message": result.message}
    record = result.deciding
    row |= {"layers": len(instance.layers), "ms": _ms(result.objective)}
    row |= {"certified_ms": _ms(record.certified_bound if record else None)}
    if case["source"] == PIPEDREAM and result.plan:
        row |= described(case, instance, result.plan)
    start = time.perf_counter()
    verification = clusterplan.verify(instance, result)
    row |= {"verify_s": time.perf_counter() - start, "verified": verification.ok}
    return row | ({} if verification.ok else {"message": "; ".join(verification.faults)})


def described(case: dict[str, Any], instance: Any, plan: Any) -> dict[str, Any]:
    """Return the replicas of each stage, and what PipeDream's optimiser would say of the plan."""
    replicas = [int(stage.type.split()[0]) for stage in plan]
    shown: dict[str, Any] = {"stages": " → ".join(map(str, replicas))}
    if case["checkout"]:
        names = [[instance.layers[layer].name.split()[0] for layer in stage.members] for stage in plan]
        stages = list(zip(names, replicas, strict=True))
        transfers = case["rule"] == TRANSFERS
        file, checkout = Path(case["file"]), Path(case["checkout"])
        shown["priced_ms"] = authors.priced_ms(checkout, file, stages, BYTES_PER_S, transfers)
    return shown


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def checkouts(given: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Return where the authors' programmes are, by source; say which are left out."""
    found = {}
    for source, inside in ((DNN, authors.PROGRAMME), (PIPEDREAM, authors.OPTIMISER)):
        place = getattr(given, VARIABLES[source].lower()) or os.environ.get(VARIABLES[source])
        if place and (Path(place) / inside).is_file():
            found[source] = str(Path(place).resolve())
            continue
        why = f"{place} has no {inside}" if place else f"${VARIABLES[source]} names no checkout of it"
        print(f"left out: {THEIRS[source]}; {why}", file=sys.stderr)
    if DNN in found:
        try:
            found[DNN] = str(authors.compiled_programme(Path(found[DNN]), folder))
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"left out: {THEIRS[DNN]}; it could not be compiled: {error}", file=sys.stderr)
            del found[DNN]
    for what in CANNOT_RUN:
        print(f"left out: {what}", file=sys.stderr)
    return found


def rows(trial: argparse.Namespace, where: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each planner on each graph."""
    for case in cases():
        source = case["source"]
        for planner in (OURS, *([THEIRS[source]] if source in where else [])):
            case |= {"planner": planner, "checkout": where.get(source)}
            if all(names is None or str(case.get(key)) in names for key, names in asked_of(trial).items()):
                limits = {"threads": THREADS, "limit_s": trial.limit_s} if planner == OURS else {}
                own = {**case, **limits}
                yield {**own, **in_own_process(__file__, own, trial.patience_s)[-1]}


def asked_of(trial: argparse.Namespace) -> dict[str, list[str] | None]:
    """Return the names that options choose, by column."""
    return {key: getattr(trial, key) for key in ("source", "graph", "gpus", "rule", "planner")}


def main() -> None:
    """Measure all planners on all graphs, or some."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", help=argparse.SUPPRESS)
    for key in ("source", "graph", "gpus", "rule", "planner"):
        parser.add_argument(f"--{key}", action="append", help=f"only this {key}; repeatable")
    parser.add_argument("--dnn-partitioning", help="checkout of msr-fiddle/dnn-partitioning")
    parser.add_argument("--pipedream", help="checkout of msr-fiddle/pipedream")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, help="seconds of each solve")
    parser.add_argument("--patience-s", type=float, default=PATIENCE_S, help="seconds of any process")
    parser.add_argument("--report", action="store_true", help="only write the report anew")
    given = parser.parse_args()
    if given.case:
        say(measured(json.loads(given.case)))
        return
    if not given.report:

        def measured_again(row: dict[str, str]) -> bool:
            return all(names is None or row[key] in names for key, names in asked_of(given).items())

        with tempfile.TemporaryDirectory() as folder:
            where = checkouts(given, Path(folder))
            store("graphs", itertools.chain(kept("graphs", measured_again), rows(given, where)), COLUMNS)
    from graphs_report import write_report

    write_report(RESULTS)


if __name__ == "__main__":
    main()
