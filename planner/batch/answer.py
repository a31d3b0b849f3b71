"""The answer of a task; this module imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ...instances.common.base import ProblemKind
    from ...solvers.common.result import Limit


class Head(NamedTuple):
    """What is known of an instance once it is read."""

    instance: str
    kind: ProblemKind
    sha256: str


@dataclass(frozen=True)
class Answer:
    """What comes back of a task, whether or not its worker survived it.

    Attributes
    ----------
    head
        Of the instance, if it was read.
    result
        The result as JSON; a string, because a journal takes it as it is.
    fault, code
        Why there is no result, in words and as an exit code.
    unchanged
        The instance is the one that is solved already.
    ended
        How the worker ended that was killed or died, in words; None if it lives.
    limit
        The hard limit that it was killed for.
    """

    head: Head | None = None
    result: str | None = None
    fault: str | None = None
    code: int = 0
    unchanged: bool = False
    ended: str | None = None
    limit: Limit = "none"
