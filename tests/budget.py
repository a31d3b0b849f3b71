"""How large the package is: AST nodes, files and folders of each floor; run it with `make count`.

Lines would be met by squeezing, so that nodes of the syntax tree are counted: without comments, and without
every expression that is a text alone, such as a docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from imports import FLOORS, ROOT

PLACES = (*FLOORS, "tests", "benchmarks", "root")
"""Floors, tests, benchmarks, and the files beside them."""
CONTEXTS = (ast.Load, ast.Store, ast.Del)
"""Nodes that only say how a name is used."""
DATA = (".json", ".yaml", ".csv", ".j2", ".css", ".js", ".sh", ".gz")


@dataclass(frozen=True)
class Size:
    """The size of a place.

    Attributes
    ----------
    nodes
        Of the syntax trees of its files of Python.
    files, folders
        Of Python, and those that have such files.
    data_kib
        Of its documents, tables, templates and scripts.
    """

    nodes: int
    files: int
    folders: int
    data_kib: float


def nodes(source: str) -> int:
    """Return how many nodes the syntax tree of a source has, without texts that stand alone."""
    tree = ast.parse(source)
    texts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for part in (node, node.value)
    }
    return sum(id(node) not in texts and not isinstance(node, CONTEXTS) for node in ast.walk(tree))


def _files(place: str) -> Iterator[Path]:
    """Yield the files of a place that are no caches."""
    found = ROOT.glob("*") if place == "root" else (ROOT / place).rglob("*")
    return (path for path in found if path.is_file() and "__pycache__" not in path.parts)


def size(place: str) -> Size:
    """Return the size of a place."""
    files = sorted(_files(place))
    python = [path for path in files if path.suffix == ".py"]
    return Size(
        nodes=sum(nodes(path.read_text(encoding="utf-8")) for path in python),
        files=len(python),
        folders=len({path.parent for path in python}),
        data_kib=sum(path.stat().st_size for path in files if path.suffix in DATA) / 1024,
    )


def main() -> None:
    """Print the size of every place."""
    print(f"{'':<14}{'AST nodes':>10}{'files':>8}{'folders':>9}{'data, KiB':>11}")
    for place in PLACES:
        one = size(place)
        print(f"{place:<14}{one.nodes:>10,}{one.files:>8,}{one.folders:>9,}{one.data_kib:>11,.0f}")


if __name__ == "__main__":
    main()
