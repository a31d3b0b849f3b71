"""What several importers of staging instances share: options, and what is assumed because of them."""

from __future__ import annotations

from typing import Annotated, Literal

from ..common.fields import Name, Positive, PositiveCount, Share
from .importer import ImportOptions, Option


class StagingOptions(ImportOptions):
    """Options of every import of measured layers."""

    limit: Annotated[dict[Name, PositiveCount], Option("Units of each type, such as A100-40=8,GH-96=4.")] = {}
    throughput: Annotated[Positive | None, Option("Floor in samples/s.")] = None
    parallel_share: Annotated[Share, Option("Share of the compute time that units divide.")] = 0.99
    link_gbit_per_s: Annotated[
        Positive | None,
        Option("Speed of the links; 0: no communication.", least=0, read=lambda speed: speed or None),
    ] = 100.0
    samples: Annotated[Positive, Option("Samples to train.")] = 1e6
    epochs: Annotated[Positive, Option("How many times over.")] = 1.0
    objective: Annotated[
        Literal["cost", "throughput", "time"], Option("Least cost, most samples/s or least time.")
    ] = "cost"
    stage_rule: Annotated[
        Literal["maximal_runs", "free_cuts"] | None,
        Option(
            "maximal_runs: neighbouring stages differ in type; free_cuts: they need not. "
            "[default: free_cuts for graphs and for tensor parallelism, else maximal_runs]"
        ),
    ] = None

    def how_units_share(self, units: str) -> str:
        """Say what further units of a stage are assumed to divide."""
        return (
            f"Further {units} of a stage divide {self.parallel_share:g} of its compute time; the source does "
            "not say how times scale."
        )

    def how_much_is_trained(self) -> str:
        """Say that the length of the training is no figure of the source."""
        return (
            f"Training {self.samples:.10g} samples {self.epochs:g} times over is a choice; the source does "
            "not say how much is trained."
        )
