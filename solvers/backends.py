"""Mixed-integer solvers behind PuLP, with true bounds and honest reasons for stopping.

PuLP calls a plan "Optimal" at a time limit and keeps no bound, so both are read from the solver's own
object (HiGHS, SCIP) or log (CBC).
"""

from __future__ import annotations

import math
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Any

from ..instances.errors import ClusterplanError, OptionError
from .base import Feature
from .result import Limit
from .threads import run_highs

LOG_ROUNDING = 0.0005
"""CBC's log shows bounds with three decimals."""


class BackendError(ClusterplanError):
    """A backend failed in a way that is neither a limit nor an answer."""


@dataclass(frozen=True)
class Request:
    """What a backend is asked: limits and settings, None for its own default; start values if any."""

    time_limit_s: float | None = None
    gap: float = 0.0
    threads: int | None = None
    seed: int | None = None
    memory_limit_gib: float | None = None
    start: Mapping[Any, float] | None = None
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Answer:
    """What a backend answers to a minimisation.

    Attributes
    ----------
    values
        Value of each variable by name; None if no solution was found.
    bound
        Proven lower bound on the objective, None if unknown.
    """

    values: Mapping[str, float] | None
    bound: float | None
    limit: Limit = "none"
    infeasible: bool = False


class Backend(ABC):
    """A mixed-integer solver; `minimise` solves a PuLP problem whose sense is to minimise."""

    name: str
    title: str
    features: frozenset[Feature] = frozenset({"warm_start", "backend_options"})

    @abstractmethod
    def unavailable(self) -> str | None:
        """Return why it cannot be used here and how to mend it; None if it can."""

    @abstractmethod
    def version(self) -> str:
        """Return the version of the library."""

    @abstractmethod
    def minimise(self, problem: Any, request: Request) -> Answer:
        """Solve the problem."""


def _installed(module: str, package: str, extra: str = "") -> str | None:
    if util.find_spec(module) is not None:
        return None
    return f"{package} is not installed; pip install {f'clusterplan[{extra}]' if extra else package}"


class Highs(Backend):
    """HiGHS through highspy."""

    name, title = "highs", "HiGHS"

    def unavailable(self) -> str | None:
        """Return why highspy cannot be used."""
        return _installed("highspy", "highspy")

    def version(self) -> str:
        """Return the version of highspy."""
        return metadata.version("highspy")

    def minimise(self, problem: Any, request: Request) -> Answer:
        """Solve with HiGHS; bound and status come from its info object."""
        import highspy
        import pulp

        solver = pulp.HiGHS(msg=False, timeLimit=request.time_limit_s, gapRel=request.gap, gapAbs=1e-12)
        solver.createAndConfigureSolver(problem)
        model = problem.solverModel
        # Its default tolerances of 1e-6 move small objectives by more than the gap that is asked for.
        names = ("mip_feasibility_tolerance", "primal_feasibility_tolerance", "dual_feasibility_tolerance")
        settings: dict[str, Any] = {**dict.fromkeys(names, 1e-9), **(request.settings or {})}
        if request.threads is not None:
            settings.setdefault("threads", request.threads)
        if request.seed is not None:
            settings.setdefault("random_seed", request.seed % 2**31)
        if "threads" in settings:
            highspy.Highs.resetGlobalScheduler(True)
        for key, value in settings.items():
            if model.setOptionValue(key, value) != highspy.HighsStatus.kOk:
                raise OptionError(f"HiGHS does not accept the option {key!r} = {value!r}")
        solver.buildSolverModel(problem)
        variables = problem.variables()
        if request.start:
            solution = highspy.HighsSolution()
            solution.col_value = [float(request.start.get(v, 0.0)) for v in variables]
            model.setSolution(solution)
        run_highs(model)
        status, info = model.getModelStatus(), model.getInfo()
        found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        kinds = highspy.HighsModelStatus
        if status in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible) and not found:
            return Answer(None, None, infeasible=True)
        limits: dict[Any, Limit] = {
            kinds.kTimeLimit: "time",
            kinds.kIterationLimit: "node",
            kinds.kSolutionLimit: "node",
            kinds.kInterrupt: "interrupt",
            kinds.kMemoryLimit: "memory",
        }
        if status not in limits and status != kinds.kOptimal:
            raise BackendError(f"HiGHS stopped with status {model.modelStatusToString(status)!r}")
        columns = model.getSolution().col_value if found else None
        values = {v.name: columns[v.index] for v in variables} if columns is not None else None
        whole = any(v.cat == pulp.LpInteger for v in variables)
        bound = (
            info.mip_dual_bound if whole else (info.objective_function_value if found else -highspy.kHighsInf)
        )
        return Answer(
            values, float(bound) if abs(bound) < highspy.kHighsInf else None, limits.get(status, "none")
        )


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
"""What stopped SCIP, by its status."""


def configure_scip(
    model: Any, seed: int | None, memory_limit_gib: float | None, settings: Mapping[str, Any]
) -> None:
    """Set the parameters of a SCIP model; named settings win.

    Raises
    ------
    OptionError
        If SCIP does not accept one.
    """
    # Its default tolerances move small figures by more than the gap that is asked for.
    chosen: dict[str, Any] = {"numerics/feastol": 1e-9, "numerics/dualfeastol": 1e-9}
    if seed is not None:
        chosen["randomization/randomseedshift"] = seed % 2**31
    if memory_limit_gib is not None:
        chosen["limits/memory"] = 1024 * memory_limit_gib
    for key, value in {**chosen, **settings}.items():
        try:
            model.setParam(key, value)
        except (KeyError, LookupError, ValueError, TypeError) as error:
            raise OptionError(f"SCIP does not accept the option {key!r} = {value!r}: {error}") from None


@contextmanager
def scip_failures() -> Iterator[None]:
    """Turn PySCIPOpt's bare exceptions, such as that of a figure of 1e20 or more, into a BackendError."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise BackendError(f"SCIP failed: {error}") from None


class Scip(Backend):
    """SCIP through PySCIPOpt."""

    name, title = "scip", "SCIP"
    features = frozenset({"warm_start", "backend_options", "memory_limit"})

    def unavailable(self) -> str | None:
        """Return why PySCIPOpt cannot be used."""
        return _installed("pyscipopt", "PySCIPOpt", "scip")

    def version(self) -> str:
        """Return the version of PySCIPOpt."""
        return metadata.version("pyscipopt")

    @scip_failures()
    def minimise(self, problem: Any, request: Request) -> Answer:
        """Solve with SCIP; bound and status come from its model object."""
        import pulp

        solver = pulp.SCIP_PY(msg=False, timeLimit=request.time_limit_s, gapRel=request.gap)
        solver.buildSolverModel(problem)
        model = problem.solverModel
        configure_scip(model, request.seed, request.memory_limit_gib, request.settings or {})
        if request.start:
            start = model.createPartialSol()
            for variable, value in request.start.items():
                model.setSolVal(start, variable.solverVar, value)
            model.addSol(start)
        model.optimize()
        status = model.getStatus()
        found = model.getNSols() > 0
        if status in ("infeasible", "inforunbd") and not found:
            return Answer(None, None, infeasible=True)
        if status not in SCIP_LIMITS and status not in ("optimal", "gaplimit"):
            raise BackendError(f"SCIP stopped with status {status!r}")
        solution = model.getBestSol() if found else None
        values = (
            {v.name: float(solution[v.solverVar]) for v in problem.variables()}
            if solution is not None
            else None
        )
        bound = float(model.getDualbound())
        limit = SCIP_LIMITS.get(status, "none")
        return Answer(values, bound if abs(bound) < model.infinity() else None, limit)


class Cbc(Backend):
    """CBC, the program that PuLP ships; its bound is read from its log."""

    name, title = "cbc", "CBC"

    def unavailable(self) -> str | None:
        """Return why the CBC program cannot be used."""
        missing = _installed("pulp", "pulp")
        if missing:
            return missing
        import pulp

        if pulp.COIN_CMD(path=pulp.PULP_CBC_CMD.pulp_cbc_path, msg=False).available():
            return None
        return "the CBC program that PuLP ships cannot be run here; use another backend"

    def version(self) -> str:
        """Return the version of PuLP, which decides that of CBC."""
        return f"in PuLP {metadata.version('pulp')}"

    def minimise(self, problem: Any, request: Request) -> Answer:
        """Solve with CBC in a process of its own."""
        import pulp

        # CBC's own increment of 1e-5 would hide improvements of small objectives.
        # Its default tolerances move small objectives by more than the gap that is asked for.
        options = ["increment 1e-12", "primalTolerance 1e-9", "dualTolerance 1e-9", "integerTolerance 1e-9"]
        if request.seed is not None:
            options.append(f"randomCbcSeed {request.seed % 2**31}")
        for key, value in (request.settings or {}).items():
            if not re.fullmatch(r"[A-Za-z]\w*", str(key)) or not re.fullmatch(r"[\w.+-]+", str(value)):
                raise OptionError(f"CBC option {key!r} = {value!r} must be one word and one value")
            options.append(f"{key} {value}")
        if request.start:
            for variable, value in request.start.items():
                variable.setInitialValue(value, check=False)
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "cbc.log"
            solver = pulp.COIN_CMD(
                path=pulp.PULP_CBC_CMD.pulp_cbc_path,
                msg=False,
                timeLimit=request.time_limit_s,
                gapRel=request.gap,
                gapAbs=1e-12,
                threads=request.threads,
                options=options,
                warmStart=bool(request.start),
                logPath=str(log),
            )
            solver.tmpDir = folder
            try:
                solver.actualSolve(problem)
            except pulp.PulpSolverError as error:
                raise BackendError(f"CBC failed: {error}") from None
            text = log.read_text(errors="replace")
        return self._answer(problem, text, request.gap)

    @staticmethod
    def _answer(problem: Any, log: str, gap: float) -> Answer:
        """Read what the log says; PuLP's status alone does not tell a limit from an optimum."""
        if re.search(
            r"proven infeasible|Linear relaxation infeasible|Problem is infeasible|Integer infeasible",
            log,
            re.I,
        ):
            return Answer(None, None, infeasible=True)
        limit: Limit = "none"
        if re.search(r"Result - Stopped on time|Exiting on maximum time", log):
            limit = "time"
        elif re.search(r"Result - Stopped on|Exiting on (maximum|user)|Result - User ctrl-cuser", log):
            limit = "node"
        lost = re.search(r"No feasible solution found", log)
        objective = re.search(r"^Objective value:\s+(\S+)", log, re.M)
        lower = re.search(r"^Lower bound:\s+(\S+)", log, re.M)
        proven = re.search(r"Result - Optimal solution found|^Optimal - objective value\s+(\S+)", log, re.M)
        found = not lost and (objective is not None or proven is not None)
        if limit == "none" and not found:
            raise BackendError(f"CBC ended without an answer; the end of its log: {log.strip()[-300:]!r}")
        values = {v.name: float(v.varValue or 0.0) for v in problem.variables()} if found else None
        bounds = [] if lower is None else [float(lower[1]) - LOG_ROUNDING]
        if proven is not None and limit == "none" and values is not None:
            # CBC closed the tree up to the gap it was given, of which the log shows too few digits.
            best = sum(values[v.name] * coefficient for v, coefficient in problem.objective.items())
            # CBC's gap is relative to the larger of solution and bound.
            slack = gap / (1 - gap) * abs(best) if gap < 1 else math.inf
            bounds.append(best - (slack if lower is not None else 0.0))
        return Answer(values, max(bounds, default=None), limit)


BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (Highs(), Cbc(), Scip())}
