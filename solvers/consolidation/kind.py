"""Registration of the solvers of consolidation: exact, heuristic; of its certificates and its diagnosis."""

from ..common.kind import SolverKind
from .brute_force import ConsolidationBruteForce
from .cp_sat import CP_SAT
from .devices.exact import (
    BestFitOnDevices,
    BruteForceOnDevices,
    ExactOnDevices,
    OnDevices,
)
from .exact import ConsolidationExact, certify, diagnose
from .list_assignment import ParameterAssignment
from .list_heuristics import BEST_FIT, LIST_HEURISTICS
from .presolve import AroundFixedJobs, WithoutMovesFirst, earlier_plan, plan_without_moves

CONSOLIDATION = SolverKind(
    exact=AroundFixedJobs(WithoutMovesFirst(ExactOnDevices(ConsolidationExact()))),
    solvers=tuple(
        AroundFixedJobs(method)
        for method in (
            CP_SAT,
            BestFitOnDevices(BEST_FIT),
            *map(OnDevices, (*LIST_HEURISTICS, ParameterAssignment())),
            BruteForceOnDevices(ConsolidationBruteForce()),
        )
    ),
    certify=certify,
    diagnose=diagnose,
    quick=(("first-fit-decreasing", {}), ("best-fit", {})),
    more_quick={"leaving jobs where they run": plan_without_moves},
    adapted=earlier_plan,
)
