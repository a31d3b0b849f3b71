"""What scheduling consists of on this floor."""

from typing import Any

from ..common.base import Solver
from ..common.kind import SolverKind
from .exact import SchedulingBruteForce, SchedulingExact, certify, diagnose
from .policies.dl2_solver import LearnedPolicy
from .policies.optimus import allocation_by
from .policy_solvers import POLICIES, optimus_exact
from .search.local_search import Price


def scheduling(exact: Solver[Any], kind: str) -> SolverKind:
    """Return how scheduling is solved.

    Parameters
    ----------
    exact, kind
        The exact method of allocation and the name of that kind, which the registry alone knows.
    """
    proven = optimus_exact(allocation_by(exact, kind))
    return SolverKind(
        exact=SchedulingExact(proven),
        solvers=(*POLICIES, LearnedPolicy(), Price(), SchedulingBruteForce(), proven),
        certify=certify,
        diagnose=diagnose,
        quick=(("srsf", {}), ("fifo", {})),
    )
