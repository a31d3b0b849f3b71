"""The four kinds: how documents are made, what is true of them, and which solvers try them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import allocation, consolidation_documents, scheduling, staging
from .allocation import AllocationTruth
from .consolidation_truth import ConsolidationTruth
from .graph_truth import staging_truth
from .scheduling import SchedulingTruth
from .truth import Truth


@dataclass(frozen=True)
class Kind:
    """One kind of instance.

    Attributes
    ----------
    document
        Makes a random document.
    truth
        Makes all plans of a document.
    sample
        Share of the instances that each further solver tries; `exact` and `brute-force` try all, and graphs
        of layers are for them alone.
    closes
        Whether `exact` and `brute-force` prove an optimum of every instance.
    seconds
        Time limit of each solve; where gaps stay open, `exact` takes all of it.
    """

    document: Callable[[random.Random], dict[str, Any]]
    truth: Callable[[dict[str, Any]], Truth]
    sample: dict[str, float]
    closes: bool = True
    seconds: float = 20.0


KINDS = {
    "allocation": Kind(
        allocation.document,
        AllocationTruth,
        {
            "lagrangian": 0.3,
            "marginal-gain": 0.3,
            "marginal-gain-joint": 0.3,
            "cp-sat": 0.15,
            "milp:highs": 0.15,
            "milp:scip": 0.1,
            "geometric": 0.1,
            "minlp": 0.05,
            "milp:cbc": 0.01,
        },
    ),
    "staging": Kind(
        staging.document,
        staging_truth,
        {
            "greedy": 0.3,
            "single-type": 0.3,
            "cp-sat": 0.15,
            "milp:highs": 0.1,
            "milp:scip": 0.05,
            "genetic": 0.02,
            "bayesian": 0.01,
            "milp:cbc": 0.01,
        },
    ),
    "consolidation": Kind(
        consolidation_documents.document,
        ConsolidationTruth,
        {
            "best-fit": 0.3,
            "first-fit-decreasing": 0.3,
            "consolidate-or-wait": 0.3,
            **dict.fromkeys(("best-fit-l2", "best-fit-dot", "bin-centric"), 0.1),
            "cp-sat": 0.15,
            "milp:highs": 0.1,
            "milp:scip": 0.05,
            "milp:cbc": 0.01,
        },
    ),
    "scheduling": Kind(
        scheduling.document,
        SchedulingTruth,
        {
            **dict.fromkeys(("fifo", "fifo-backfill", "sjf", "srtf", "srsf", "las", "gittins"), 0.3),
            **dict.fromkeys(("yarn-cs", "fair", "drf"), 0.3),
            **dict.fromkeys(("gandiva-timeslice", "themis", "max-min", "optimus"), 0.08),
            "optimus-exact": 0.05,
            "dl2": 0.02,
        },
        closes=False,
        seconds=1.0,
    ),
}
BUDGETS: dict[str, dict[str, Any]] = {
    "genetic": {"evaluations": 60, "population": 10},
    "bayesian": {"evaluations": 15},
    "dl2": {"traces": 1, "passes": 1, "episodes": 0, "training_s": 1.0},
}
"""Settings of methods whose defaults are made for larger instances."""
EVERYWHERE = ("exact", "brute-force")
