"""Functions that are compiled at their first call, within the enforced time or not waited for.

Files of compiled functions that are damaged: the answer is right, and sound files replace them.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from clusterplan.formulations.common import compiled as module
from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.common.compiled import (
    CodeCache,
    compile_listener,
    compiled,
    interpreted,
    is_compiled,
)
from clusterplan.instances.common.errors import OutOfTimeError


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile also what is on little data."""
    monkeypatch.setattr(module, "MAX_INTERPRETED_ENTRIES", -1)


@compiled
def _twice(number: float) -> float:
    return 2 * number


@compiled
def _sum_of_doubles(numbers: np.ndarray) -> float:
    total = 0.0
    for number in numbers:
        total += _twice(number)
    return total


@compiled
def _ratio(a: float, b: float) -> float:
    return a / b


def test_little_is_done_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the functions it calls; much is compiled, and so is little that has taken long."""
    assert _sum_of_doubles.__name__ == "_sum_of_doubles"
    few, many = np.ones(3), np.ones(module.MAX_INTERPRETED_ENTRIES + 1)
    found = _sum_of_doubles(few)
    assert found == 6.0
    assert type(found) is float
    assert not is_compiled(_sum_of_doubles)
    assert _sum_of_doubles.plain.__globals__["_twice"] is _twice.plain
    monkeypatch.setattr(module, "MAX_INTERPRETED_S", 0.0)
    assert _ratio(3.0, 2.0) == 1.5
    assert is_compiled(_ratio)
    assert _sum_of_doubles(many) == 2.0 * len(many)
    assert is_compiled(_sum_of_doubles)


def test_what_is_kept_compiled_is_taken_before_much_time_has_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """But nothing is compiled for that."""
    path = tmp_path / "loops.py"
    path.write_text(SOURCE)
    monkeypatch.setattr(module, "CACHE_LOOKUP_AFTER_S", 0.0)
    first, second, third = (_loaded(path).square for _ in range(3))
    assert first(3.0) == 9.0
    assert not is_compiled(first)
    monkeypatch.setattr(module, "MAX_INTERPRETED_ENTRIES", -1)
    assert second(3.0) == 9.0
    monkeypatch.setattr(module, "MAX_INTERPRETED_ENTRIES", 1)
    assert third(3.0) == 9.0
    assert is_compiled(third)


@pytest.mark.usefixtures("at_once")
def test_whoever_watches_hears_of_the_first_call_alone() -> None:
    @compiled
    def thrice(number: float) -> float:
        return 3 * number

    heard: list[bool] = []
    with compile_listener(heard.append):
        assert thrice(1.0) == 3.0
        assert thrice(2.0) == 6.0
    assert heard == [True, False]


def test_a_quotient_by_zero_is_infinite() -> None:
    assert math.isinf(_ratio(1.0, 0.0))


@pytest.mark.usefixtures("at_once")
def test_what_takes_longer_than_there_is_time_for_goes_on_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, done = threading.Event(), threading.Event()

    def slow(self: Any, arguments: Any) -> None:
        go_on.wait(10)
        self.ready = True
        done.set()

    monkeypatch.setattr(module._LazyFunction, "_compile", slow)
    monkeypatch.setattr(module._LazyFunction, "dispatcher", property(lambda self: self.function))
    function = compiled(lambda: 7)
    assert not is_compiled(function)
    with Clock(0.01).enforced(), pytest.raises(OutOfTimeError, match="compiling"):
        function()
    assert not is_compiled(function)
    go_on.set()
    assert done.wait(10)
    assert is_compiled(function)
    assert function() == 7


SOURCE = """
from clusterplan.formulations.common.compiled import compiled, compiled_without_arrays

@compiled
def square(number):
    return number * number

@compiled
def squares(numbers):
    total = 0.0
    for number in numbers:
        total += square(number)
    return total

@compiled_without_arrays
def put(numbers, number):
    numbers[0] = number

@compiled_without_arrays
def put_twice(numbers, number):
    put(numbers, 2 * number)
    return numbers[0]
"""


def _holed(content: bytes) -> bytes:
    """Return the content with zeros in the middle, as a disk leaves it that lost a block."""
    start = len(content) // 10
    return content[:start] + bytes(200) + content[start + 200 :]


def _written(change: Callable[[bytes], bytes], path: Path) -> None:
    path.write_bytes(change(path.read_bytes()))


def _unreadable(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)  # a loop, which even the superuser cannot read


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut": partial(_written, lambda content: content[:-100]),
    "empty": partial(_written, lambda _: b""),
    "junk": partial(_written, lambda _: b"junk" * 1000),
    "hole": partial(_written, _holed),
    "another object": partial(_written, lambda _: b"N."),  # a sound pickle of None
    "unreadable": _unreadable,
    "folder": _folder,
}
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
    numbers = np.zeros(1)
    assert module.put_twice(numbers, 4.0) == 8.0
    module.put(numbers, 1.0)  # from Python too, though another compiled function has called it
    assert numbers.tolist() == [1.0]
    functions = (module.squares, module.square, module.put_twice, module.put)
    return [sum(function.dispatcher._cache_hits.values()) for function in functions]


@pytest.fixture(scope="module")
def compiled_at_once() -> Iterator[None]:
    """Compile also what is on little data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_INTERPRETED_ENTRIES", -1)
        yield


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, compiled_at_once: None) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("kept")
    (folder / "kept_loops.py").write_text(SOURCE)
    assert _hits(_loaded(folder / "kept_loops.py")) == [0] * 4
    assert _hits(_loaded(folder / "kept_loops.py")) == [1] * 4
    return {path.name: path.read_bytes() for path in (folder / "__pycache__").glob("*.nb?")}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_files_cost_a_compilation_once(
    damage: Callable[[Path], None], pattern: str, kept: dict[str, bytes], tmp_path: Path
) -> None:
    source, folder = tmp_path / "kept_loops.py", tmp_path / "__pycache__"
    source.write_text(SOURCE)
    folder.mkdir()
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    damaged = sorted(folder.glob(pattern))
    assert len(damaged) == (8 if pattern == "*.nb?" else 4)
    for path in damaged:
        damage(path)
    assert _hits(_loaded(source)) == [0] * 4
    # Nothing replaces a folder: each process compiles for itself.
    assert _hits(_loaded(source)) == ([0] * 4 if damage is _folder else [1] * 4)


@pytest.mark.usefixtures("compiled_at_once")
def test_what_another_module_does_otherwise_is_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code is a part of the function's own."""
    head = "from clusterplan.formulations.common.compiled import compiled\n"
    outer = "@compiled\ndef outer(number):\n    return kept_inner(number) + 1\n"
    (tmp_path / "kept_outer.py").write_text(f"{head}from kept_tool import kept_inner\n\n{outer}")
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for factor in (2, 2, 3):
        tool = f"{head}@compiled\ndef kept_inner(number):\n    return {factor} * number\n"
        (tmp_path / "kept_tool.py").write_text(tool)
        monkeypatch.delitem(sys.modules, "kept_tool", raising=False)
        importlib.invalidate_caches()
        loaded = _loaded(tmp_path / "kept_outer.py")
        found.append((loaded.outer(5.0), sum(loaded.outer.dispatcher._cache_hits.values())))
    assert found == [(11.0, 0), (11.0, 1), (16.0, 0)]


def test_a_function_without_a_file_is_kept_nowhere() -> None:
    """It is compiled all the same."""
    names: dict[str, Callable[[float], float]] = {}
    exec("def half(number):\n    return number / 2", names)  # noqa: S102
    with pytest.raises(RuntimeError, match="cannot cache"):
        CodeCache(names["half"])
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


@pytest.mark.usefixtures("at_once")
def test_nothing_is_compiled_where_python_is_to_run_all() -> None:
    @compiled
    def half(number: float) -> float:
        return number / 2

    with interpreted():
        assert half(3.0) == 1.5
    assert not is_compiled(half)
    assert half(3.0) == 1.5
    assert is_compiled(half)
