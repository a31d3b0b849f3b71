"""Registration of the solvers of scheduling, of its certificates and of its diagnosis of infeasibility."""

from typing import Any

from ..common.base import Solver
from ..common.kind import SolverKind
from .exact import SchedulingBruteForce, SchedulingExact, certify, diagnose
from .policies.optimus import allocation_function
from .policy_solvers import POLICIES, LearnedPolicy, optimus_exact
from .search.local_search import Price


def scheduling(exact: Solver[Any], kind: str) -> SolverKind:
    """Return the registry entry of the scheduling problem: its solvers, certification and diagnosis.

    Parameters
    ----------
    exact, kind
        The exact solver of allocation and the name of that kind, which only the registry knows.
    """
    proven = optimus_exact(allocation_function(exact, kind))
    return SolverKind(
        exact=SchedulingExact(proven),
        solvers=(*POLICIES, LearnedPolicy(), Price(), SchedulingBruteForce(), proven),
        certify=certify,
        diagnose=diagnose,
        quick=(("srsf", {}), ("fifo", {})),
    )
