"""What scheduling consists of on this floor."""

from ..common.kind import SolverKind
from .brute_force import SchedulingBruteForce
from .certify import certify, diagnose
from .dl2.solver import LearnedPolicy
from .exact import SchedulingExact
from .methods import POLICIES
from .search.price import Price

SCHEDULING = SolverKind(
    exact=SchedulingExact(),
    solvers=(*POLICIES, LearnedPolicy(), Price(), SchedulingBruteForce()),
    certify=certify,
    diagnose=diagnose,
    quick=(("srsf", {}), ("fifo", {})),
)
