"""Mixed-integer solvers behind PuLP, with true bounds and honest reasons for stopping.

PuLP calls a plan "Optimal" at a time limit and keeps no bound, so both are read from the solver's own
object (HiGHS, SCIP) or log (CBC).
"""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formulations.common.clock import check_time
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.errors import ClusterplanError, OptionError
from ..common.base import Clock, Feature
from ..common.result import Limit
from .threads import run_highs

GRACE, GRACE_S = 0.1, 1.0
"""CBC is ended, without an answer, so much of its time limit after it, or so many seconds if that is more."""
LARGEST_ENTRY = 1e4
"""The largest coefficient of a row: beyond, sums of doubles are rounded by as much as HiGHS tolerates."""
HIGHS_TOLERANCE = 1e-9
"""Its default of 1e-6 moves small objectives by more than the gap that is asked for."""
LOG_ROUNDING = 0.0005
"""CBC's log shows bounds with three decimals."""


class BackendError(ClusterplanError):
    """A backend failed in a way that is neither a limit nor an answer."""


@dataclass(frozen=True)
class Request:
    """What a backend is asked: limits and settings, None for its own default; start values if any."""

    clock: Clock = field(default_factory=Clock)
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
    """A mixed-integer solver; `minimise` solves a PuLP problem whose sense is to minimise.

    Attributes
    ----------
    handover
        How long PuLP takes to give it a model, beside building it; it does not look at a clock meanwhile.
    """

    name: str
    title: str
    handover: float = 0.0
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

        model = highspy.Highs()
        model.setOptionValue("output_flag", False)
        names = ("mip_feasibility_tolerance", "primal_feasibility_tolerance", "dual_feasibility_tolerance")
        settings: dict[str, Any] = dict.fromkeys(names, HIGHS_TOLERANCE)
        settings |= {"mip_rel_gap": request.gap, "mip_abs_gap": 1e-12, **(request.settings or {})}
        if request.threads is not None:
            settings.setdefault("threads", request.threads)
        if request.seed is not None:
            settings.setdefault("random_seed", request.seed % 2**31)
        if "threads" in settings:
            highspy.Highs.resetGlobalScheduler(True)
        for key, value in settings.items():
            if model.setOptionValue(key, value) != highspy.HighsStatus.kOk:
                raise OptionError(f"HiGHS does not accept the option {key!r} = {value!r}")
        variables = problem.variables()
        lp, uncertain = _in_arrays(problem, variables)
        model.passModel(lp)
        if request.start:
            solution = highspy.HighsSolution()
            solution.col_value = [float(request.start.get(v, 0.0)) for v in variables]
            model.setSolution(solution)
        if request.clock.remaining_s is not None and "time_limit" not in settings:
            model.setOptionValue("time_limit", request.clock.remaining_s)
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
        values = None if columns is None else {v.name: columns[i] for i, v in enumerate(variables)}
        whole = any(v.cat == pulp.LpInteger for v in variables)
        bound = (
            info.mip_dual_bound if whole else (info.objective_function_value if found else -highspy.kHighsInf)
        )
        proven = float(bound) - uncertain if abs(bound) < highspy.kHighsInf else None
        return Answer(values, proven, limits.get(status, "none"))


def _in_arrays(problem: Any, variables: Sequence[Any]) -> tuple[Any, float]:
    """Return a PuLP problem as HiGHS takes it, and by how much the bound may be off.

    Variables are columns. PuLP's own way adds them and the rows one after the other, which takes longer than
    building the model.
    """
    import highspy
    import pulp

    column = {id(variable): i for i, variable in enumerate(variables)}
    sizes, index, value = list[int](), list[int](), list[float]()
    rows = problem.constraints()
    for row in rows:
        check_time()
        for variable, coefficient in row.items():
            index.append(column[id(variable)])
            value.append(coefficient)
        sizes.append(len(row))
    infinite, kinds = highspy.kHighsInf, highspy.HighsVarType
    places = np.array(index, dtype=np.int64)
    owner = np.repeat(np.arange(len(rows)), sizes)
    whole = np.array([v.cat == pulp.LpInteger for v in variables], dtype=bool)
    over_integers = np.ones(len(rows), dtype=bool)
    np.logical_and.at(over_integers, owner, whole[places])
    factors = _fair_factors(owner, np.array(value, dtype=float), over_integers)
    entries = np.array(value, dtype=float) * factors[owner]
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(variables), len(rows)
    lp.col_cost_ = np.array([float(problem.objective.get(v, 0.0)) for v in variables])
    lp.col_lower_ = _limits((variable.lowBound for variable in variables), -infinite)
    lp.col_upper_ = _limits((variable.upBound for variable in variables), infinite)
    lp.row_lower_ = _limits((row.getLb() for row in rows), -infinite) * factors
    lp.row_upper_ = _limits((row.getUb() for row in rows), infinite) * factors
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = np.cumsum([0, *sizes]), places
    lp.a_matrix_.value_ = entries
    lp.integrality_ = [kinds.kInteger if integer else kinds.kContinuous for integer in whole]
    # What HiGHS tolerates in a row that was scaled down is more in the row's own unit.
    loose = ~whole[places] & (factors[owner] < 1)
    slack = np.zeros(len(variables))
    np.maximum.at(slack, places[loose], HIGHS_TOLERANCE / np.abs(entries[loose]))
    return lp, float(np.abs(lp.col_cost_) @ slack)


def _fair_factors(owner: Ints, entries: Floats, over_integers: Flags) -> Floats:
    """Return by what to multiply rows, so that what HiGHS tolerates is neither much nor less than rounding.

    Entries beyond 1e4 are rounded by as much as it tolerates. Fractions over integers are brought up to 1e4:
    its presolve cuts off optima where they are small and the row is just filled. Factors are powers of two,
    so that whole numbers lose no digit.

    Parameters
    ----------
    owner
        The row of each entry.
    over_integers
        Whether a row has no continuous variable.
    """
    largest, fractions = np.zeros(len(over_integers)), np.zeros(len(over_integers), dtype=bool)
    np.maximum.at(largest, owner, np.abs(entries))
    np.logical_or.at(fractions, owner, entries != np.round(entries))
    scaled = (largest > LARGEST_ENTRY) | (over_integers & fractions)
    return np.exp2(np.floor(np.log2(LARGEST_ENTRY / np.where(scaled, largest, LARGEST_ENTRY))))


def _limits(given: Iterable[float | None], infinite: float) -> NDArray[np.float64]:
    return np.array([infinite if limit is None else limit for limit in given], dtype=float)


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

    name, title, handover = "scip", "SCIP", 1.0
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

        solver = pulp.SCIP_PY(msg=False, gapRel=request.gap)
        solver.buildSolverModel(problem)
        model, settings = problem.solverModel, dict(request.settings or {})
        if request.clock.remaining_s is not None:
            settings.setdefault("limits/time", request.clock.remaining_s)
        configure_scip(model, request.seed, request.memory_limit_gib, settings)
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

    name, title, handover = "cbc", "CBC", 1.0

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
        path = pulp.PULP_CBC_CMD.pulp_cbc_path
        solver = pulp.COIN_CMD(
            path=path, gapRel=request.gap, gapAbs=1e-12, threads=request.threads, options=options
        )
        # PuLP would settle the time limit before it writes the model, and wait for CBC however long it takes.
        with tempfile.TemporaryDirectory() as folder:
            model, start, found, log = (Path(folder) / name for name in ("m.mps", "m.mst", "m.sol", "log"))
            variables, names, rows, _ = problem.writeMPS(str(model), rename=1)
            words = [str(model)]
            if request.start:
                solver.writesol(str(start), problem, variables, names, rows)
                words += ["-mips", str(start)]
            left = request.clock.remaining_s
            words += [] if left is None else ["-sec", f"{left:.3f}"]
            words += [word for option in (*options, *solver.getOptions()) for word in f"-{option}".split()]
            words += ["-solve", "-printingOptions", "all", "-solution", str(found)]
            with log.open("wb") as stream:
                try:
                    ended = subprocess.run(  # noqa: S603 - PuLP's CBC, and words that were checked
                        [path, *words],
                        check=False,
                        stdin=subprocess.DEVNULL,
                        stdout=stream,
                        stderr=stream,
                        timeout=None if left is None else left + max(GRACE_S, GRACE * left),
                    )
                except subprocess.TimeoutExpired:
                    return Answer(None, None, "time")
            text = log.read_text(errors="replace")
            if ended.returncode or not found.exists():
                raise BackendError(f"CBC failed; the end of its log: {text.strip()[-300:]!r}")
            values = solver.readsol_MPS(str(found), problem, variables, names, rows)[1]
            problem.assignVarsVals(values)
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
