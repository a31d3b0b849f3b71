"""What scheduling consists of on this floor."""

from ..common.kind import SolverKind
from .brute_force import SchedulingBruteForce
from .certify import certify, diagnose
from .exact import SchedulingExact
from .methods import POLICIES

SCHEDULING = SolverKind(
    exact=SchedulingExact(),
    solvers=(*POLICIES, SchedulingBruteForce()),
    certify=certify,
    diagnose=diagnose,
    quick=(("srsf", {}), ("fifo", {})),
)
