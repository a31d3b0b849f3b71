"""The record of one solver on one source."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...solvers.common.result import Result
from ..exit_codes import code_of_result


@dataclass(frozen=True)
class Record:
    """One line of a batch: the result, or why there is none.

    Attributes
    ----------
    source
        File, `example:NAME`, or the name of an instance that was given as such.
    solver
        The name that was asked for.
    result
        None if the instance could not be read or the solver could not be run at all; a solve that
        crashed or was killed has a result that says so.
    fault
        Why there is no result.
    code
        The exit code that goes with it.
    seconds
        From start to end, with reading and checking.
    """

    source: str
    solver: str
    result: Result | None = None
    fault: str | None = None
    code: int = 0
    seconds: float = field(default=0.0, compare=False)

    def light(self) -> Record:
        """Return the record without plan, certificate and trace, since many records are kept."""
        if self.result is None:
            return self
        plan = None if self.result.plan is None else ()
        small = self.result.model_copy(update={"plan": plan, "certificate": None, "trace": ()})
        return replace(self, result=small)

    @classmethod
    def of(cls, source: str, solver: str, result: Result, seconds: float) -> Record:
        """Return the record of a result."""
        return cls(source, solver, result, None, code_of_result(result), seconds)
