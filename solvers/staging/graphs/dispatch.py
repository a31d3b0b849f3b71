"""Methods for graphs under the names that they have for chains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....formulations.staging.formulation import StagingFormulation
from ....formulations.staging.graphs.formulation import GraphFormulation
from ...common.base import Clock, Outcome, Solver
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


class OnChains(Solver[StagingFormulation]):
    """A method that plans chains and refuses graphs."""

    kinds = ("staging",)

    def __init__(self, method: Solver[Any]) -> None:
        self.method = method
        self.name, self.proves, self.what = method.name, method.proves, method.what
        self.features = method.features

    @property
    def method_options(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The method's own settings."""
        return self.method.method_options

    def unavailable(self) -> str | None:
        """Return why the method cannot be used."""
        return self.method.unavailable()

    def check_options(self, options: SolveOptions) -> None:
        """Refuse every option that the method would ignore."""
        self.method.check_options(options)

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve a chain; of a graph only say what plans it."""
        if isinstance(formulation, GraphFormulation):
            message = f"{self.name} plans chains of layers, and these make a graph; take exact"
            return Outcome(failed=True, message=message)
        return self.method.solve(formulation, options, clock)
