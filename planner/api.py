"""The library call `solve`: solve an instance by the name of a solver."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from ..instances.common.base import Instance
from ..instances.common.errors import OptionError
from ..instances.common.kind import Builder
from ..instances.documents import load
from ..solvers.common.result import Result, SolveOptions, parse_options
from ..solvers.registry import find_solver
from ..solvers.run import solve_with

log = logging.getLogger("clusterplan")


def solve(
    instance: Instance | Builder[Any] | str | Path,
    solver: str = "auto",
    options: SolveOptions | None = None,
    **settings: Any,
) -> Result:
    """Solve an instance and return a verified result.

    Parameters
    ----------
    instance
        From `load`, an importer or a builder such as `Allocation`; the builder itself; or the file that holds
        it, `-` for standard input.
    solver
        Name of a solver of the instance's kind; `auto` proves optimality if it can within the limit.
    options
        Limits and settings.
    settings
        Fields of the options by name, such as `time_limit_s=30`; they win over those in `options`.

    Returns
    -------
    result
        Infeasible instances, limits and failed verifications are results, not exceptions.

    Raises
    ------
    InstanceError
        If the file is missing or wrong, or what was built is.
    OptionError
        If the solver does not exist or cannot honour an option.
    UnavailableError
        If the solver is not installed.
    TooLargeError
        If the instance is too large for the method's explicit model.
    """
    instance = instance_of(instance, "solve")
    for note in instance.figure_notes():
        log.warning("%s: %s", instance.name, note)
    options = options or SolveOptions()
    if settings:
        options = parse_options({**dict(options), **settings})
    return solve_with(instance, find_solver(solver, instance.kind), options)


def instance_of(given: Instance | Builder[Any] | str | Path, call: str) -> Instance:
    """Return an instance as it is, built by a builder, or loaded from a file name, for a library call.

    Raises
    ------
    InstanceError
        If the file is missing or wrong, or what was built is.
    OptionError
        If it is none of these.
    """
    if isinstance(given, str | Path):
        return load(given)
    if isinstance(given, Builder):
        built: Instance = given.build()
        return built
    if not isinstance(given, Instance):
        raise OptionError(f"{call} takes an instance or its file, not {type(given).__name__}")
    return given
