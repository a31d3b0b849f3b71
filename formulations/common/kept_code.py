"""Compiled functions kept on disk: whatever is wrong with the files costs a compilation, never the answer.

Numba keeps an index (`.nbi`) and the code (`.nbc`) of each function. It trusts both: of a file that was cut
or overwritten it raises whatever reading it raises, at every later call, and it runs damaged machine code.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps


class _Sealed(CompileResultCacheImpl):  # type: ignore[misc] # numba's classes have no types
    """Writes a digest beside the code, so that damaged code is known before it is used."""

    def reduce(self, result: Any) -> tuple[bytes, bytes]:
        code = dumps(super().reduce(result))
        return hashlib.sha256(code).digest(), code

    def rebuild(self, target: Any, kept: tuple[bytes, bytes]) -> Any:
        digest, code = kept
        if hashlib.sha256(code).digest() != digest:
            raise ValueError("the code kept on disk is damaged")
        return super().rebuild(target, pickle.loads(code))  # noqa: S301 - as numba does with the whole file


class _Files(FunctionCache):  # type: ignore[misc] # numba's classes have no types
    """The files of a function."""

    _impl_class = _Sealed


class KeptCode:
    """What numba asks for the code of a function, and gives it to be kept.

    Parameters
    ----------
    function
        A `RuntimeError` says that there is no folder in which its code could be kept.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._files = _Files(function)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the code that is kept for some types of arguments; None if there is none that is sound."""
        try:
            return self._files.load_overload(signature, target)
        except Exception:  # noqa: BLE001 - a damaged file raises whatever its bytes happen to mean
            # An empty index lets sound files replace the damaged ones.
            with suppress(Exception):
                self._files.flush()
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled, where that is possible."""
        with suppress(Exception):  # a full disk, a folder in place of a file: the code is there all the same
            self._files.save_overload(signature, result)
