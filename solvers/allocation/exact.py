"""`exact`: allocation to proven optimality, with a certificate that the check verifies by itself."""

from __future__ import annotations

from ...formulations.allocation.formulation import AllocationFormulation
from ..common.base import Clock, Outcome, Solver
from ..common.options import SolveOptions
from .makespan import MakespanSearch
from .total_time import TotalTimeSearch


class AllocationExact(Solver[AllocationFormulation]):
    """Lagrangian bound, reduced-cost fixing and core problem; what it proves, `verify` certifies.

    Parameters
    ----------
    cores
        Without cores it is `lagrangian`: the Lagrangian bound, and a plan that is rounded from the dual
        prices, repaired and improved, without any integer program.
    """

    kinds = ("allocation",)
    features = frozenset({"warm_start"})

    def __init__(self, cores: bool = True) -> None:
        self.cores = self.proves = cores
        self.name = "exact" if cores else "lagrangian"
        self.what = (
            "prices, fixing and a small core on HiGHS; proves up to a million jobs, with a certificate"
            if cores
            else "Lagrangian prices, rounding and local search; a certified bound, no integer program"
        )

    def solve(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return a plan, its bound, prices and a certificate."""
        build_s = clock.elapsed_s
        makespan = formulation.instance.objective == "makespan"
        search = MakespanSearch if makespan else TotalTimeSearch
        outcome = search(formulation, options, clock, self.cores).run()
        outcome.build_s = build_s
        return outcome
