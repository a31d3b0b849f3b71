"""Compiled loops are loaded within the enforced time, or not waited for."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import pytest

from clusterplan.formulations.common import compilation
from clusterplan.formulations.common.clock import Clock
from clusterplan.instances.common.errors import OutOfTimeError


def test_a_module_is_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_loaded", {})
    assert not compilation.is_loaded("math")
    assert compilation.loaded("math") is importlib.import_module("math")
    assert compilation.is_loaded("math")


def test_what_takes_longer_than_there_is_time_for_goes_on_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = threading.Event()
    original = importlib.import_module

    def slow(name: str) -> Any:
        go_on.wait(10)
        return original(name)

    monkeypatch.setattr(compilation, "_loaded", {})
    monkeypatch.setattr(compilation.importlib, "import_module", slow)
    with Clock(0.01).enforced(), pytest.raises(OutOfTimeError, match="compiling"):
        compilation.loaded("math")
    go_on.set()
    assert compilation.loaded("math").pi > 3


def test_an_import_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match="no_such_loops"):
        compilation.loaded("no_such_loops")
