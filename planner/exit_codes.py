"""Exit codes of the command line, and their order of severity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..instances.common.errors import (
    ClusterplanError,
    InstanceError,
    OptionError,
    RefusedError,
    UnavailableError,
)

if TYPE_CHECKING:
    from ..solvers.common.result import AnyFrontier, Result
    from .findings import Verification

SOLVED, FAILED, USAGE, BAD_INSTANCE, INFEASIBLE = range(5)
LIMIT_WITH_PLAN, LIMIT_NO_PLAN, NOT_VERIFIED, CLAIMED = range(5, 9)
INTERRUPTED = 130
SEVERITY = (
    SOLVED,
    LIMIT_WITH_PLAN,
    LIMIT_NO_PLAN,
    INFEASIBLE,
    BAD_INSTANCE,
    USAGE,
    CLAIMED,
    NOT_VERIFIED,
    FAILED,
    INTERRUPTED,
)
"""Exit codes in ascending severity; a run over several files ends with the most severe one."""


def worst(codes: Iterable[int]) -> int:
    """Return the most severe of several exit codes of the command line; `SOLVED` if there are none."""
    return max(codes, key=SEVERITY.index, default=SOLVED)


def code_of_error(error: ClusterplanError) -> int:
    """Return the exit code of the command line for an error."""
    if isinstance(error, InstanceError):
        return BAD_INSTANCE
    if isinstance(error, RefusedError):
        return INFEASIBLE
    return USAGE if isinstance(error, OptionError | UnavailableError) else FAILED


def code_of_frontier(frontier: AnyFrontier) -> int:
    """Return the exit code of the command line for a frontier, by its status and limit."""
    if frontier.status == "infeasible":
        return INFEASIBLE
    if frontier.limit == "interrupt":
        return INTERRUPTED
    if frontier.status == "partial":
        return LIMIT_WITH_PLAN if frontier.points else LIMIT_NO_PLAN
    return SOLVED


def code_of_result(result: Result) -> int:
    """Return the exit code of the command line for a result, by its status and limit."""
    if result.status == "error":
        return FAILED
    if result.status == "infeasible":
        return INFEASIBLE
    if result.limit == "interrupt":
        return INTERRUPTED
    if result.plan is None:
        return LIMIT_NO_PLAN
    # An optimum that was proven just as the limit was hit is an optimum.
    return SOLVED if result.limit == "none" or result.status == "optimal" else LIMIT_WITH_PLAN


def code_of_verification(verification: Verification, accept_claimed: bool = False) -> int:
    """Return the exit code of the command line for a verification."""
    if not verification.ok:
        return NOT_VERIFIED
    return SOLVED if verification.complete or accept_claimed else CLAIMED
