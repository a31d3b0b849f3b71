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
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import authors
from graphs_report import (
    BYTES_PER_S,
    CANNOT_RUN,
    DNN,
    NO_TRANSFERS,
    OURS,
    PIPEDREAM,
    THEIRS,
    TRANSFERS,
    write_report,
)
from runner import FIGURES, Row, data_folder, machine_load, options, run_cases, solved, tell_absent, verified

PIPER = "piper"
VARIABLES = {DNN: "DNN_PARTITIONING", PIPEDREAM: "PIPEDREAM"}
LIMIT_S, PATIENCE_S = 300.0, 900.0
THREADS = 2
NO_GRAPHS = ("expert",)
"""Ends of the names of files that hold plans."""
GPUS = (4, 16)
COLUMNS = (
    *("source", "graph", "gpus", "rule", "planner", "threads", "limit_s", *FIGURES),
    *("layers", "ms", "certified_ms", "published_ms", "priced_ms", "stages"),
    *("total_s", "verify_s", "verified", "peak_gib", "machine_load", "message"),
)


def graphs() -> Iterator[Row]:
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
    tell_absent(DNN, PIPEDREAM, PIPER)


def optima() -> dict[str, float]:
    """Return the published optima [ms] by the names of their files."""
    folder = data_folder("published")
    if folder is None:
        return {}
    with (folder / "reference_optima.csv").open(newline="", encoding="utf-8") as file:
        return {
            row["file"]: float(row["answer"]) for row in csv.DictReader(file) if row["file"].startswith(DNN)
        }


def made(case: Row) -> Any:
    """Return the instance of a case, whose objective is the seconds of one sample or batch."""
    from clusterplan.instances.importers import import_dnn_partitioning

    if case["source"] == PIPEDREAM:
        transfers = case["rule"] == TRANSFERS
        instance = authors.optimised(Path(case["file"]), case["gpus"], BYTES_PER_S, transfers)
    else:
        types = {"accelerator": 2.5, "cpu": 0.5}
        instance = import_dnn_partitioning(Path(case["file"]), types)
    once = instance.training.model_copy(update={"samples": instance.probe_batch, "epochs": 1.0})
    return instance.model_copy(update={"objective": "time", "training": once})


def measured(case: Row) -> Iterator[Row]:
    """Plan a graph with one planner, and yield the figures."""
    load = {"machine_load": machine_load()}
    if case["planner"] == OURS:
        yield load | ours(case)
        return
    checkout, file = Path(case["checkout"]), Path(case["file"])
    if case["source"] == DNN:
        yield load | authors.dynamic_programme(checkout, file)
    else:
        transfers = case["rule"] == TRANSFERS
        yield load | authors.pipedream(checkout, file, case["gpus"], BYTES_PER_S, transfers)


def ours(case: Row) -> Row:
    """Make an instance, solve it, check the result, and return the figures."""
    import clusterplan

    try:
        instance = made(case)
    except clusterplan.ClusterplanError as error:
        file = Path(case["file"])
        said = str(error).replace(str(file), file.name)[:200]
        return {"limit": "none", "status": "refused", "message": said}
    result, row = solved(instance, OURS, case["limit_s"], case["threads"])
    if result is None:
        return row
    record = result.deciding
    row |= {"layers": len(instance.layers), "ms": _ms(result.objective)}
    row |= {"certified_ms": _ms(record.certified_bound if record else None)}
    if case["source"] == PIPEDREAM and result.plan:
        row |= described(case, instance, result.plan)
    return row | verified(instance, result)


def described(case: Row, instance: Any, plan: Any) -> Row:
    """Return the replicas of each stage, and what PipeDream's optimiser would say of the plan."""
    replicas = [int(stage.type.split()[0]) for stage in plan]
    shown: Row = {"stages": " → ".join(map(str, replicas))}
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


def cases(given: argparse.Namespace) -> Iterator[Row]:
    """Yield a case for each planner on each graph."""
    limits = {OURS: {"threads": THREADS, "limit_s": given.limit_s}}
    with tempfile.TemporaryDirectory() as folder:
        where = checkouts(given, Path(folder))
        for graph in graphs():
            source = graph["source"]
            graph |= {"checkout": where.get(source), "patience_s": given.patience_s}
            for planner in (OURS, *([THEIRS[source]] if source in where else [])):
                yield {**graph, "planner": planner, **limits.get(planner, {})}


def main() -> None:
    """Measure all planners on all graphs, or some."""
    parser = options(
        __doc__,
        limit_s=(LIMIT_S, "seconds of each solve"),
        patience_s=(PATIENCE_S, "seconds of any process"),
    )
    for source in VARIABLES:
        parser.add_argument(f"--{source}", help=f"checkout of msr-fiddle/{source}")
    keys = ("source", "graph", "gpus", "rule", "planner")
    run_cases(parser, "graphs", keys, cases, measured, COLUMNS, write_report)


if __name__ == "__main__":
    main()
