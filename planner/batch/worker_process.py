"""Settings of a worker process (threads, memory and log), and the answer that it sends back.

Nothing heavy is imported here: numerical libraries read their number of threads when they are loaded, and
the command line loads this module before anything else.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...instances.common.errors import OptionError
from ..output import as_visible

if TYPE_CHECKING:
    from ...instances.common.base import ProblemKind
    from ...solvers.common.result import Limit


GIB = 2**30
MEMORY_SHARE = 0.8
"""Share of the machine's memory that all workers together may take by default."""
MAX_TEXT = 2000
"""Most characters kept of a message or an error."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def prepare(level: int) -> None:
    """Set up a process's log and output, and make its numerical libraries single-threaded by default.

    Parameters
    ----------
    level
        Of the log, which goes to stderr.
    """
    _redirect_output(level)
    for name in THREADS:
        os.environ.setdefault(name, "1")
    logging.basicConfig(level=level, stream=sys.stderr, format="%(levelname)s %(message)s")


def _redirect_output(level: int) -> None:
    """Redirect the solvers' output away from stdout, and from stderr unless the log shows details.

    Python's own stderr, and so the log, stays.
    """
    sys.stderr = as_visible(os.fdopen(os.dup(2), "w", buffering=1))
    if level <= logging.INFO:
        os.dup2(2, 1)
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_memory_gib(jobs: int) -> float | None:
    """Return the default memory limit of each of `jobs` workers in GiB; None if none can be set."""
    try:
        import resource  # noqa: F401 - only whether there is one
    except ImportError:
        return None
    return MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB / jobs


@contextmanager
def limited_memory(gib: float | None) -> Iterator[None]:
    """Limit the memory of this process within the block; beyond the limit, Python raises MemoryError.

    Raises
    ------
    OptionError
        If this system cannot limit the memory of a process.
    """
    if gib is None:
        yield
        return
    try:
        import resource
    except ImportError:
        raise OptionError("this system cannot limit the memory of a worker; leave it out") from None
    # RLIMIT_DATA and not RLIMIT_AS: libraries reserve address space that they never use.
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = int(gib * GIB)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def one_line(error: BaseException) -> str:
    """Return the text of an error in one line, even if its conversion to text fails."""
    try:
        return " ".join(str(error).split())[:MAX_TEXT]
    except Exception:  # noqa: BLE001 - a plug-in may raise anything
        return "an error that cannot say what it is"


class Head(NamedTuple):
    """Name, problem kind and hash of an instance that was read."""

    instance: str
    kind: ProblemKind
    sha256: str


@dataclass(frozen=True)
class Answer:
    """The outcome of a task, whether or not its worker survived it.

    Attributes
    ----------
    head
        Name, kind and hash of the instance, if it was read.
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
