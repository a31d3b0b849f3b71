"""The house: floors, kinds, circles, and where a kind of problem may be named."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import networkx as nx
import pytest
from imports import FLOORS, ROOT, graph, has_code, imported, imported_by_tests, modules, tree

from clusterplan.formulations.common.formulation import Formulation
from clusterplan.formulations.registry import KINDS as FORMULATIONS
from clusterplan.instances.registry import KINDS as INSTANCES
from clusterplan.planner.registry import KINDS as PLANNERS
from clusterplan.solvers.registry import KINDS as SOLVERS

MAKE_INSTANCES = ("instances/importers", "planner/cli/instances", "instances/prediction/provisioning")
"""What reads or makes documents of one kind names that kind."""
MAX_FILES = 16
"""With `__init__.py`."""
MAX_LATE_IMPORTS = 12
MAX_UNTESTED = 10


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
    """In the same order, and each has a record, and a folder of its name."""
    for registry in (FORMULATIONS, SOLVERS, PLANNERS):
        assert list(dict(registry)) == list(INSTANCES)
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


def test_prediction_is_imported_as_a_whole(arrows: nx.DiGraph[str]) -> None:
    """Others import the package alone, and none of its modules."""
    package = "clusterplan.instances.prediction"
    users = [(a, b) for a, b in arrows.edges if b.startswith(package) and not a.startswith(package)]
    assert {b for _, b in users} == {package}


def _checks(module: str) -> bool:
    """Return whether a module certifies: in a folder `check`, or the enumeration that checks share."""
    parts = module.split(".")
    return parts[1:2] == ["formulations"] and (parts[3:4] == ["check"] or parts[-1] == "enumeration")


def test_every_kind_has_a_check_of_its_own(arrows: nx.DiGraph[str]) -> None:
    """The next two tests would hold of an empty folder too."""
    places = {".".join(module.split(".")[:4]) for module in arrows if _checks(module)}
    kinds = {f"clusterplan.formulations.{kind}.check" for kind in FORMULATIONS}
    assert kinds <= places
    for place in kinds:
        inside = [module for module in arrows if module.startswith(f"{place}.")]
        assert inside, f"{place} is empty"
        assert any(not _checks(user) for module in inside for user in arrows.predecessors(module)), place


def test_no_solver_imports_what_certifies(arrows: nx.DiGraph[str]) -> None:
    """A mistake of a method must not be able to mislead the check of its result."""
    found = [(a, b) for a, b in arrows.edges if a.startswith("clusterplan.solvers") and _checks(b)]
    assert found == []


def test_the_form_of_a_certificate_knows_no_check(arrows: nx.DiGraph[str]) -> None:
    """Solvers write certificates with it, and would import the check through it."""
    forms = [module for module in arrows if module.endswith(".certificate") and not _checks(module)]
    certified = [kind for kind in FORMULATIONS.values() if kind.formulation.read is not Formulation.read]
    assert len(forms) == len(certified) > 0
    found = [(a, b) for a, b in arrows.edges if a in forms and _checks(b)]
    assert found == []


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
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Constant) and node.value in INSTANCES:
                named.append(f"{file.relative_to(ROOT)}:{node.lineno}: {node.value}")
    assert named == []


def _folders_on_the_page() -> set[str]:
    """Return the folders that the tree in the documentation names, for each kind."""
    page = (ROOT / "docs" / "development" / "index.md").read_text(encoding="utf-8")
    named = re.findall(r"^([a-z0-9_/<>]+)/ {2,}\S", page, re.M)
    return {path.replace("<kind>", kind) for path in named for kind in INSTANCES}


SHARED_LOOPS = {"compiled_time_s", "cost_hull", "cost_rate", "enlarged", "pop", "push"}
"""Compiled functions that checks may share with methods: the time of a stage, hulls and heaps."""


def test_checks_and_methods_share_no_further_loop() -> None:
    """A mistake in a loop of the search must not hide in the same loop of the check."""
    used: dict[bool, dict[int, str]] = {True: {}, False: {}}
    for module in modules():
        # The training needs PyTorch, which may not be installed, and has no compiled loop.
        if (
            module.startswith(("clusterplan.formulations.", "clusterplan.solvers."))
            and "training" not in module
        ):
            for name, value in vars(import_module(module)).items():
                if type(value).__name__ == "_LazyFunction":
                    used[_checks(module)][id(value)] = name
    assert {used[True][one] for one in used[True].keys() & used[False].keys()} <= SHARED_LOOPS


def test_every_folder_is_on_the_page() -> None:
    """Of the package: what a newcomer finds in it is explained."""
    folders = {str(file.parent.relative_to(ROOT)) for floor in FLOORS for file in (ROOT / floor).rglob("*.*")}
    assert {path for path in folders if "__pycache__" not in path} - _folders_on_the_page() == set()


def test_no_folder_on_the_page_is_gone() -> None:
    """A folder that was moved is explained where it is now."""
    assert [path for path in sorted(_folders_on_the_page()) if not (ROOT / path).is_dir()] == []


def test_folders_are_small_enough_to_be_read() -> None:
    """A folder with more files hides what it holds."""
    folders: dict[Path, int] = {}
    for file in modules().values():
        folders[file.parent] = folders.get(file.parent, 0) + 1
    assert {str(path): count for path, count in folders.items() if count > MAX_FILES} == {}


def test_every_module_has_a_direct_test() -> None:
    """A failure names the module at fault only if some test imports that module itself."""
    found = imported_by_tests()
    missing = sorted(name for name, file in modules().items() if name not in found and has_code(file))
    assert len(missing) <= MAX_UNTESTED, missing


def test_imports_stand_at_the_top() -> None:
    """But for the few that load what is heavy only when it is needed."""
    late = []
    for name, file in modules().items():
        top = set(tree(file).body)
        lines = {node.lineno for node in top}
        late += [
            f"{file.relative_to(ROOT)}:{node.lineno}"
            for _, node in imported(name, file)
            if node.col_offset and node.lineno not in lines and not _for_types(file, node)
        ]
    assert len(set(late)) <= MAX_LATE_IMPORTS, sorted(set(late))


def _for_types(file: Path, node: ast.stmt) -> bool:
    """Return whether an import stands under `if TYPE_CHECKING`."""
    blocks = [block for block in tree(file).body if isinstance(block, ast.If)]
    lines = {inner.lineno for block in blocks for inner in block.body}
    return node.lineno in lines


def test_solvers_are_typed_by_their_formulation() -> None:
    """None has to ask at run time which one it was given."""
    for file in (ROOT / "solvers").rglob("*.py"):
        assert "assert isinstance(formulation" not in file.read_text(encoding="utf-8"), file
