"""The house: floors, kinds, circles, and where a kind of problem may be named."""

from __future__ import annotations

import ast
from pathlib import Path

import networkx as nx
import pytest
from imports import FLOORS, ROOT, graph, imported, modules

from clusterplan.formulations.registry import KINDS as FORMULATIONS
from clusterplan.instances.registry import KINDS as INSTANCES
from clusterplan.planner.registry import KINDS as PLANNERS
from clusterplan.solvers.registry import KINDS as SOLVERS

MAKE_INSTANCES = ("instances/importers", "planner/cli/instances")
"""What reads or makes documents of one kind names that kind."""
MOST_FILES = 20
MOST_LATE_IMPORTS = 10


@pytest.fixture(scope="module")
def arrows() -> nx.DiGraph[str]:
    """Return the graph of all imports."""
    return graph()


def _floor(module: str) -> int | None:
    parts = module.split(".")
    return FLOORS.index(parts[1]) if len(parts) > 1 and parts[1] in FLOORS else None


def _kind(module: str) -> str | None:
    return next((kind for kind in INSTANCES if kind in module.split(".")), None)


def _makes_instances(module: str) -> bool:
    return any(module.startswith(f"clusterplan.{place.replace('/', '.')}") for place in MAKE_INSTANCES)


def test_every_floor_knows_the_same_kinds() -> None:
    """In the same order, and each has a folder of its name."""
    assert list(INSTANCES) == list(FORMULATIONS) == list(SOLVERS) == list(PLANNERS)
    for floor in FLOORS:
        for kind in INSTANCES:
            assert (ROOT / floor / kind / "kind.py").is_file()


def test_no_import_is_a_part_of_a_circle(arrows: nx.DiGraph[str]) -> None:
    """Wherever in a file it stands, and for types alone too."""
    assert [sorted(part) for part in nx.strongly_connected_components(arrows) if len(part) > 1] == []


def test_arrows_point_downwards(arrows: nx.DiGraph[str]) -> None:
    """From a higher floor to a lower one, and from nowhere to the root, which stands above all."""
    upwards = []
    for one, other in arrows.edges:
        here, there = _floor(one), _floor(other)
        if there is None and one not in ("clusterplan", "clusterplan.__main__"):
            upwards.append((one, other))
        if here is not None and there is not None and there > here:
            upwards.append((one, other))
    assert upwards == []


def test_no_kind_imports_another(arrows: nx.DiGraph[str]) -> None:
    """A kind is understood by its own folders and what is common."""
    found = [(a, b) for a, b in arrows.edges if _kind(a) and _kind(b) and _kind(a) != _kind(b)]
    assert [pair for pair in found if not _makes_instances(pair[0])] == []


def test_only_registries_import_kinds(arrows: nx.DiGraph[str]) -> None:
    """What is shared asks the registry of its floor."""
    registries = {f"clusterplan.{floor}.registry" for floor in FLOORS} | {"clusterplan"}
    found = [(a, b) for a, b in arrows.edges if _kind(b) and not _kind(a) and a not in registries]
    assert [pair for pair in found if not _makes_instances(pair[0])] == []


def test_only_registries_name_kinds() -> None:
    """No name of a kind stands as a string in the code that kinds share."""
    named = []
    for name, file in modules().items():
        if _kind(name) or _makes_instances(name) or file.name in ("registry.py", "__init__.py"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in INSTANCES:
                named.append(f"{file.relative_to(ROOT)}:{node.lineno}: {node.value}")
    assert named == []


def test_folders_are_small_enough_to_be_read() -> None:
    """A folder with more files hides what it holds."""
    folders: dict[Path, int] = {}
    for file in modules().values():
        folders[file.parent] = folders.get(file.parent, 0) + 1
    assert {str(path): count for path, count in folders.items() if count > MOST_FILES} == {}


def test_imports_stand_at_the_top() -> None:
    """But for the few that load what is heavy only when it is needed."""
    known, late = modules(), []
    for name, file in known.items():
        top = set(ast.parse(file.read_text(encoding="utf-8")).body)
        lines = {node.lineno for node in top}
        late += [
            f"{file.relative_to(ROOT)}:{node.lineno}"
            for _, node in imported(name, file, known)
            if node.col_offset and node.lineno not in lines and not _for_types(file, node)
        ]
    assert len(set(late)) <= MOST_LATE_IMPORTS, sorted(set(late))


def _for_types(file: Path, node: ast.ImportFrom) -> bool:
    """Return whether an import stands under `if TYPE_CHECKING`."""
    blocks = [
        block for block in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(block, ast.If)
    ]
    lines = {inner.lineno for block in blocks for inner in block.body}
    return node.lineno in lines


def test_solvers_are_typed_by_their_formulation() -> None:
    """None has to ask at run time which one it was given."""
    for file in (ROOT / "solvers").rglob("*.py"):
        assert "assert isinstance(formulation" not in file.read_text(encoding="utf-8"), file
