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


class _Sealed:
    """Writes a digest beside the code, so that damaged code is known before it is used.

    Parameters
    ----------
    plain
        Numba's own way to write and read the code of a function.
    """

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self.locator, self.check_cachable = plain.locator, plain.check_cachable

    def reduce(self, result: Any) -> tuple[bytes, bytes]:
        """Return what is written of the code."""
        from numba.core.serialize import dumps

        code = dumps(self._plain.reduce(result))
        return hashlib.sha256(code).digest(), code

    def rebuild(self, target: Any, kept: tuple[bytes, bytes]) -> Any:
        """Return the code from what was written."""
        digest, code = kept
        if hashlib.sha256(code).digest() != digest:
            raise ValueError("the code kept on disk is damaged")
        return self._plain.rebuild(target, pickle.loads(code))  # noqa: S301 - as numba does with the file


class KeptCode:
    """What numba asks for the code of a function, and gives it to be kept.

    Parameters
    ----------
    function
        A `RuntimeError` says that there is no folder in which its code could be kept.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        from numba.core.caching import FunctionCache

        self._files = FunctionCache(function)
        self._files._impl = _Sealed(self._files._impl)

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
