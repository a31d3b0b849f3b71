"""Registration of the solvers of consolidation: exact, heuristic; of its certificates and its diagnosis."""

from ..common.kind import SolverKind
from .brute_force import ConsolidationBruteForce
from .cp_sat import ConsolidationCpSat
from .devices.exact import (
    BestFitOnDevices,
    BruteForceOnDevices,
    ExactOnDevices,
    OnDevices,
    certify_with_devices,
    diagnose_with_devices,
    search_with_devices,
)
from .exact import ConsolidationExact, certify, diagnose
from .heuristics.list_heuristics import (
    BestFit,
    BestFitCosine,
    BestFitDotProduct,
    BestFitNorm,
    BinCentric,
    ConsolidateOrWait,
    FirstFit,
    FirstFitBySum,
)
from .presolve import (
    AroundFixedJobs,
    WithoutMovesFirst,
    certify_with_fixed_jobs,
    diagnose_with_fixed_jobs,
    plan_without_moves,
    search_with_fixed_jobs,
)

CONSOLIDATION = SolverKind(
    exact=AroundFixedJobs(WithoutMovesFirst(ExactOnDevices(ConsolidationExact()))),
    solvers=tuple(
        AroundFixedJobs(method)
        for method in (
            ConsolidationCpSat(),
            BestFitOnDevices(BestFit()),
            OnDevices(FirstFit()),
            OnDevices(ConsolidateOrWait()),
            OnDevices(FirstFitBySum()),
            OnDevices(BestFitNorm()),
            OnDevices(BestFitDotProduct()),
            OnDevices(BestFitCosine()),
            OnDevices(BinCentric()),
            BruteForceOnDevices(ConsolidationBruteForce()),
        )
    ),
    certify=certify_with_fixed_jobs(certify_with_devices(certify)),
    diagnose=diagnose_with_fixed_jobs(diagnose_with_devices(diagnose)),
    quick=(("first-fit-decreasing", {}), ("best-fit", {})),
    more_quick={
        "leaving jobs where they run": search_with_fixed_jobs(search_with_devices(plan_without_moves))
    },
)
