"""The interface of a mixed-integer solver behind PuLP, and calls of libraries with a deadline.

A model with several objectives is solved lexicographically: each is fixed at its optimum before the next.

Also locks for process-wide settings of libraries, and seeding of PyTorch, which is imported as an untyped
module, so that types are checked alike with and without it.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module, metadata, util
from typing import Any, NamedTuple, TypeVar

from ...formulations.common.formulation import AnyFormulation
from ...instances.common.errors import ClusterplanError, OutOfTimeError
from ..common.base import Clock, Feature, Outcome
from ..common.result import Limit, SolveOptions


class BackendError(ClusterplanError):
    """Raised if a backend fails for another reason than a limit."""


@dataclass(frozen=True)
class Answer:
    """The result of optimising one objective: values of the variables, bound, and limit that stopped it.

    Attributes
    ----------
    values
        Returns the value of a variable; None if no solution was found.
    bound
        Proven bound on the objective, None if unknown.
    """

    values: Callable[[Any], float] | None = None
    bound: float | None = None
    limit: Limit = "none"
    infeasible: bool = False


class RunEnd(NamedTuple):
    """How a library's run ended: with a solution, with a proof of infeasibility, or at a limit."""

    found: bool
    infeasible: bool
    limit: Limit


class Backend(ABC):
    """A mixed-integer solver that minimises the objective of a PuLP problem.

    Attributes
    ----------
    package
        Module of its library and name of the package; what to install where that is something else.
    largest_entry
        Largest coefficient of a row at which its tolerances exceed the rounding of sums.
    """

    name: str
    title: str
    package: tuple[str, ...]
    features: frozenset[Feature] = frozenset({"warm_start", "backend_options"})
    largest_entry: float = math.inf

    def unavailable(self) -> str | None:
        """Return why the backend cannot be used here and how to fix it; None if it can."""
        return missing_package_text(*self.package)

    def version(self) -> str:
        """Return the version of the library."""
        return metadata.version(self.package[0])

    @abstractmethod
    def minimise(
        self, problem: Any, options: SolveOptions, clock: Clock, start: Mapping[Any, float] | None = None
    ) -> Answer:
        """Minimise the problem's objective within the limits of options and clock, from start values."""


def missing_package_text(module: str, package: str, wanted: str | None = None) -> str | None:
    """Return an error text if a module is missing, with the package (or `wanted`) to install; else None."""
    if util.find_spec(module) is not None:
        return None
    return f"{package} is not installed; pip install {wanted or package}"


GLOBAL_STATE = threading.RLock()
"""Lock for changes of process-wide settings: warning filters, and those of PyTorch and Optuna."""

T = TypeVar("T")

GRACE, GRACE_S = 0.05, 0.3
"""A call is abandoned this share of its time limit and so many seconds after the limit."""
POLL_INTERVAL_S = 0.1
"""Seconds between two checks whether a call has ended; Ctrl-C takes effect at the next."""
EXIT_WAIT_S = 10.0
"""Seconds that the interpreter waits at exit for abandoned calls."""

_abandoned_calls: list[threading.Event] = []


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    """Suppress warnings inside the block; a lock protects the filters, which the process shares."""
    with GLOBAL_STATE, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@atexit.register
def wait_for_abandoned_calls() -> None:
    """Wait at interpreter exit for abandoned calls that were asked to stop.

    A library call that returns after the interpreter has ended would abort the process.
    """
    end = time.perf_counter() + EXIT_WAIT_S
    for ended in _abandoned_calls:
        ended.wait(max(0.0, end - time.perf_counter()))


def call_with_deadline(clock: Clock, call: Callable[[], T], cancel: Callable[[], None]) -> T | None:
    """Return the result of a library call, or None if the call exceeds its deadline.

    The call runs in a separate thread, which is abandoned at the deadline: a library can exceed its limit
    between two checks of it, and cannot be stopped from outside. In the main thread Ctrl-C cancels the call,
    so that it keeps its plan.

    Parameters
    ----------
    cancel
        Function that asks the library to stop.
    """
    results, raised, remaining_s = list[T](), list[BaseException](), clock.remaining_s
    finished = threading.Event()

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that waits
            raised.append(error)
        finally:
            finished.set()

    threading.Thread(target=run, daemon=True).start()
    end = None if remaining_s is None else time.perf_counter() + (1 + GRACE) * remaining_s + GRACE_S
    # Not `join`: interrupted, it may take a thread for ended that runs (python/cpython#90882).
    while not finished.is_set():
        try:
            wait_s = POLL_INTERVAL_S if end is None else min(POLL_INTERVAL_S, end - time.perf_counter())
            if wait_s < 0:
                _abandoned_calls[:] = [one for one in _abandoned_calls if not one.is_set()] + [finished]
                cancel()
                return None
            finished.wait(wait_s)
        except KeyboardInterrupt:
            cancel()
    if raised:
        raise raised[0]
    return results[0]


def run_highs(model: Any, clock: Clock) -> bool:
    """Run HiGHS on its model; return whether it ended before its deadline."""
    # Looking for it costs time, and other threads get no Ctrl-C.
    model.HandleUserInterrupt = threading.current_thread() is threading.main_thread()
    return call_with_deadline(clock, model.solve, model.cancelSolve) is not None


TORCH_LOADING_S = 3.0
"""Seconds that loading PyTorch takes at most; it cannot be interrupted."""


def check_time_to_load_torch(left_s: float | None) -> None:
    """Raise `OutOfTimeError` if the remaining time is too short to load PyTorch.

    Raises
    ------
    OutOfTimeError
        If it is not loaded yet, and less time is left than that may take.
    """
    if left_s is not None and left_s < TORCH_LOADING_S and "torch" not in sys.modules:
        raise OutOfTimeError("loading PyTorch takes longer than there is time for")


@contextmanager
def seeded_torch(seed: int, threads: int | None) -> Iterator[None]:
    """Seed PyTorch and set its threads inside the block, under a lock; restore both afterwards."""
    torch = import_module("torch")
    previous_threads = torch.get_num_threads()
    with GLOBAL_STATE, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            torch.set_num_threads(threads or 1)  # on so small a network more threads only wait
            yield
        finally:
            torch.set_num_threads(previous_threads)


class LexicographicSearch(ABC):
    """Optimises the objectives of a model on one library, in their order.

    Parameters
    ----------
    model
        Has `objectives`, and `decode`, which turns a function from variable to value into a plan.
    """

    def __init__(self, model: Any, options: SolveOptions, clock: Clock) -> None:
        self.model, self.options, self.clock = model, options, clock

    @abstractmethod
    def optimise(self, target: Any, plan: Sequence[Any] | None) -> Answer:
        """Optimise an objective, from a plan if there is one; the bound is in the plan's unit."""

    @abstractmethod
    def fix(self, target: Any, value: float, values: Callable[[Any], Any] | None) -> None:
        """Constrain an objective to a value of the plan's objective.

        Parameters
        ----------
        values
            Returns the value of a variable, from which a library may read the objective exactly; None for an
            objective that was settled before.
        """

    def run(self, formulation: AnyFormulation, backend: str, settled: Sequence[float] = ()) -> Outcome:
        """Optimise one objective after another; return the outcome with plan and bounds.

        Parameters
        ----------
        backend
            The library with its version.
        settled
            Values of the first objectives, which are fixed; no bounds are returned for them.
        """
        bounds: list[float | None] = [None] * len(settled)
        outcome = Outcome(bounds=bounds, backend=backend, build_s=self.clock.elapsed_s)
        if self.options.warm_start is not None:
            outcome.plan = formulation.parse_plan(self.options.warm_start)
        for target, value in zip(self.model.objectives, settled, strict=False):
            self.fix(target, value, None)
        for index, target in list(enumerate(self.model.objectives))[len(settled) :]:
            if self.clock.expired:
                outcome.limit = "time"
                break
            try:
                answer = self.optimise(target, outcome.plan)
            except OutOfTimeError:  # there is no time to give the library the model
                outcome.limit = "time"
                break
            outcome.limit = answer.limit
            if answer.infeasible:
                outcome.infeasible = index == 0
                outcome.plan = outcome.plan if index else None
                break
            bounds.append(answer.bound)
            if answer.values is None:
                break
            with Clock().enforced():  # a plan that was found is not lost, however late it is
                outcome.plan = self.model.decode(answer.values)
                if formulation.violations(outcome.plan):
                    break  # the caller reports which
                value = formulation.evaluate(outcome.plan)[index]
            outcome.trace.append((self.clock.elapsed_s, value, answer.bound))
            gap = target.objective.gap(value, answer.bound)
            if outcome.limit != "none" and (gap is None or gap > self.options.gap):
                break
            self.fix(target, value, answer.values)
        return outcome
