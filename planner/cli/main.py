"""The command line. stdout is data, stderr is log and progress; no traceback reaches a user."""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from ...instances.common.errors import ClusterplanError
from ...instances.common.printable import one_line
from ..exit_codes import FAILED, INTERRUPTED, SOLVED, code_of_error
from ..output.terminal import say, visible_output
from .verbs import WAS_INTERRUPTED, Verbs

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a disk that is full or damaged, or of a quota."""

app = typer.Typer(
    cls=Verbs,
    name="clusterplan",
    help="Plan deep-learning clusters by mathematical optimisation. Every plan says how good it is.",
    epilog="Exit codes: 0 solved, 1 error, 2 usage, 3 bad instance, 4 infeasible, 5 limit with a plan, "
    "6 no plan, 7 verification failed, 8 verified but for what is only claimed, 130 interrupted; of several "
    "files, the worst.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata  # takes as long to load as all the rest

        typer.echo(metadata.version("clusterplan"))
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Handle the options before the command."""
    del version


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _loaded(module: str) -> Any:
    """Return a module of this package that is loaded already; None if it is not."""
    return sys.modules.get(f"{__package__.removesuffix('.planner.cli')}.{module}")


def program() -> None:
    """Run the command line as a process, which ends without freeing its objects one by one.

    With models of millions of objects that would take seconds.
    """
    code = FAILED

    def leave() -> None:
        with suppress(OSError, ValueError):  # nobody reads any more
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)

    # What is registered first is called last, so that all other handlers have run.
    atexit.register(leave)
    try:
        main()
        code = SOLVED
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else SOLVED if ended.code is None else FAILED
        raise
    finally:
        # Libraries that were left behind may go on: the interpreter does not end before the process.
        threads = _loaded("solvers.backends.threads")
        if threads is not None:
            atexit.unregister(threads.wait_for_those_left_behind)


def main() -> None:
    """Run the command line; turn every error into one line and an exit code."""
    try:
        signal.signal(signal.SIGTERM, _interrupt)  # how batch systems ask a process to end
        with visible_output():
            _run()
    except KeyboardInterrupt:  # before a command began, or while it was ending
        sys.exit(INTERRUPTED)


def _run() -> None:
    try:
        app()
    except ClusterplanError as error:
        say(str(error))
        sys.exit(code_of_error(error))
    except KeyboardInterrupt:
        say(WAS_INTERRUPTED)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader has seen enough
        _write_no_more()
        sys.exit(SOLVED)
    except MemoryError:
        say("out of memory; try a smaller instance, or a method with a smaller model")
        sys.exit(FAILED)
    except Exception as error:
        if os.environ.get("CLUSTERPLAN_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            _write_no_more()
        say(_words(error))
        sys.exit(FAILED)


def _words(error: Exception) -> str:
    """Return what is said of an error that no command expects."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        where = error.filename or "the output"
        return f"{where}: cannot be written: {error.strerror}; what was printed before may be incomplete"
    what = f"{type(error).__name__}: {one_line(str(error))}"
    plugins = _loaded("solvers.plugins")  # without it no plug-in has done anything
    place = None if plugins is None else plugins.raised_in(error)
    if place is not None:
        return f"a plug-in failed: {place}: {what}. CLUSTERPLAN_DEBUG=1 shows its author the traceback"
    return f"internal error: {what}. Please report it with CLUSTERPLAN_DEBUG=1"


def _write_no_more() -> None:
    """Let what is still to be printed vanish; nothing more can be written, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
