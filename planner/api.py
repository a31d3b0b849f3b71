"""The central library call: solve an instance by the name of a solver."""

from __future__ import annotations

from ..instances.common.base import Instance
from ..instances.common.errors import OptionError
from ..solvers.common.options import SolveOptions
from ..solvers.common.result import Result
from ..solvers.registry import find_solver
from ..solvers.run import solve_with


def solve(instance: Instance, solver: str = "auto", options: SolveOptions | None = None) -> Result:
    """Solve an instance and return a verified result.

    Parameters
    ----------
    instance
        From `load`, an importer, a generator, or built from the classes in `clusterplan.instances`.
    solver
        Name of a solver of the instance's kind; `auto` proves optimality if it can within the limit.
    options
        Limits and settings.

    Returns
    -------
    result
        Infeasible instances, limits and failed verifications are results, not exceptions.

    Raises
    ------
    OptionError
        If the solver does not exist or cannot honour an option.
    UnavailableError
        If the solver is not installed.
    TooLargeError
        If the instance is too large for the method's explicit model.
    """
    if not isinstance(instance, Instance):
        raise OptionError(f"solve takes an instance, not {type(instance).__name__}; load the file first")
    return solve_with(instance, find_solver(solver, instance.kind), options or SolveOptions())
