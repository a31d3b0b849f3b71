"""What staging consists of on this floor."""

from ..common.kind import SolverKind
from .certify import certify
from .cp_sat import StagingCpSat
from .diagnose import diagnose
from .graphs.brute_force import BruteForceOnGraphs
from .graphs.dispatch import ExactOnGraphs, OnChains
from .heterps.bayesian import Bayesian
from .heterps.genetic import Genetic
from .heterps.greedy import Greedy
from .heterps.provisioning import WAYS
from .heterps.reinforce import Reinforce
from .heterps.single_type import SingleType

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
