"""CBC as PuLP ships it: a separate program whose bound is read from its log."""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from ...instances.common.errors import OptionError
from ..common.base import Clock
from ..common.result import Limit, SolveOptions
from ..common.search_control import run_with_time_limit
from .base import GRACE, GRACE_S, Answer, Backend, BackendError, missing_package_text

LOG_ROUNDING = 0.0005
"""Rounding error of bounds in CBC's log, which shows three decimals."""


class Cbc(Backend):
    """The CBC program that PuLP ships; its bound is read from its log."""

    name, title = "cbc", "CBC"
    largest_entry = 1e6

    def unavailable(self) -> str | None:
        """Return why the CBC program cannot be used; None if it can."""
        missing = missing_package_text("pulp", "pulp")
        if missing:
            return missing
        import pulp

        if pulp.COIN_CMD(path=pulp.PULP_CBC_CMD.pulp_cbc_path, msg=False).available():
            return None
        return "the CBC program that PuLP ships cannot be run here; use another backend"

    def version(self) -> str:
        """Return the version of PuLP, which ships CBC."""
        return f"in PuLP {metadata.version('pulp')}"

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
                    return Answer(None, None, "time")
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
            return Answer(None, None, infeasible=True)
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
