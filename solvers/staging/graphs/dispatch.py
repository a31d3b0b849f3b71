"""Methods for graphs under the names that they have for chains."""

from __future__ import annotations

from ....formulations.staging.formulation import StagingFormulation
from ....formulations.staging.graph_formulation import GraphFormulation
from ...common.base import Clock, Outcome
from ...common.delegating import Delegating
from ...common.options import SolveOptions
from ..exact import StagingExact
from .exact import solve_graph


class ExactOnGraphs(StagingExact):
    """`exact` for chains and graphs."""

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve a chain, or a graph."""
        if isinstance(formulation, GraphFormulation):
            return solve_graph(self, formulation, options, clock)
        return super().solve(formulation, options, clock)


class OnChains(Delegating[StagingFormulation]):
    """A method that plans chains and refuses graphs."""

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve a chain; of a graph only say what plans it."""
        if isinstance(formulation, GraphFormulation):
            message = f"{self.name} plans chains of layers, and these make a graph; take exact"
            return Outcome(failed=True, message=message)
        return self.method.solve(formulation, options, clock)
