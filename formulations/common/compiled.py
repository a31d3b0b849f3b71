"""Compilation of loops by numba, deferred until the loops take long; it costs seconds once on a machine.

The Python interpreter runs them while that is quicker: on little data, until they have taken some time. The
numbers are the same to the last bit, so that only the time depends on which of the two ran a loop.
Numba is imported with the first compilation; what it compiles is kept on disk, and the time counts against
the enforced clock.

A damaged file on disk costs a compilation, never the result. Numba keeps an index (`.nbi`)
and the code (`.nbc`) of each function, and trusts both: of a file that was cut or overwritten it raises
whatever reading it raises, at every later call, and it runs damaged machine code.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import pickle
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from ...instances.common.errors import OutOfTimeError
from .clock import time_left_s, with_value

AnyFunction = Callable[..., Any]
Arguments = tuple[Any, ...]


class _ChecksummedCode:
    """Numba serialiser that adds a digest to compiled code, so that damaged code is detected before use.

    Parameters
    ----------
    plain
        Numba's own serialiser of a function's code.
    """

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self.locator, self.check_cachable = plain.locator, plain.check_cachable

    def reduce(self, result: Any) -> tuple[bytes, bytes]:
        """Return the SHA-256 digest and the serialised machine code of a compiled function."""
        from numba.core.serialize import dumps

        code = dumps(self._plain.reduce(result))
        return hashlib.sha256(code).digest(), code

    def rebuild(self, target: Any, kept: tuple[bytes, bytes]) -> Any:
        """Return the compiled code from its digest and serialised form; raise an error if damaged."""
        digest, code = kept
        if hashlib.sha256(code).digest() != digest:
            raise ValueError("the code kept on disk is damaged")
        return self._plain.rebuild(target, pickle.loads(code))  # noqa: S301 - as numba does with the file


class CodeCache:
    """On-disk cache of the compiled code of one function, as numba uses it.

    Parameters
    ----------
    function
        A `RuntimeError` is raised where no folder can hold its code.
    sources
        Files of it and of its callees, as numba asks for changes of the function's own file alone.
    """

    def __init__(self, function: AnyFunction, sources: Iterable[str] = ()) -> None:
        from numba.core.caching import FunctionCache

        self._files = FunctionCache(function)
        digests = [hashlib.sha256(Path(source).read_bytes()).digest() for source in sorted(sources)]
        self._files._cache_file._source_stamp = (self._files._cache_file._source_stamp, digests)
        self._files._impl = _ChecksummedCode(self._files._impl)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the cached code for a signature; None if it is missing or damaged."""
        try:
            return self._files.load_overload(signature, target)
        except Exception:  # noqa: BLE001 - a damaged file raises whatever its bytes happen to mean
            # An empty index lets sound files replace the damaged ones.
            with suppress(Exception):
                self._files.flush()
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Save the compiled code for a signature on disk where that is possible."""
        with suppress(Exception):  # a full disk, a folder in place of a file: the code is there all the same
            self._files.save_overload(signature, result)


FunctionT = TypeVar("FunctionT", bound=AnyFunction)

MAX_INTERPRETED_ENTRIES = 20_000
"""Maximum number of array entries for which a loop is interpreted; with more it is compiled at once."""
MAX_INTERPRETED_S = 0.5
"""Processor time of a function in the interpreter before it is compiled; later processes gain too."""
CACHE_LOOKUP_AFTER_S = 0.1
"""Processor time of a function after which numba is imported and its code is looked up on disk."""

CompileCallback = Callable[[bool], None]
"""Callback that receives True before a function is compiled or loaded, and False afterwards."""

_interprets_all: ContextVar[bool] = ContextVar("interprets", default=False)
_compile_callback: ContextVar[CompileCallback | None] = ContextVar("watcher", default=None)


def interpreted() -> AbstractContextManager[None]:
    """Run all loops inside the block in the Python interpreter, in this thread, compiled or not."""
    return with_value(_interprets_all, True)


def compile_listener(watcher: CompileCallback) -> AbstractContextManager[None]:
    """Call a listener before and after the compilation of functions inside the block, in this thread."""
    return with_value(_compile_callback, watcher)


@contextmanager
def _notified_compilation() -> Iterator[None]:
    watcher = _compile_callback.get()
    if watcher is None:
        yield
        return
    watcher(True)
    try:
        yield
    finally:
        watcher(False)


@contextmanager
def garbage_collector_disabled() -> Iterator[None]:
    """Disable the cyclic garbage collector while many long-lived objects are created."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@dataclass(eq=False, repr=False)
class _LazyFunction:
    """A function that numba compiles when that pays off, for one signature, and caches on disk."""

    function: AnyFunction
    makes_arrays: bool
    ready: bool = False
    looked: bool = False
    spent_s: float = 0.0

    def __call__(self, *arguments: Any) -> Any:
        if _interprets_all.get() or not (self.ready or self._should_compile(arguments)):
            start = time.thread_time()
            try:
                with np.errstate(all="ignore"):
                    return _python_numbers(self.plain(*arguments))
            finally:
                self.spent_s += time.thread_time() - start
        if not self.ready:
            with _notified_compilation():
                self._wait(arguments)
        return self.dispatcher(*arguments)

    def _should_compile(self, arguments: Arguments) -> bool:
        """Return whether to compile now, given the time spent interpreting and the size of the arrays."""
        if self.spent_s >= MAX_INTERPRETED_S or _entry_count(arguments) > MAX_INTERPRETED_ENTRIES:
            return True
        if self.spent_s < CACHE_LOOKUP_AFTER_S or self.looked:
            return False
        self.looked = True
        dispatcher = self.dispatcher
        return dispatcher._cache.load_overload(self._types(arguments), dispatcher.targetctx) is not None

    @functools.cached_property
    def plain(self) -> AnyFunction:
        """The interpreted version of the function, which calls interpreted versions of its callees."""
        return self._with_callees("plain")

    @functools.cached_property
    def dispatcher(self) -> Any:
        """The compiled version of the function for calls from Python, cached on disk with its callees."""
        dispatcher = self._jit()
        with suppress(RuntimeError, OSError):  # there is no folder for it, or no file that it comes from
            dispatcher._cache = CodeCache(dispatcher.py_func, self.sources)
        return dispatcher

    @functools.cached_property
    def inner(self) -> Any:
        """The version for calls from other compiled functions, without the wrappers for Python."""
        return self._jit(no_cpython_wrapper=True, no_cfunc_wrapper=True)

    def _jit(self, **more: Any) -> Any:
        """Return the function compiled by numba, with its callees in their versions for compiled callers."""
        from numba import njit

        # Divisions are those of NumPy: x/0 is infinite. Sums are rounded as written. References to arrays are
        # not counted where no array is created.
        made = njit(nogil=True, error_model="numpy", _nrt=self.makes_arrays, **more)
        return made(self._with_callees("inner"))

    @functools.cached_property
    def _callees(self) -> dict[str, _LazyFunction]:
        """The compiled functions that the function names."""
        names = {name: self.function.__globals__.get(name) for name in self.function.__code__.co_names}
        return {name: callee for name, callee in names.items() if isinstance(callee, _LazyFunction)}

    @functools.cached_property
    def sources(self) -> set[str]:
        """Files of the function and of the compiled functions that it calls, directly or not."""
        return {self.function.__code__.co_filename}.union(*(f.sources for f in self._callees.values()))

    def _with_callees(self, as_what: str) -> AnyFunction:
        """Return the function with its compiled callees replaced by a given version of each.

        `as_what` is the attribute with that version: `plain` or `inner`.
        """
        function = self.function
        callees = {name: getattr(callee, as_what) for name, callee in self._callees.items()}
        names = {**function.__globals__, **callees}
        code, defaults = function.__code__, function.__defaults__
        known = types.FunctionType(code, names, function.__name__, defaults, function.__closure__)
        return functools.update_wrapper(known, function)

    def _wait(self, arguments: Arguments) -> None:
        left = time_left_s()
        if left is None:
            self._compile(arguments)
            return
        # The compiler cannot be interrupted, so it runs in another thread.
        thread = threading.Thread(target=self._compile, args=(arguments,), name="compile loops")
        thread.start()
        thread.join(left)
        if thread.is_alive():
            raise OutOfTimeError(
                "compiling its loops, once on a machine, takes longer than there is time for"
            )

    def _compile(self, arguments: Arguments) -> None:
        with garbage_collector_disabled():
            self.dispatcher.compile(self._types(arguments))
        self.ready = True

    def _types(self, arguments: Arguments) -> Arguments:
        return tuple(map(self.dispatcher.typeof_pyval, arguments))


def _entry_count(arguments: Arguments) -> int:
    """Return the total number of elements of the arrays among the arguments, also inside tuples."""
    count = 0
    for argument in arguments:
        is_nested = isinstance(argument, tuple)
        count += _entry_count(argument) if is_nested else int(getattr(argument, "size", 0))
    return count


def _python_numbers(value: Any) -> Any:
    """Convert the NumPy scalars in a result to Python numbers, as numba returns them."""
    if isinstance(value, tuple):
        return tuple(map(_python_numbers, value))
    return value.item() if isinstance(value, np.generic) else value


def compiled(function: FunctionT) -> FunctionT:
    """Return a lazily compiled (numba) function; its callees must be compiled functions too.

    It must not call itself, directly or not.

    The code on disk is renewed when its module changes, or that of a callee. A call raises an
    `OutOfTimeError` if the enforced clock expires before the function is compiled; the compilation goes on
    for the next call.
    """
    return cast("FunctionT", functools.update_wrapper(_LazyFunction(function, True), function))


def compiled_without_arrays(function: FunctionT) -> FunctionT:
    """Return a lazily compiled function, as `compiled` does, for one that creates no array and no slice.

    The same holds for the functions that it calls. Compilation takes a quarter less time; numba raises an
    error if an array is created after all.
    """
    return cast("FunctionT", functools.update_wrapper(_LazyFunction(function, False), function))


def is_compiled(function: AnyFunction) -> bool:
    """Return whether a function is compiled already or needs no compilation."""
    return not isinstance(function, _LazyFunction) or function.ready
