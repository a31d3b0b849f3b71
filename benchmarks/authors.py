"""Planners of layer graphs by other authors, run from checkouts of their repositories.

* `throughput-dp` of msr-fiddle/dnn-partitioning: C++, compiled with g++ (Tarnawski et al., NeurIPS 2020);
* `optimizer_graph_hierarchical.py` of msr-fiddle/pipedream: Python (Narayanan et al., SOSP 2019).
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROGRAMME = Path("throughput-dp", "dp.cpp")
OPTIMISER = Path("optimizer", "optimizer_graph_hierarchical.py")
START = """
import runpy, sys, types
sys.modules["graphviz"] = types.ModuleType("graphviz")
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script that imports graphviz, which it needs only to draw."""


def compiled_programme(checkout: Path, folder: Path) -> Path:
    """Compile the dynamic programme of dnn-partitioning.

    Raises
    ------
    subprocess.CalledProcessError
        If it cannot be compiled.
    OSError
        If there is no g++.
    """
    program = folder / "dp"
    command = ["g++", "-O3", "-w", str(checkout / PROGRAMME), "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return program


def dynamic_programme(program: Path, file: Path) -> dict[str, Any]:
    """Return what the dynamic programme of dnn-partitioning finds for a graph."""
    start = time.perf_counter()
    with file.open("rb") as graph:
        done = subprocess.run(  # noqa: S603
            [str(program)], check=False, stdin=graph, capture_output=True, text=True
        )
    seconds = time.perf_counter() - start
    found = re.search(r'"maxLoad"\s*:\s*([-+.\deE]+)', done.stdout)
    if found is None:
        return {"status": "no answer", "total_s": seconds, "message": _last_line(done.stdout + done.stderr)}
    return {"status": "answered", "total_s": seconds, "ms": float(found[1])}


def pipedream(checkout: Path, file: Path, gpus: int, bytes_per_s: float, transfers: bool) -> dict[str, Any]:
    """Return what PipeDream's optimiser finds for a profile."""
    arguments = ["-f", str(file), "-n", str(gpus), "-b", f"{bytes_per_s:g}"]
    arguments += ["--activation_compression_ratio", "1"] if transfers else []
    command = [sys.executable, "-c", START, OPTIMISER.name, *arguments]
    start = time.perf_counter()
    done = subprocess.run(  # noqa: S603
        command, check=False, cwd=checkout / OPTIMISER.parent, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    found = re.search(r"^Time per stage in pipeline: (\S+)", done.stdout, re.MULTILINE)
    if found is None:
        return {"status": "no answer", "total_s": seconds, "message": _last_line(done.stderr)}
    replicas = re.findall(r"^\(\d+, \d+\) \S+ (\d+)$", done.stdout, re.MULTILINE)
    milliseconds = 1000 * float(found[1])
    return {
        **{"status": "answered", "total_s": seconds, "ms": milliseconds, "priced_ms": milliseconds},
        "stages": " → ".join(replicas),
    }


def priced_ms(
    checkout: Path,
    file: Path,
    stages: Sequence[tuple[Sequence[str], int]],
    bytes_per_s: float,
    transfers: bool,
) -> float:
    """Return the milliseconds of a plan under the cost model of PipeDream's optimiser.

    A stage of m replicas takes (C + 4 (m − 1) P / (m b)) / m for C seconds of computing, P bytes of weights
    and b bytes per second. Each further stage takes at least the time of its transfers: 2/m of the tensors
    that leave the ideal before it, and of those that leave its own.

    Parameters
    ----------
    stages
        Names of the nodes of each stage in turn, and its replicas.
    """
    graph = _graph(checkout, file)
    slowest, received, done = 0.0, 0.0, set[str]()
    for index, (names, replicas) in enumerate(stages):
        own = [graph.nodes[name] for name in names if name in graph.nodes]
        done.update(node.node_id for node in own)
        computing = sum(node.forward_compute_time + node.backward_compute_time for node in own) / 1000
        weights = sum(node.parameter_size for node in own)
        reduced = 4 * (replicas - 1) * weights / (bytes_per_s * replicas)
        sent = _leaving_bytes(graph, done)
        times = [(computing + reduced) / replicas]
        if transfers and index:
            times += [2 * moved / (bytes_per_s * replicas) for moved in (received, sent)]
        slowest, received = max(slowest, *times), sent
    return 1000 * slowest


def _graph(checkout: Path, file: Path) -> Any:
    """Return the graph as the optimiser reads it: without inputs, and without sinks that nothing uses."""
    sys.modules.setdefault("graphviz", types.ModuleType("graphviz"))
    sys.path.insert(0, str(checkout))
    try:
        from graph import Graph
    finally:
        sys.path.remove(str(checkout))
    graph = Graph.from_str(file.read_text())
    for source in graph.sources():
        if source.node_desc.startswith("Input"):
            graph.remove_node(source)
    for sink in graph.sinks():
        if sink.node_desc.startswith("__getitem__"):
            graph.remove_node(sink)
    return graph


def _leaving_bytes(graph: Any, done: set[str]) -> float:
    """Return the bytes that leave an ideal, counted as the optimiser counts them; 0 of all nodes."""
    if len(done) == len(graph.nodes):
        return 0.0
    last = [name for name in done if not any(node.node_id in done for node in graph.edges.get(name, ()))]
    return float(sum(graph.nodes[name].activation_size for name in graph.augment_antichain(last)))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:200]
