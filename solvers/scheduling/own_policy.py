"""From a policy of one's own to a solver: what packages of other people register.

A policy that comes this way never gets the instance. It is made from its settings alone, and learns of the
trace through `Seen`, which holds what it said that it knows of jobs that have arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..common.base import MethodOption
from .policy import Policy
from .policy_solvers import PolicySolver


def policy_solver(
    name: str,
    what: str,
    make: Callable[[Mapping[str, Any]], Policy],
    options: Mapping[str, MethodOption] | None = None,
) -> PolicySolver:
    """Return the solver that simulates a policy.

    Parameters
    ----------
    name
        Of the solver; no other may have it.
    what
        One line for people; what the policy knows is added.
    make
        Returns a new policy for the settings of one solve.
    options
        Its named settings. Where jobs are placed on servers is one of every policy.
    """
    defaults = {key: option.default for key, option in (options or {}).items()}
    return PolicySolver(name, what, make(defaults).knows, lambda _, settings: make(settings), options)
