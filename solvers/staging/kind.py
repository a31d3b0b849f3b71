"""Registration of the solvers of staging, of its certificates and of its diagnosis of infeasibility."""

from ..common.kind import SolverKind
from .brute_force import StagingBruteForce
from .cp_sat import StagingCpSat
from .diagnose import diagnose
from .exact import certify
from .graph_exact import ExactOnGraphs, OnChains
from .heterps.provisioning import WAYS
from .heterps.reinforce import Reinforce
from .heterps.type_search import Bayesian, Genetic, Greedy, SingleType

STAGING = SolverKind(
    exact=ExactOnGraphs(),
    solvers=(
        *map(
            OnChains,
            (
                StagingCpSat(),
                Greedy(),
                SingleType(),
                Genetic(),
                Bayesian(),
                Reinforce("lstm"),
                Reinforce("rnn"),
            ),
        ),
        StagingBruteForce(),
    ),
    certify=certify,
    diagnose=diagnose,
    quick=tuple((name, {"provisioning": way}) for name in ("single-type", "greedy") for way in WAYS),
)
