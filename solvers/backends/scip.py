"""SCIP through PySCIPOpt, whose model object holds the bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from ...instances.common.errors import OptionError
from ..common.base import Clock
from ..common.result import Limit, SolveOptions
from ..common.search_control import run_with_time_limit
from .base import Answer, Backend, BackendError, RunEnd, missing_package_text

SCIP_LIMITS: dict[str, Limit] = {
    "timelimit": "time",
    "memlimit": "memory",
    "userinterrupt": "interrupt",
    "nodelimit": "node",
    "totalnodelimit": "node",
    "stallnodelimit": "node",
    "restartlimit": "node",
    "sollimit": "node",
    "bestsollimit": "node",
}
"""The limit that stopped SCIP, by its status."""


def configure_scip(model: Any, options: SolveOptions, limits: Mapping[str, Any]) -> None:
    """Set the parameters of a SCIP model: tolerances, limits and, over these, the backend options.

    Raises
    ------
    OptionError
        If SCIP rejects a parameter.
    """
    # Its default tolerances move small figures by more than the gap that is asked for.
    chosen: dict[str, Any] = {"numerics/feastol": 1e-9, "numerics/dualfeastol": 1e-9, **limits}
    if options.seed is not None:
        chosen["randomization/randomseedshift"] = options.seed % 2**31
    if options.memory_limit_gib is not None:
        chosen["limits/memory"] = 1024 * options.memory_limit_gib
    for key, value in {**chosen, **options.backend_options}.items():
        try:
            model.setParam(key, value)
        except (KeyError, LookupError, ValueError, TypeError) as error:
            raise OptionError(f"SCIP does not accept the option {key!r} = {value!r}: {error}") from None


@contextmanager
def scip_errors() -> Iterator[None]:
    """Convert PySCIPOpt's bare exceptions, such as for coefficients of 1e20, into a BackendError."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise BackendError(f"SCIP failed: {error}") from None


def scip_run_end(model: Any) -> tuple[RunEnd, float | None]:
    """Return how SCIP's run ended, and its proven dual bound; None if it is infinite or infeasible.

    Raises
    ------
    BackendError
        If SCIP stopped for any other reason.
    """
    status, has_solution, bound = model.getStatus(), model.getNSols() > 0, float(model.getDualbound())
    if status in ("infeasible", "inforunbd") and not has_solution:
        return RunEnd(has_solution, True, "none"), None
    if status not in SCIP_LIMITS and status not in ("optimal", "gaplimit"):
        raise BackendError(f"SCIP stopped with status {status!r}")
    proven = bound if abs(bound) < model.infinity() else None
    return RunEnd(has_solution, False, SCIP_LIMITS.get(status, "none")), proven


class Scip(Backend):
    """SCIP through PySCIPOpt as a backend."""

    name, title = "scip", "SCIP"
    features = frozenset({"warm_start", "backend_options", "memory_limit"})

    def unavailable(self) -> str | None:
        """Return why PySCIPOpt cannot be used; None if it can."""
        return missing_package_text("pyscipopt", "PySCIPOpt", "clusterplan[scip]")

    def version(self) -> str:
        """Return the version of PySCIPOpt."""
        return metadata.version("pyscipopt")

    @scip_errors()
    def minimise(
        self, problem: Any, options: SolveOptions, clock: Clock, start: Mapping[Any, float] | None = None
    ) -> Answer:
        """Minimise a PuLP problem with SCIP; bound and status come from its model object."""
        import pulp

        solver = pulp.SCIP_PY(msg=False, gapRel=options.gap)
        run_with_time_limit(clock, lambda: solver.buildSolverModel(problem))
        model = problem.solverModel
        limits = {} if clock.remaining_s is None else {"limits/time": clock.remaining_s}
        configure_scip(model, options, limits)
        if start:
            first = model.createPartialSol()
            for variable, value in start.items():
                model.setSolVal(first, variable.solverVar, value)
            model.addSol(first)
        model.optimize()
        ended, bound = scip_run_end(model)
        if ended.infeasible:
            return Answer(None, None, infeasible=True)
        values = None
        if ended.found:
            solution = model.getBestSol()
            values = {v: float(solution[v.solverVar]) for v in problem.variables()}.__getitem__
        return Answer(values, bound, ended.limit)
