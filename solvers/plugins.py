"""Load solvers from other packages through the entry points of the group `clusterplan.solvers`.

An entry point names a `Solver`, a subclass of it, or a function that returns one or several. One that cannot
be loaded is listed as a `BrokenPlugin` with the reason.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from operator import attrgetter
from traceback import walk_tb
from typing import Any

from ..formulations.common.formulation import Formulation
from ..formulations.registry import KINDS
from ..instances.common.errors import UnavailableError
from .common.base import Clock, Outcome, Solver
from .common.result import SolveOptions

GROUP = "clusterplan.solvers"
MAX_SOLVERS = 1000
"""Largest number of solvers that are read from one entry point."""


class BrokenPlugin(Solver[Any]):
    """Placeholder for a plug-in that cannot be loaded.

    Parameters
    ----------
    name
        Name of its entry point.
    reason
        What is wrong, and with which package.
    """

    kinds = KINDS.names
    what = "a plug-in that cannot be loaded"

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason

    def unavailable(self) -> str:
        """Return why the plug-in cannot be loaded."""
        return self.reason

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Raise `UnavailableError`, since the plug-in cannot be loaded."""
        del formulation, options, clock
        raise UnavailableError(f"solver {self.name!r} cannot be used here: {self.reason}")


@cache
def plugin_solvers(existing: Callable[[], Iterable[Solver[Any]]]) -> tuple[Solver[Any], ...]:
    """Return the solvers of all installed plug-ins.

    Parameters
    ----------
    existing
        Returns the solvers whose names are taken; not called without plug-ins.
    """
    entries, found = plugin_entry_points(), list[Solver[Any]]()
    names = set(map(attrgetter("name"), existing() if entries else ()))
    for entry in entries:
        package = _package(entry)
        for solver in _load(entry):
            name = solver.name
            if name in names:
                why = f"{package} calls a solver {name!r}, and there is one of that name"
                found.append(BrokenPlugin(f"{name} ({package})", why))
            else:
                names.add(name)
                found.append(solver)
    return tuple(found)


@cache
def plugin_entry_points() -> tuple[EntryPoint, ...]:
    """Return the entry points of all installed plug-ins, without loading them."""
    return tuple(sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)))


def failing_plugin(error: BaseException) -> str | None:
    """Return package, file and line of the plug-in code that raised an error; None if no plug-in did."""
    owners = {entry.module.partition(".")[0]: entry for entry in plugin_entry_points()}
    owners.pop(__name__.partition(".")[0], None)
    location = None
    for frame, line in walk_tb(error.__traceback__):
        entry = owners.get(frame.f_globals.get("__name__", "").partition(".")[0])
        if entry is not None:  # the innermost frame of it counts, whatever it called
            location = f"{_package(entry)}, {frame.f_code.co_filename}, line {line}"
    return location


def _package(entry: EntryPoint) -> str:
    return f"the package {entry.dist.name}" if entry.dist is not None else f"the module {entry.module}"


def _load(entry: EntryPoint) -> list[Solver[Any]]:
    """Return the solvers of an entry point; one that raises becomes a `BrokenPlugin` with the reason."""
    try:
        with redirect_stdout(sys.stderr):  # stdout belongs to the data of whoever asks
            loaded = entry.load()
            if callable(loaded) and not isinstance(loaded, Solver):
                loaded = loaded()
            is_single = isinstance(loaded, Solver) or not isinstance(loaded, Iterable)
            solvers = [loaded] if is_single else list(islice(loaded, MAX_SOLVERS))
            for solver in solvers:
                _check(solver)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - not our code, and the others must stay usable
        reason = f"{_package(entry)}, {entry.value}: {type(error).__name__}: {error}"
        return [BrokenPlugin(entry.name, reason)]
    return solvers


def _check(solver: Any) -> None:
    """Raise `TypeError` if an object is not a usable solver.

    Raises
    ------
    TypeError
        Saying what is missing.
    """
    if not isinstance(solver, Solver):
        raise TypeError(f"gives {type(solver).__name__}, which is no clusterplan Solver")
    if not isinstance(getattr(solver, "name", None), str) or not solver.name.strip():
        raise TypeError("its solver has no name")
    if not isinstance(solver.method_options, Mapping):
        raise TypeError(f"the method_options of {solver.name!r} are no mapping")
    solver.unavailable()  # which may fail, but then here
    unknown = [kind for kind in getattr(solver, "kinds", ()) if kind not in KINDS]
    if unknown or not getattr(solver, "kinds", ()):
        raise TypeError(
            f"the kinds of {solver.name!r} are {unknown or 'missing'}; allowed: {', '.join(KINDS)}"
        )
