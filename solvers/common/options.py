"""Options of a solve: limits, gap, threads, seed, and named settings."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from ...instances.common.errors import InstanceError, OptionError
from ...instances.common.faults import validated
from ...instances.common.fields import Count, Many, Model, NonNegative, Positive, PositiveCount

DEFAULT_GAP = 1e-6


def _as_data(plan: Any) -> Any:
    """Return the entries of a plan as plain data."""
    if not isinstance(plan, list | tuple):
        return plan
    return [entry.model_dump(mode="json") if isinstance(entry, BaseModel) else entry for entry in plan]


class SolveOptions(Model):
    """Limits and settings of one solve; a field that is None leaves the solver's own default.

    A method that cannot honour a field that is set refuses it with an `OptionError`.

    Attributes
    ----------
    time_limit_s
        Wall-clock seconds, for building and solving together.
    gap
        Relative gap at which a plan counts as optimal; below 1, for at 1 anything would.
    threads
        Most threads that may be used.
    seed
        Of everything random; the same seed and as many threads give the same answer.
    memory_limit_gib
        Most memory that the backend may take.
    warm_start
        A feasible plan to start from: the plan of a result, or the same as plain data.
    method_options, backend_options
        Named settings of the method, and of the library it calls, as that library names them.
    """

    time_limit_s: Positive | None = None
    gap: Annotated[NonNegative, Field(lt=1)] = DEFAULT_GAP
    threads: PositiveCount | None = None
    seed: Count | None = None
    memory_limit_gib: Positive | None = None
    warm_start: Annotated[Many[dict[str, Any]] | None, BeforeValidator(_as_data)] = None
    method_options: dict[str, Any] = {}
    backend_options: dict[str, Any] = {}


def parse_options(data: dict[str, Any]) -> SolveOptions:
    """Return options from plain data.

    Raises
    ------
    OptionError
        If a field is unknown or has a value that is not allowed.
    """
    try:
        return validated(SolveOptions, data, "options")
    except InstanceError as error:
        raise OptionError(str(error)) from None
