"""`minlp`: the algebraic model of allocation on SCIP; `minlp_model.py` states it.

SCIP solves it by spatial branch and bound (Vigerske & Gleixner 2018).
"""

from __future__ import annotations

from importlib import metadata

from ....formulations.allocation.formulation import AllocationFormulation
from ...backends.base import installed
from ...backends.scip import configure_scip, how_scip_ended, scip_failures
from ...common.base import Clock, Outcome, Solver
from ...common.options import SolveOptions

READING = 0.2
"""Share of the time for building that reading the answer and freeing the model take, about."""


class AllocationMinlp(Solver[AllocationFormulation]):
    """The algebraic model with integer numbers of tasks, solved by spatial branch and bound."""

    name = "minlp"
    kinds = ("allocation",)
    proves = True
    features = frozenset({"memory_limit", "warm_start", "backend_options"})
    what = "algebraic mixed-integer nonlinear model on SCIP; takes no speed tables"

    def unavailable(self) -> str | None:
        """Return why PySCIPOpt cannot be used."""
        return installed("pyscipopt", "PySCIPOpt", "clusterplan[scip]")

    @scip_failures()
    def solve(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Build the model and solve it with SCIP."""
        from .minlp_model import AlgebraicModel

        algebra = AlgebraicModel(formulation)
        model = algebra.model
        outcome = Outcome(
            backend=f"SCIP in PySCIPOpt {metadata.version('pyscipopt')}", build_s=clock.elapsed_s
        )
        limits = {"limits/gap": options.gap / 2}
        if clock.remaining_s is not None:
            # What was built is read and freed again, and SCIP looks at the time between long steps only.
            limits["limits/time"] = max(0.0, clock.remaining_s - READING * outcome.build_s)
        configure_scip(model, options.seed, options.memory_limit_gib, {**limits, **options.backend_options})
        if options.warm_start is not None:
            outcome.plan = formulation.parse_plan(options.warm_start)
            start = model.createSol()
            for variable, value in algebra.encode(outcome.plan, formulation.evaluate(outcome.plan)[0]):
                model.setSolVal(start, variable, value)
            model.addSol(start)
        if clock.expired:
            outcome.limit = "time"
            return outcome
        model.optimize()
        ended, bound = how_scip_ended(model)
        outcome.limit, outcome.infeasible = ended.limit, ended.infeasible
        if ended.infeasible:
            # SCIP 10 denies plans of instances whose figures are far apart.
            outcome.doubtful = True
            outcome.message = "SCIP finds that there is no plan, of which only what is certified counts"
        if bound is not None:
            outcome.bounds = (bound * algebra.scale,)
        if ended.found:
            outcome.plan = algebra.decode(model.getBestSol())
        return outcome
