"""Registry of solvers by name: methods of each kind, MILP backends, plug-ins, and the alias `auto`.

`auto` runs the kind's `exact`, and falls back to the warm start if the answer of `exact` is wrong. Modules of
solvers are imported when the solvers of their kind are first asked for.

Solvers of other packages are found through the entry points of the group `clusterplan.solvers`. An entry
point names a `Solver`, a subclass of it, or a function that returns one or several. One that cannot be loaded
is listed as a `BrokenPlugin` with the reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from traceback import walk_tb
from typing import Any

from ..formulations.common.formulation import AnyFormulation
from ..formulations.registry import KINDS as FORMULATIONS
from ..instances.common.errors import OptionError, UnavailableError
from ..instances.common.faults import suggestion_text
from ..instances.common.kind import KindRegistry
from .backends import BACKENDS
from .common.base import Clock, Outcome, Solver
from .common.kind import SolverKind
from .common.result import SolveOptions
from .milp import Milp

GROUP = "clusterplan.solvers"
MAX_SOLVERS = 1000
"""Largest number of solvers that are read from one entry point."""

KINDS: KindRegistry[SolverKind] = KindRegistry(__package__, FORMULATIONS.names)


class Auto(Solver[Any]):
    """Runs the exact method of the problem kind; returns the warm start if the method's answer is wrong."""

    name, kinds = "auto", KINDS.names
    proves = True
    features = frozenset({"warm_start"})
    what = "the kind's best proving method, which is 'exact'"

    def check_options(self, options: SolveOptions) -> None:
        """Check the general options; the method of the problem kind checks its own when it solves."""
        super().check_options(options.model_copy(update={"method_options": {}}))

    def solve(self, formulation: AnyFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the outcome of the exact method, or the warm start if that outcome is wrong."""
        prover = KINDS[formulation.kind].exact
        prover.check_options(options)
        outcome = prover.solve(formulation, options, clock)
        prefix = f"auto: {prover.name}"
        outcome.message = f"{prefix}; {outcome.message}" if outcome.message else prefix
        if options.warm_start is None:
            return outcome
        violated = outcome.plan is not None and bool(formulation.violations(outcome.plan))
        if outcome.infeasible or violated:
            answer = "that no plan exists" if outcome.infeasible else "a plan that fails verification"
            plan = formulation.parse_plan(options.warm_start)
            why = f"the warm start alone, because {prover.name} returned {answer}"
            return Outcome(plan, message=f"auto: {why}")
        return outcome


def all_solvers(*kinds: str) -> tuple[Solver[Any], ...]:
    """Return the solvers of some kinds or of all, with all plug-ins and those whose library is missing."""
    return (*builtin_solvers(*kinds), *plugin_solvers())


@cache
def builtin_solvers(*kinds: str) -> tuple[Solver[Any], ...]:
    """Return the package's own solvers of some kinds or of all: `auto`, exact methods, then the others."""
    exact: list[Solver[Any]] = []
    others: list[Solver[Any]] = []
    modelled: list[str] = []
    for kind in kinds or KINDS.names:
        exact.append(KINDS[kind].exact)
        others += KINDS[kind].solvers
        modelled += [kind] if FORMULATIONS[kind].milp_model is not None else []
    models = [Milp(backend, tuple(modelled)) for backend in BACKENDS.values()] if modelled else []
    return (Auto(), *exact, *models, *others)


def solvers_for(kind: str, *, available: bool = False) -> list[Solver[Any]]:
    """Return the solvers of a problem kind; with `available`, only those that can run here."""
    return [s for s in all_solvers(kind) if kind in s.kinds and not (available and s.unavailable())]


def find_solver(name: str, kind: str) -> Solver[Any]:
    """Return the solver with this name for a problem kind.

    Raises
    ------
    OptionError
        If there is none of this name for the kind.
    UnavailableError
        If it cannot be used here.
    """
    wanted = "milp:highs" if name == "milp" else name
    for solver in all_solvers(kind):
        if solver.name == wanted and kind in solver.kinds:
            reason = solver.unavailable()
            if reason:
                raise UnavailableError(f"solver {name!r} cannot be used here: {reason}")
            return solver
    names = [solver.name for solver in solvers_for(kind)]
    raise OptionError(
        f"no solver {name!r} for {kind}; {suggestion_text(name, names)}there are: {', '.join(names)}"
    )


class BrokenPlugin(Solver[Any]):
    """Placeholder for a plug-in that cannot be loaded.

    Parameters
    ----------
    name
        Name of its entry point.
    reason
        What is wrong, and with which package.
    """

    kinds = FORMULATIONS.names
    what = "a plug-in that cannot be loaded"

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason

    def unavailable(self) -> str:
        """Return why the plug-in cannot be loaded."""
        return self.reason

    def solve(self, formulation: AnyFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Raise `UnavailableError`, since the plug-in cannot be loaded."""
        del formulation, options, clock
        raise UnavailableError(f"solver {self.name!r} cannot be used here: {self.reason}")


@cache
def plugin_solvers() -> tuple[Solver[Any], ...]:
    """Return the solvers of all installed plug-ins; a name that is taken makes a `BrokenPlugin`."""
    entries, found = plugin_entry_points(), list[Solver[Any]]()
    names = {solver.name for solver in (builtin_solvers() if entries else ())}
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
    unknown = [kind for kind in getattr(solver, "kinds", ()) if kind not in FORMULATIONS]
    if unknown or not getattr(solver, "kinds", ()):
        raise TypeError(
            f"the kinds of {solver.name!r} are {unknown or 'missing'}; allowed: {', '.join(FORMULATIONS)}"
        )
