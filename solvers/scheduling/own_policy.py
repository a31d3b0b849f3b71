"""Solvers from scheduling policies that other packages define.

Such a policy never gets the instance. It is made from its settings alone, and reads the trace through a
`View`, which shows of the jobs that have arrived what the policy declares in `knows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..common.base import MethodOption
from .policies.contract import Policy
from .policy import Policy as PolicyOfBefore
from .policy_solvers import PolicySolver


def policy_solver(
    name: str,
    what: str,
    make: Callable[[Mapping[str, Any]], Policy | PolicyOfBefore],
    options: Mapping[str, MethodOption] | None = None,
) -> PolicySolver:
    """Return the solver that simulates a policy of another package, with its options.

    Parameters
    ----------
    name
        Unique name of the solver.
    what
        One-line description, to which the policy's knowledge is appended.
    make
        Returns a new policy for the settings of one solve.
    options
        The policy's named settings; placement on servers is added to those of every policy.
    """
    defaults = {key: option.default for key, option in (options or {}).items()}
    return PolicySolver(name, what, make(defaults).knows, lambda _, settings: make(settings), options)
