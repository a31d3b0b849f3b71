"""What consolidation consists of on this floor."""

from ..common.kind import SolverKind
from .brute_force import ConsolidationBruteForce
from .certify import certify
from .cp_sat import ConsolidationCpSat
from .diagnose import diagnose
from .exact import ConsolidationExact
from .heuristics.best_fit import BestFit, ConsolidateOrWait
from .heuristics.bin_centric import BinCentric
from .heuristics.first_fit import FirstFit, FirstFitBySum
from .heuristics.scored_fit import BestFitCosine, BestFitDotProduct, BestFitNorm
from .keep_in_place import stay_put

CONSOLIDATION = SolverKind(
    exact=ConsolidationExact(),
    solvers=(
        ConsolidationCpSat(),
        BestFit(),
        FirstFit(),
        ConsolidateOrWait(),
        FirstFitBySum(),
        BestFitNorm(),
        BestFitDotProduct(),
        BestFitCosine(),
        BinCentric(),
        ConsolidationBruteForce(),
    ),
    certify=certify,
    diagnose=diagnose,
    quick=(("first-fit-decreasing", {}), ("best-fit", {})),
    more_quick={"leaving jobs where they run": stay_put},
)
