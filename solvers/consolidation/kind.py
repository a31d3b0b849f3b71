"""The solvers of consolidation: exact method, list heuristics, certification and diagnosis."""

from ..common.kind import SolverKind
from .brute_force import ConsolidationBruteForce
from .cp_sat import ConsolidationCpSat
from .devices.exact import (
    BestFitOnDevices,
    BruteForceOnDevices,
    ExactOnDevices,
    OnDevices,
    certify_with,
    diagnose_with,
    search_with,
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
    WhereNothingMoves,
    certify_around,
    diagnose_around,
    search_around,
    stay_put,
)

CONSOLIDATION = SolverKind(
    exact=AroundFixedJobs(WhereNothingMoves(ExactOnDevices(ConsolidationExact()))),
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
    certify=certify_around(certify_with(certify)),
    diagnose=diagnose_around(diagnose_with(diagnose)),
    quick=(("first-fit-decreasing", {}), ("best-fit", {})),
    more_quick={"leaving jobs where they run": search_around(search_with(stay_put))},
)
