"""The graph of all imports of the package, at whatever depth in a file they stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parent.parent
FLOORS = ("instances", "formulations", "solvers", "planner")
"""From the lowest to the highest."""


def modules() -> dict[str, Path]:
    """Return the file of every module of the package."""
    found = {"clusterplan": ROOT / "__init__.py", "clusterplan.__main__": ROOT / "__main__.py"}
    for floor in FLOORS:
        for file in sorted((ROOT / floor).rglob("*.py")):
            parts = ["clusterplan", *file.relative_to(ROOT).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imported(name: str, file: Path, known: dict[str, Path]) -> Iterator[tuple[str, ast.ImportFrom]]:
    """Yield the modules of the package that a module imports, or imports names from."""
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        parts = package[: len(package) - node.level + 1] if node.level else []
        source = ".".join([*parts, *([node.module] if node.module else [])])
        if source.split(".")[0] != "clusterplan":
            continue
        for alias in node.names:
            yield (f"{source}.{alias.name}" if f"{source}.{alias.name}" in known else source), node


def graph() -> nx.DiGraph[str]:
    """Return which module imports which."""
    known = modules()
    arrows = nx.DiGraph()
    arrows.add_nodes_from(known)
    for name, file in known.items():
        arrows.add_edges_from((name, other) for other, _ in imported(name, file, known))
    return arrows
