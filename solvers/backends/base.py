"""The contract of a mixed-integer solver behind PuLP: request, answer, backend.

Libraries in threads: calls that end in time, and global state that threads take in turns.

PyTorch for methods that learn: seeded, and without a trace for others of the process.

It is imported as an untyped module, so that types are checked alike with and without it.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module, util
from typing import Any, NamedTuple, TypeVar

from ...instances.common.errors import ClusterplanError, OutOfTimeError
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


GLOBAL_STATE = threading.RLock()
"""Held while warnings are silenced, or PyTorch's and Optuna's settings are changed."""

T = TypeVar("T")

GRACE, GRACE_S = 0.05, 0.3
"""A library is left, without an answer, this share of its time limit and so many seconds after it."""
LOOK_S = 0.1
"""Seconds between two looks whether a call has ended; Ctrl-C waits for the next."""
LAST_WAIT_S = 10.0
"""Seconds that the interpreter waits at its end for calls that were left behind."""

_left_behind: list[threading.Event] = []


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    """Silence warnings; the filters are those of the whole process, so threads take turns."""
    with GLOBAL_STATE, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@atexit.register
def wait_for_those_left_behind() -> None:
    """Wait for calls that were asked to stop, before the interpreter ends.

    A library that comes back to an interpreter that has ended aborts the process.
    """
    end = time.perf_counter() + LAST_WAIT_S
    for ended in _left_behind:
        ended.wait(max(0.0, end - time.perf_counter()))


def within(clock: Clock, call: Callable[[], T], cancel: Callable[[], None]) -> T | None:
    """Return what a call of a library returns, None where it went on well after its time.

    The call runs in a thread of its own, which is then left behind: what libraries do between two looks at
    their limit can take longer than the limit, and cannot be stopped from outside. In the main thread Ctrl-C
    cancels the call, so that it keeps its plan.

    Parameters
    ----------
    cancel
        Asks the library to stop.
    """
    answers, raised, left = list[T](), list[BaseException](), clock.remaining_s
    ended = threading.Event()

    def run() -> None:
        try:
            answers.append(call())
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that waits
            raised.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, daemon=True).start()
    end = None if left is None else time.perf_counter() + (1 + GRACE) * left + GRACE_S
    # Not `join`: interrupted, it may take a thread for ended that runs (python/cpython#90882).
    while not ended.is_set():
        try:
            wait_s = LOOK_S if end is None else min(LOOK_S, end - time.perf_counter())
            if wait_s < 0:
                _left_behind[:] = [one for one in _left_behind if not one.is_set()] + [ended]
                cancel()
                return None
            ended.wait(wait_s)
        except KeyboardInterrupt:
            cancel()
    if raised:
        raise raised[0]
    return answers[0]


def run_highs(model: Any, clock: Clock) -> bool:
    """Run HiGHS on its model; return whether it ended in time."""
    # Looking for it costs time, and other threads get no Ctrl-C.
    model.HandleUserInterrupt = threading.current_thread() is threading.main_thread()
    return within(clock, model.solve, model.cancelSolve) is not None


LOADING_S = 3.0
"""PyTorch takes up to so many seconds to load, and cannot be interrupted meanwhile."""


def refuse_late_loading(left_s: float | None) -> None:
    """Raise where loading PyTorch takes longer than there is time for.

    Raises
    ------
    OutOfTimeError
        If it is not loaded yet, and less time is left than that may take.
    """
    if left_s is not None and left_s < LOADING_S and "torch" not in sys.modules:
        raise OutOfTimeError("loading PyTorch takes longer than there is time for")


@contextmanager
def one_torch(seed: int, threads: int | None) -> Iterator[None]:
    """Seed PyTorch and set its threads; both are as before at the end, and no other thread's."""
    torch = import_module("torch")
    before = torch.get_num_threads()
    with GLOBAL_STATE, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            torch.set_num_threads(threads or 1)  # on so small a network more threads only wait
            yield
        finally:
            torch.set_num_threads(before)
