"""Consolidate or wait: every job on the fewest servers it could ever use, or not now."""

from __future__ import annotations

from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....instances.consolidation.instance import PlacementJob
from .best_fit import BestFit


class ConsolidateOrWait(BestFit):
    """Best fit, as if every job were required to be consolidated, whatever its spread rule.

    So schedulers in production placed jobs before Tiresias asked which of them gain from it.
    """

    name = "consolidate-or-wait"
    what = "every job on the fewest servers it could ever use, or it waits"

    def most_servers(self, formulation: ConsolidationFormulation, job: PlacementJob) -> int | None:
        """Return the fewest servers that the job could ever use."""
        return formulation.fewest(job)
