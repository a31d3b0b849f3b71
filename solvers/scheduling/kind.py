"""Registration of the solvers of scheduling, of its certificates and of its diagnosis of infeasibility."""

from ..common.kind import SolverKind
from .exact import SchedulingBruteForce, SchedulingExact, certify, diagnose
from .policy_solvers import OPTIMUS_EXACT, POLICIES, LearnedPolicy
from .search.local_search import Price

SCHEDULING = SolverKind(
    exact=SchedulingExact(),
    solvers=(*POLICIES, LearnedPolicy(), Price(), SchedulingBruteForce(), OPTIMUS_EXACT),
    certify=certify,
    diagnose=diagnose,
    quick=(("srsf", {}), ("fifo", {})),
)
