"""The contract of a mixed-integer solver behind PuLP: request, answer, backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import util
from typing import Any, NamedTuple

from ...instances.common.errors import ClusterplanError
from ..common.base import Clock, Feature
from ..common.result import Limit


class BackendError(ClusterplanError):
    """A backend failed in a way that is neither a limit nor an answer."""


@dataclass(frozen=True)
class Request:
    """What a backend is asked: limits and settings, None for its own default; start values if any."""

    clock: Clock = field(default_factory=Clock)
    gap: float = 0.0
    threads: int | None = None
    seed: int | None = None
    memory_limit_gib: float | None = None
    start: Mapping[Any, float] | None = None
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Answer:
    """What a backend answers to a minimisation.

    Attributes
    ----------
    values
        Value of each variable by name; None if no solution was found.
    bound
        Proven lower bound on the objective, None if unknown.
    """

    values: Mapping[str, float] | None
    bound: float | None
    limit: Limit = "none"
    infeasible: bool = False


class Ending(NamedTuple):
    """How a run of a library ended: whether it found a plan, proved that there is none, or met a limit."""

    found: bool
    infeasible: bool
    limit: Limit


class Backend(ABC):
    """A mixed-integer solver; `minimise` solves a PuLP problem whose sense is to minimise."""

    name: str
    title: str
    features: frozenset[Feature] = frozenset({"warm_start", "backend_options"})

    @abstractmethod
    def unavailable(self) -> str | None:
        """Return why it cannot be used here and how to mend it; None if it can."""

    @abstractmethod
    def version(self) -> str:
        """Return the version of the library."""

    @abstractmethod
    def minimise(self, problem: Any, request: Request) -> Answer:
        """Solve the problem."""


def installed(module: str, package: str, wanted: str | None = None) -> str | None:
    """Return why a library cannot be used, and that it or what is `wanted` is to be installed; else None."""
    if util.find_spec(module) is not None:
        return None
    return f"{package} is not installed; pip install {wanted or package}"
