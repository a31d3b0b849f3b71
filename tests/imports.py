"""The graph of all imports of the package, at whatever depth in a file they stand."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parent.parent
FLOORS = ("instances", "formulations", "solvers", "planner")
"""From the lowest to the highest."""


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module of the package."""
    found = {"clusterplan": ROOT / "__init__.py", "clusterplan.__main__": ROOT / "__main__.py"}
    for floor in FLOORS:
        for file in sorted((ROOT / floor).rglob("*.py")):
            parts = ["clusterplan", *file.relative_to(ROOT).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def tree(file: Path) -> ast.Module:
    """Return the parsed source of a file."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imported(name: str, file: Path) -> tuple[tuple[str, ast.Import | ast.ImportFrom], ...]:
    """Return the modules of the package that a module imports, or imports names from."""
    known, found = modules(), []
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names if alias.name in known]
        if not isinstance(node, ast.ImportFrom):
            continue
        parts = package[: len(package) - node.level + 1] if node.level else []
        source = ".".join([*parts, *([node.module] if node.module else [])])
        if source.split(".")[0] != "clusterplan":
            continue
        for alias in node.names:
            found.append((f"{source}.{alias.name}" if f"{source}.{alias.name}" in known else source, node))
    return tuple(found)


def graph() -> nx.DiGraph[str]:
    """Return which module imports which."""
    known = modules()
    arrows = nx.DiGraph()
    arrows.add_nodes_from(known)
    for name, file in known.items():
        arrows.add_edges_from((name, other) for other, _ in imported(name, file))
    return arrows


def imported_by_tests() -> set[str]:
    """Return the modules that a file of the tests imports, or imports names from."""
    return {other for file in sorted((ROOT / "tests").rglob("*.py")) for other, _ in imported("", file)}


def has_code(file: Path) -> bool:
    """Return whether a module holds more than a docstring, imports and the names that it passes on."""
    for node in tree(file).body:
        if isinstance(node, ast.Expr | ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            continue
        return True
    return False
