"""What staging consists of on this floor."""

from ..common.kind import SolverKind
from .brute_force import StagingBruteForce
from .certify import certify
from .cp_sat import StagingCpSat
from .diagnose import diagnose
from .exact import StagingExact
from .heterps.bayesian import Bayesian
from .heterps.genetic import Genetic
from .heterps.greedy import Greedy
from .heterps.provisioning import WAYS
from .heterps.reinforce import Reinforce
from .heterps.single_type import SingleType

STAGING = SolverKind(
    exact=StagingExact(),
    solvers=(
        StagingCpSat(),
        Greedy(),
        SingleType(),
        Genetic(),
        Bayesian(),
        Reinforce("lstm"),
        Reinforce("rnn"),
        StagingBruteForce(),
    ),
    certify=certify,
    diagnose=diagnose,
    quick=tuple((name, {"provisioning": way}) for name in ("single-type", "greedy") for way in WAYS),
)
