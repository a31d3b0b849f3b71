"""CBC as PuLP ships it: a separate program whose log holds the bound."""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from ...instances.common.errors import OptionError
from ..common.result import Limit
from ..common.search_control import interrupted
from .base import GRACE, GRACE_S, Answer, Backend, BackendError, Request, installed

LOG_ROUNDING = 0.0005
"""CBC's log shows bounds with three decimals."""


class Cbc(Backend):
    """CBC, the program that PuLP ships; its bound is read from its log."""

    name, title = "cbc", "CBC"

    def unavailable(self) -> str | None:
        """Return why the CBC program cannot be used."""
        missing = installed("pulp", "pulp")
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
        """Solve with CBC, which is a separate process."""
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
            variables, names, rows, _ = interrupted(
                request.clock, lambda: problem.writeMPS(str(model), rename=1)
            )
            words = [str(model)]
            if request.start:
                solver.writesol(str(start), problem, variables, names, rows)
                words += ["-mips", str(start)]
            left = request.clock.remaining_s
            words += [] if left is None else ["-timeMode", "elapsed", "-sec", f"{left:.3f}"]
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
                        timeout=None if left is None else left + GRACE * left + GRACE_S,
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
        """Return status, values and bound by the log: PuLP's status does not tell a limit from an optimum."""
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
