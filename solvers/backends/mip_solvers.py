"""Mixed-integer solvers behind PuLP: HiGHS through highspy, CBC as PuLP ships it, SCIP through PySCIPOpt.

CBC is a separate program, whose bound is read from its log.
"""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formulations.common.clock import check_time
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.errors import OptionError
from ...instances.common.fields import Fields
from ..common.base import Clock
from ..common.result import Limit, SolveOptions
from ..common.search_control import run_with_time_limit
from .base import GRACE, GRACE_S, Answer, Backend, BackendError, RunEnd
from .highs import TOLERANCE, TOLERANCES, highs_with_settings, linear_program, run_from, threads_and_seed

LARGEST_ENTRY = 1e4
"""Largest coefficient of a row; above it, rounding errors of sums reach HiGHS's tolerance."""


class Highs(Backend):
    """HiGHS through highspy as a backend."""

    name, title = "highs", "HiGHS"
    package = ("highspy", "highspy")

    def minimise(
        self, problem: Any, options: SolveOptions, clock: Clock, start: Mapping[Any, float] | None = None
    ) -> Answer:
        """Minimise a PuLP problem with HiGHS; bound and status come from its info object."""
        import pulp

        settings = {**TOLERANCES, "mip_rel_gap": options.gap, "mip_abs_gap": 1e-12}
        settings |= {**threads_and_seed(options.threads, options.seed), **options.backend_options}
        model = highs_with_settings(settings, OptionError)
        variables = problem.variables()
        lp, uncertain = _highs_model(problem, variables)
        ended = run_from(model, lp, clock, [float(start.get(v, 0.0)) for v in variables] if start else None)
        if ended is None:
            return Answer(limit="time")
        if ended.infeasible:
            return Answer(infeasible=True)
        columns = model.getSolution().col_value
        values = dict(zip(variables, columns, strict=True)).__getitem__ if ended.found else None
        info, bound = model.getInfo(), -model.inf
        if any(v.cat == pulp.LpInteger for v in variables):
            bound = info.mip_dual_bound
        elif ended.found:
            bound = info.objective_function_value  # a linear program has no gap
        proven = float(bound) - uncertain if abs(bound) < model.inf else None
        return Answer(values, proven, ended.limit)


def _highs_model(problem: Any, variables: Sequence[Any]) -> tuple[Any, float]:
    """Convert a PuLP problem to a `HighsLp`; return it and the maximum error of its bound from scaling.

    PuLP itself would add columns and rows one by one, which takes longer than building the model.
    """
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
    column_of_entry, given = np.array(index, dtype=np.int64), np.array(value, dtype=float)
    owner = np.repeat(np.arange(len(rows)), sizes)
    whole = np.array([v.cat == pulp.LpInteger for v in variables], dtype=bool)
    over_integers = np.ones(len(rows), dtype=bool)
    np.logical_and.at(over_integers, owner, whole[column_of_entry])
    factors = _row_scaling_factors(owner, given, over_integers)
    entries = given * factors[owner]
    cost = np.array([float(problem.objective.get(v, 0.0)) for v in variables])
    low = _limits((row.getLb() for row in rows), -np.inf) * factors
    high = _limits((row.getUb() for row in rows), np.inf) * factors
    least = _limits((variable.lowBound for variable in variables), -np.inf)
    most = _limits((variable.upBound for variable in variables), np.inf)
    matrix = np.cumsum([0, *sizes]), column_of_entry, entries
    lp = linear_program(cost, (least, most), (low, high), matrix, whole, by_rows=True)
    # What HiGHS tolerates in a row that was scaled down is more in the row's own unit.
    is_loosened = ~whole[column_of_entry] & (factors[owner] < 1)
    seen, slack = is_loosened & (entries != 0), np.zeros(len(variables))
    np.maximum.at(slack, column_of_entry[seen], TOLERANCE / np.abs(entries[seen]))
    # A coefficient that scaling made zero limits its variable no more.
    slack[column_of_entry[is_loosened & ~seen & (given != 0)]] = np.inf
    counts = cost != 0
    return lp, float(np.abs(cost[counts]) @ slack[counts])


def _row_scaling_factors(owner: Ints, entries: Floats, over_integers: Flags) -> Floats:
    """Return row scaling factors, shape (rows,), that keep HiGHS's tolerance meaningful in every row.

    Above 1e4, rounding reaches the tolerance. Fractional coefficients of integer variables are scaled up to
    1e4: HiGHS's presolve cuts off optima if they are small and the row is tight. Factors are powers of two,
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


LOG_ROUNDING = 0.0005
"""Rounding error of bounds in CBC's log, which shows three decimals."""


class Cbc(Backend):
    """The CBC program that PuLP ships; its bound is read from its log."""

    name, title = "cbc", "CBC"
    package = ("pulp", "pulp")
    largest_entry = 1e6

    def unavailable(self) -> str | None:
        """Return why the CBC program cannot be used; None if it can."""
        missing = super().unavailable()
        if missing:
            return missing
        import pulp

        if pulp.COIN_CMD(path=pulp.PULP_CBC_CMD.pulp_cbc_path, msg=False).available():
            return None
        return "the CBC program that PuLP ships cannot be run here; use another backend"

    def version(self) -> str:
        """Return the version of PuLP, which ships CBC."""
        return f"in PuLP {super().version()}"

    def minimise(
        self, problem: Any, options: SolveOptions, clock: Clock, start: Mapping[Any, float] | None = None
    ) -> Answer:
        """Minimise a PuLP problem with CBC in a separate process, within the limits of options and clock."""
        import pulp

        # CBC's own increment of 1e-5 would hide improvements of small objectives.
        # Its default tolerances move small objectives by more than the gap that is asked for.
        settings = ["increment 1e-12", "primalTolerance 1e-9", "dualTolerance 1e-9", "integerTolerance 1e-9"]
        if options.seed is not None:
            settings.append(f"randomCbcSeed {options.seed % 2**31}")
        for key, value in options.backend_options.items():
            if not re.fullmatch(r"[A-Za-z]\w*", str(key)) or not re.fullmatch(r"[\w.+-]+", str(value)):
                raise OptionError(f"CBC option {key!r} = {value!r} must be one word and one value")
            settings.append(f"{key} {value}")
        if start:
            for variable, value in start.items():
                variable.setInitialValue(value, check=False)
        path = pulp.PULP_CBC_CMD.pulp_cbc_path
        solver = pulp.COIN_CMD(
            path=path, gapRel=options.gap, gapAbs=1e-12, threads=options.threads, options=settings
        )
        # PuLP would settle the time limit before it writes the model, and wait for CBC however long it takes.
        with tempfile.TemporaryDirectory() as folder:
            model, start_file, solution_file, log = (
                Path(folder) / name for name in ("m.mps", "m.mst", "m.sol", "log")
            )
            variables, names, rows, _ = run_with_time_limit(
                clock, lambda: problem.writeMPS(str(model), rename=1)
            )
            arguments = [str(model)]
            if start:
                solver.writesol(str(start_file), problem, variables, names, rows)
                arguments += ["-mips", str(start_file)]
            remaining_s = clock.remaining_s
            arguments += [] if remaining_s is None else ["-timeMode", "elapsed", "-sec", f"{remaining_s:.3f}"]
            arguments += [
                word for option in (*settings, *solver.getOptions()) for word in f"-{option}".split()
            ]
            arguments += ["-solve", "-printingOptions", "all", "-solution", str(solution_file)]
            with log.open("wb") as stream:
                try:
                    ended = subprocess.run(  # noqa: S603 - PuLP's CBC, and words that were checked
                        [path, *arguments],
                        check=False,
                        stdin=subprocess.DEVNULL,
                        stdout=stream,
                        stderr=stream,
                        timeout=None if remaining_s is None else remaining_s + GRACE * remaining_s + GRACE_S,
                    )
                except subprocess.TimeoutExpired:
                    return Answer(limit="time")
            text = log.read_text(errors="replace")
            if ended.returncode or not solution_file.exists():
                raise BackendError(f"CBC failed; the end of its log: {text.strip()[-300:]!r}")
            values = solver.readsol_MPS(str(solution_file), problem, variables, names, rows)[1]
            problem.assignVarsVals(values)
        return self._answer(problem, text, options.gap)

    @staticmethod
    def _answer(problem: Any, log: str, gap: float) -> Answer:
        """Return values, lower bound and limit of a run, as read from CBC's log.

        PuLP's own status is ambiguous.
        """
        if re.search(
            r"proven infeasible|Linear relaxation infeasible|Problem is infeasible|Integer infeasible"
            # The relaxation has an optimum, so that the model is not unbounded.
            r"|Continuous objective value is[\s\S]*Pre-processing says infeasible or unbounded",
            log,
            re.I,
        ):
            return Answer(infeasible=True)
        limit: Limit = "none"
        if re.search(r"Result - Stopped on time|Exiting on maximum time", log):
            limit = "time"
        elif re.search(r"Result - Stopped on|Exiting on (maximum|user)|Result - User ctrl-cuser", log):
            limit = "node"
        no_solution = re.search(r"No feasible solution found", log)
        objective = re.search(r"^Objective value:\s+(\S+)", log, re.M)
        lower = re.search(r"^Lower bound:\s+(\S+)", log, re.M)
        proven = re.search(r"Result - Optimal solution found|^Optimal - objective value\s+(\S+)", log, re.M)
        has_solution = not no_solution and (objective is not None or proven is not None)
        if limit == "none" and not has_solution:
            raise BackendError(f"CBC ended without an answer; the end of its log: {log.strip()[-300:]!r}")
        values = {v: float(v.varValue or 0.0) for v in problem.variables()} if has_solution else None
        bounds = [] if lower is None else [float(lower[1]) - LOG_ROUNDING]
        if proven is not None and limit == "none" and values is not None:
            # CBC closed the tree up to the gap it was given, of which the log shows too few digits.
            best = sum(values[v] * coefficient for v, coefficient in problem.objective.items())
            # CBC's gap is relative to the larger of solution and bound.
            slack = gap / (1 - gap) * abs(best) if gap < 1 else math.inf
            bounds.append(best - (slack if lower is not None else 0.0))
        found = None if values is None else values.__getitem__
        return Answer(found, max(bounds, default=None), limit)


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
    chosen: Fields = {"numerics/feastol": 1e-9, "numerics/dualfeastol": 1e-9, **limits}
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
    package = ("pyscipopt", "PySCIPOpt", "clusterplan[scip]")
    features = frozenset({"warm_start", "backend_options", "memory_limit"})

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
            return Answer(infeasible=True)
        values = None
        if ended.found:
            solution = model.getBestSol()
            values = {v: float(solution[v.solverVar]) for v in problem.variables()}.__getitem__
        return Answer(values, bound, ended.limit)
