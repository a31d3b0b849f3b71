"""The interface of a solver: formulation, options and clock in; plan and proven bounds out.

A solver never says "optimal". `run.py` recomputes the objective of its plan, verifies every constraint and
concludes the status from the bounds (`conclude.py`).

`PresolvingSolver` is the base of presolving wrappers around a method, `BruteForce` that of the enumeration of
all plans of each kind, up to a limit of its size.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from ...formulations.common.clock import Clock
from ...formulations.common.formulation import AnyFormulation
from ...formulations.common.objective import Bounds
from ...instances.common.errors import OptionError, TooLargeError
from ...instances.common.fields import Fields
from .result import Limit, SolveOptions

__all__ = ["Clock", "Feature", "MethodOption", "Outcome", "Solver"]

Feature = Literal["memory_limit", "warm_start", "backend_options"]


Trace = list[tuple[float, float | None, float | None]]
"""Seconds since the start, value and bound, each time one of these improves."""


@dataclass
class Outcome:
    """The outcome of a solver: plan, proven bounds, limit that stopped it, and certificate.

    Attributes
    ----------
    plan
        A plan, which will be verified; None if none was found.
    bounds
        For each objective a proven bound on its optimum given the earlier ones, None where unknown;
        may be shorter than the list of objectives.
    infeasible
        Whether it was proven that no plan exists.
    doubtful
        Whether what was proven may be wrong by a library's tolerances, so that only what is certified counts.
    failed
        Whether a backend failed; `message` says how.
    prices
        Of a method without certificates; from a certificate they are derived.
    cuts
        Price of each resource in each cutting plane, where `keep_cuts` asks for them.
    """

    plan: Sequence[Any] | None = None
    bounds: Bounds = ()
    limit: Limit = "none"
    infeasible: bool = False
    doubtful: bool = False
    failed: bool = False
    backend: str | None = None
    build_s: float = 0.0
    message: str | None = None
    prices: dict[str, float] | None = None
    certificate: Fields | None = None
    cuts: list[dict[str, float]] | None = None
    trace: Trace = field(default_factory=list)


@dataclass(frozen=True)
class MethodOption:
    """A named setting of a method, with its default value (which fixes the type) and a help text.

    Attributes
    ----------
    choices
        The values that are allowed; any of the type if there are none.
    least
        The smallest number that is allowed; any if None.
    form
        How a text is written, with its unit.
    """

    default: bool | int | float | str
    what: str
    choices: tuple[bool | int | float | str, ...] = ()
    least: float | None = None
    form: str = ""

    @property
    def allowed(self) -> str:
        """Description of the option's allowed values, as text."""
        if self.form:
            return self.form
        if self.choices:
            return " or ".join(map(str, self.choices))
        words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        least = "" if self.least is None else f", {self.least:g} or more"
        return words[type(self.default)] + least

    def fault(self, value: Any) -> str | None:
        """Return the rule that a value of this option violates (`must be finite`); None if it is allowed."""
        has_type = isinstance(value, type(self.default)) and isinstance(value, bool) == isinstance(
            self.default, bool
        )
        if not has_type and not (isinstance(self.default, float) and type(value) is int):
            return f"must be a {type(self.default).__name__}"
        if isinstance(value, float) and not math.isfinite(value):
            return "must be finite"
        if self.choices and value not in self.choices:
            return f"must be {' or '.join(map(repr, self.choices))}"
        if self.least is not None and not value >= self.least:
            return f"must be {self.least:g} or more"
        return None


FormulationT_contra = TypeVar("FormulationT_contra", bound=AnyFormulation, contravariant=True)


class Solver(ABC, Generic[FormulationT_contra]):
    """Abstract base of solution methods, generic in the formulation that they take.

    Attributes
    ----------
    name
        `METHOD` or `METHOD:BACKEND`.
    kinds
        The kinds it can solve.
    proves
        Whether it can prove optimality.
    features
        Supported options beyond time limit, gap, threads and seed.
    method_options
        Its named settings.
    what
        Description in one line.
    """

    name: str
    kinds: tuple[str, ...]
    proves: bool = False
    features: frozenset[Feature] = frozenset()
    method_options: ClassVar[Mapping[str, MethodOption]] = {}
    what: str = ""

    def unavailable(self) -> str | None:
        """Return why the solver cannot be used here and how to fix it; None if it can."""
        return None

    @abstractmethod
    def solve(self, formulation: FormulationT_contra, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the outcome of solving a formulation; the options have been checked before.

        Counting alone has not proven infeasibility.
        """

    def check_options(self, options: SolveOptions) -> None:
        """Raise `OptionError` if an option is set that this method does not support.

        Raises
        ------
        OptionError
            With the name of the option and the allowed values.
        """
        set_options = {
            "memory_limit": options.memory_limit_gib is not None,
            "warm_start": options.warm_start is not None,
            "backend_options": bool(options.backend_options),
        }
        for feature, wanted in set_options.items():
            if wanted and feature not in self.features:
                raise OptionError(
                    f"solver {self.name!r} does not support {feature.replace('_', ' ')}; leave it out"
                )
        for key, value in options.method_options.items():
            known = self.method_options.get(key)
            if known is None:
                names = ", ".join(self.method_options) or "none"
                raise OptionError(f"solver {self.name!r} has no option {key!r}; its options: {names}")
            fault = known.fault(value)
            if fault:
                raise OptionError(f"option {key!r} of {self.name!r} is {value!r}; it {fault}")

    def setting(self, options: SolveOptions, key: str) -> Any:
        """Return the value of a method option by name: as set in the options, or its default."""
        return options.method_options.get(key, self.method_options[key].default)


class PresolvingSolver(Solver[FormulationT_contra]):
    """A solver that wraps a method and shares its name, settings and features."""

    def __init__(self, method: Solver[Any]) -> None:
        self.method = method
        self.kinds = method.kinds
        self.name, self.proves, self.what = method.name, method.proves, method.what
        self.features = method.features

    @property
    def method_options(self) -> Mapping[str, Any]:  # type: ignore[override]  # of the instance, not the class
        """Settings of the wrapped method."""
        return self.method.method_options

    def unavailable(self) -> str | None:
        """Return why the wrapped method cannot be used; None if it can."""
        return self.method.unavailable()

    def check_options(self, options: SolveOptions) -> None:
        """Raise `OptionError` if an option is set that the wrapped method does not support."""
        self.method.check_options(options)


MAX_DECISIONS = 200
"""Largest number of decisions; each is a recursive call, and Python limits their depth."""


def refuse_many(count: int, what: str) -> None:
    """Raise `TooLargeError` if an instance has too many decisions to be enumerated.

    Raises
    ------
    TooLargeError
        If the count exceeds the limit.
    """
    if count > MAX_DECISIONS:
        raise TooLargeError(
            f"brute-force is for tiny instances: there are {count:,} {what}, and at most {MAX_DECISIONS} are "
            "allowed; use --solver exact"
        )


class Enumeration:
    """State of an enumeration: the incumbent, and whether the time limit stopped it."""

    def __init__(self, formulation: AnyFormulation, clock: Clock) -> None:
        self.formulation, self.clock = formulation, clock
        self.best: tuple[tuple[float, ...], Sequence[Any]] | None = None
        self.out_of_time = False

    def over(self) -> bool:
        """Return whether the time limit is reached, so that the enumeration has to stop."""
        self.out_of_time = self.out_of_time or self.clock.expired
        return self.out_of_time

    def judge(self, plan: Sequence[Any]) -> None:
        """Update the incumbent if a complete plan is feasible and lexicographically better."""
        if not self.formulation.violations(plan):
            values = self.formulation.evaluate(plan)
            if self.best is None or self.formulation.precedes(values, self.best[0]):
                self.best = values, tuple(plan)


class BruteForce(Solver[FormulationT_contra]):
    """Enumerates all plans of an instance, or as many as the time limit allows."""

    name = "brute-force"
    proves = True

    @abstractmethod
    def enumerate(self, formulation: FormulationT_contra, search: Enumeration) -> None:
        """Pass every plan that may be optimal to `search.judge`."""

    def solve(self, formulation: FormulationT_contra, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the optimal plan with its values as bounds, or the best one within the time limit."""
        del options
        return self.outcome(formulation, Enumeration(formulation, clock))

    def outcome(self, formulation: FormulationT_contra, search: Enumeration) -> Outcome:
        """Return the outcome of an enumeration, after running it."""
        self.enumerate(formulation, search)
        if search.best is None:
            return Outcome(limit="time") if search.out_of_time else Outcome(infeasible=True)
        values, plan = search.best
        return Outcome(plan, limit="time") if search.out_of_time else Outcome(plan, values)
