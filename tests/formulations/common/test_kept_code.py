"""Files of compiled functions that are damaged: the answer is right, and sound files replace them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from clusterplan.formulations.common import compiled as loops
from clusterplan.formulations.common.compiled import compiled
from clusterplan.formulations.common.kept_code import KeptCode

SOURCE = """
from clusterplan.formulations.common.compiled import compiled, compiled_in_place

@compiled
def square(number):
    return number * number

@compiled
def squares(numbers):
    total = 0.0
    for number in numbers:
        total += square(number)
    return total

@compiled_in_place
def put(numbers, number):
    numbers[0] = number

@compiled_in_place
def put_twice(numbers, number):
    put(numbers, 2 * number)
    return numbers[0]
"""


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _junk(path: Path) -> None:
    path.write_bytes(b"junk" * 1000)


def _hole(path: Path) -> None:
    """Write zeros into the middle, as a disk does that lost a block."""
    content = path.read_bytes()
    start = len(content) // 10
    path.write_bytes(content[:start] + bytes(200) + content[start + 200 :])


def _another_object(path: Path) -> None:
    path.write_bytes(b"N.")  # a sound pickle of None


def _unreadable(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)  # a loop, which even the superuser cannot read


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = (_cut, _empty, _junk, _hole, _another_object, _unreadable, _folder)
PATTERNS = ("*.nbi", "*.nbc", "*.nb?")


def _loaded(path: Path) -> ModuleType:
    """Return the module as a new process has it: nothing is compiled in memory."""
    spec = importlib.util.spec_from_file_location("kept_loops", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _hits(module: ModuleType) -> list[int]:
    """Call the functions, and return how often each was found on disk."""
    assert module.squares(np.array([1.0, 2.0])) == 5.0
    assert module.square(3.0) == 9.0
    assert module.put_twice(np.zeros(1), 4.0) == 8.0
    functions = (module.squares, module.square, module.put_twice)
    return [sum(function.dispatcher._cache_hits.values()) for function in functions]


@pytest.fixture(scope="module")
def compiled_at_once() -> Iterator[None]:
    """Compile also what is on little data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "MOST_ENTRIES", -1)
        yield


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, compiled_at_once: None) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("kept")
    (folder / "kept_loops.py").write_text(SOURCE)
    assert _hits(_loaded(folder / "kept_loops.py")) == [0, 0, 0]
    assert _hits(_loaded(folder / "kept_loops.py")) == [1, 1, 1]
    return {path.name: path.read_bytes() for path in (folder / "__pycache__").glob("*.nb?")}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_cost_a_compilation_once(
    damage: Callable[[Path], None], pattern: str, kept: dict[str, bytes], tmp_path: Path
) -> None:
    source, folder = tmp_path / "kept_loops.py", tmp_path / "__pycache__"
    source.write_text(SOURCE)
    folder.mkdir()
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    damaged = sorted(folder.glob(pattern))
    assert len(damaged) == (6 if pattern == "*.nb?" else 3)
    for path in damaged:
        damage(path)
    assert _hits(_loaded(source)) == [0, 0, 0]
    # Nothing replaces a folder: each process compiles for itself.
    assert _hits(_loaded(source)) == ([0, 0, 0] if damage is _folder else [1, 1, 1])


def test_a_function_without_a_file_is_kept_nowhere() -> None:
    """It is compiled all the same."""
    names: dict[str, Callable[[float], float]] = {}
    exec("def half(number):\n    return number / 2", names)  # noqa: S102
    with pytest.raises(RuntimeError, match="cannot cache"):
        KeptCode(names["half"])
    assert compiled(names["half"])(3.0) == 1.5


def test_errors_of_a_function_are_its_callers() -> None:
    @compiled
    def beyond(numbers: np.ndarray) -> float:
        if len(numbers) == 0:
            raise ValueError("no numbers")
        return numbers[0]

    with pytest.raises(ValueError, match="no numbers"):
        beyond(np.zeros(0))


@pytest.mark.usefixtures("compiled_at_once")
def test_what_cannot_be_compiled_says_so() -> None:
    from numba import TypingError

    @compiled
    def wrong(number: float) -> float:
        return number.nothing_of_this_name  # type: ignore[attr-defined, no-any-return]

    with pytest.raises(TypingError, match="nothing_of_this_name"):
        wrong(1.0)
