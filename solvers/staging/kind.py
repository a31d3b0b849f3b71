"""Registration of the solvers of staging, of its certificates and of its diagnosis of infeasibility."""

from ..common.kind import SolverKind
from .brute_force import BruteForceOnGraphs
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
        OnChains(StagingCpSat()),
        OnChains(Greedy()),
        OnChains(SingleType()),
        OnChains(Genetic()),
        OnChains(Bayesian()),
        OnChains(Reinforce("lstm")),
        OnChains(Reinforce("rnn")),
        BruteForceOnGraphs(),
    ),
    certify=certify,
    diagnose=diagnose,
    quick=tuple((name, {"provisioning": way}) for name in ("single-type", "greedy") for way in WAYS),
)
