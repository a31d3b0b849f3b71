"""The command line: the program and its list of commands, each loaded only when it is used.

`--help` loads no command. stdout is data, stderr is log and progress; no traceback reaches a user.
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
import textwrap
from collections import UserDict
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from itertools import groupby, pairwise
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from ...instances.common.errors import ClusterplanError, one_line
from ..exit_codes import FAILED, INTERRUPTED, SOLVED, code_of_error
from ..output import say, visible_output

USAGE_ERROR: Any = typer.BadParameter.__base__
"""The error of a wrong command line: Click's, or that of the copy of Click in newer versions of Typer."""
WAS_INTERRUPTED = "interrupted; what was printed before is complete"


class Command(NamedTuple):
    """A command: its place in `--help`, and where its function is.

    Attributes
    ----------
    group
        Purpose under which `--help` shows it.
    line
        First line of its help, which `--help` shows without loading it.
    function
        Module, and name of the function or of the group of commands.
    examples
        Shown below the options in its help.
    """

    group: str
    line: str
    function: str
    examples: tuple[str, ...]


MAKE, PLAN, LOOK, SOLVERS = (
    "Make an instance",
    "Plan",
    "Look at a plan and carry it out",
    "Solvers",
)
COMMANDS = {
    "import": Command(
        MAKE,
        "Turn somebody else's data into an instance.",
        "instances.imports:importers",
        (
            "clusterplan import slurm nodes.json queue.json --output cluster.yaml",
            "clusterplan import kubernetes nodes.json pods.json --output cluster.yaml",
        ),
    ),
    "predict": Command(
        MAKE,
        "Predict time, memory and cost of training a model, or make an instance of it.",
        "instances.predict:predict",
        (
            "clusterplan predict gpt2-large --hardware h100,a100-80,l4 --batch 4",
            "clusterplan predict gpt2-large --hardware h100,l4 --kind staging --within 48 --solve",
        ),
    ),
    "generate": Command(
        MAKE,
        "Make a reproducible synthetic instance.",
        "instances.generate:generators",
        ("clusterplan generate allocation --jobs 50 --seed 1 --output jobs.yaml",),
    ),
    "fit": Command(
        MAKE,
        "Fit a job's speed or loss to measurements.",
        "instances.imports:fits",
        ("clusterplan fit speed example:synthetic-speed.csv",),
    ),
    "validate": Command(
        MAKE,
        "Check instance files without solving them; one line for each fault.",
        "instances.generate:validate",
        ("clusterplan validate example:tiresias-testbed",),
    ),
    "schema": Command(
        MAKE,
        "Print the JSON Schema of a document.",
        "instances.generate:schema",
        ("clusterplan schema staging",),
    ),
    "solve": Command(
        PLAN,
        "Solve instances; every plan is verified before it is shown.",
        "solve:solve",
        (
            "clusterplan solve example:tiresias-testbed",
            "clusterplan solve cluster.yaml --format json > plan.json",
        ),
    ),
    "what-if": Command(
        PLAN,
        "Compare an instance as it is with scenarios, such as a drained server or two more.",
        "solve:what_if",
        (
            "clusterplan what-if cluster.yaml drain=gpu-003 add=2xh100",
            "clusterplan what-if cluster.yaml drain=gpu-003 --apply drain=gpu-003 --output plan.json",
        ),
    ),
    "compare": Command(
        PLAN,
        "Compare solvers: every one on every instance, with hard limits on time and memory.",
        "solve:compare",
        ("clusterplan compare example:heterps-ctr --solvers exact,greedy --output compared",),
    ),
    "pareto": Command(
        PLAN,
        "Find what no other plan beats in two aims at once, and prove that none is missing.",
        "pareto:pareto",
        ("clusterplan pareto example:opt-350-three-gpus --output frontier",),
    ),
    "frontier": Command(
        PLAN,
        "The same as pareto.",
        "pareto:pareto",
        ("clusterplan frontier example:opt-350-three-gpus --output frontier",),
    ),
    "report": Command(
        LOOK,
        "Write a stored result or frontier as one HTML page that opens without a network.",
        "stored_results:report",
        ("clusterplan report cluster.yaml plan.json --output plan.html",),
    ),
    "diff": Command(
        LOOK,
        "Show what a plan changes, against what runs now or against another plan.",
        "stored_results:diff",
        ("clusterplan diff cluster.yaml plan.json",),
    ),
    "verify": Command(
        LOOK,
        "Check stored results: constraints, objective, bounds and everything else that can be derived again.",
        "stored_results:verify",
        ("clusterplan verify cluster.yaml plan.json",),
    ),
    "export-plan": Command(
        LOOK,
        "Write a plan, once it is verified, for those who carry it out.",
        "stored_results:export_plan",
        ("clusterplan export-plan cluster.yaml plan.json --format slurm --output plan.sh",),
    ),
    "solvers": Command(
        SOLVERS,
        "List the solvers: what they can solve and prove, and whether they can be used here.",
        "solvers:solvers",
        ("clusterplan solvers",),
    ),
    "doctor": Command(
        SOLVERS,
        "Check that the libraries load together and that every solver answers right.",
        "solvers:doctor",
        ("clusterplan doctor",),
    ),
    "export-model": Command(
        SOLVERS,
        "Write the textbook model for any other solver; earlier objectives are not fixed in it.",
        "solvers:export_model",
        ("clusterplan export-model example:heterps-ctr --format mps --output model.mps",),
    ),
}
"""The commands by name, in the order of `--help`."""


def load(name: str) -> Any:
    """Import the function of a command, or a group of commands, by the command's name."""
    module, attribute = COMMANDS[name].function.split(":")
    return getattr(import_module(f".{module}", __package__), attribute)


class _LazyCommands(UserDict[str, Any]):
    """The commands by name, each loaded from its module when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.data:
            raise KeyError(name)
        command, line, examples = load(name), COMMANDS[name].line, _examples(name)
        if isinstance(command, typer.Typer):
            group = typer.main.get_group(command)
            group.name, group.help, group.epilog = name, line, examples
            return group
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        # What the function says of others is longer.
        alone.command(name, help=line if name == "frontier" else None, epilog=examples)(command)
        return typer.main.get_command(alone)


class Verbs(TyperGroup):
    """A command group that lists its commands without loading them; each is loaded on use."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _LazyCommands(COMMANDS)  # typer looks a command up here only when it is run

    def invoke(self, ctx: Any) -> Any:
        """Run the command; messages on usage errors get the given value, or the allowed ones."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # Typer would end without a word
            say(WAS_INTERRUPTED)
            raise typer.Exit(INTERRUPTED) from None
        except USAGE_ERROR as error:
            _complete_message(error)
            raise

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        del ctx
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and first lines of the commands, grouped by purpose."""
        del ctx
        longest = max(map(len, COMMANDS))
        most = formatter.width - 6 - longest
        for title, commands in groupby(COMMANDS.items(), lambda item: item[1].group):
            with formatter.section(title):
                rows = [
                    (name.ljust(longest), textwrap.shorten(command.line, most, placeholder="..."))
                    for name, command in commands
                ]
                formatter.write_dl(rows)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the completions of a command's name, without loading any command."""
        self.commands = {name: TyperCommand(name, help=of.line) for name, of in COMMANDS.items()}
        return super().shell_complete(ctx, incomplete)


def _examples(name: str) -> str:
    """Return the help text with the examples of a command, each on a line of its own."""
    lines = COMMANDS[name].examples
    return "\n".join(["\b", "Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])


def _complete_message(error: Any) -> None:
    """Add the given value, or the list of commands, to the message of a usage error."""
    group = getattr(error.ctx, "command", None) if hasattr(error, "ctx") else None
    if error.message.startswith("No such command") and isinstance(group, TyperGroup):
        error.message += f" There are: {', '.join(group.list_commands(error.ctx))}."
    error.message = error.message.removeprefix("Value error, ")
    given = _given(getattr(getattr(error, "param", None), "opts", ()))
    if isinstance(error, typer.BadParameter) and given is not None and repr(given) not in error.message:
        error.message = f"is {given!r}; {error.message[:1].lower()}{error.message[1:]}"


def _given(options: Sequence[str]) -> str | None:
    """Return the value given for one of an option's names on the command line; None if unknown."""
    for word, following in pairwise([*sys.argv[1:], ""]):
        option, sign, value = word.partition("=")
        if option in options and option.startswith("-"):
            return value if sign else following
    return None


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
    """Return a module of this package if it is already loaded, else None."""
    return sys.modules.get(f"{__package__.removesuffix('.planner.cli')}.{module}")


def program() -> None:
    """Run the command line as a process, and exit without freeing its objects one by one.

    With models of millions of objects, freeing them would take seconds.
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
        _discard_output()
        sys.exit(SOLVED)
    except MemoryError:
        say("out of memory; try a smaller instance, or a method with a smaller model")
        sys.exit(FAILED)
    except Exception as error:
        if os.environ.get("CLUSTERPLAN_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            _discard_output()
        say(_error_message(error))
        sys.exit(FAILED)


def _error_message(error: Exception) -> str:
    """Return the message for an error that no command expects."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        where = error.filename or "the output"
        return f"{where}: cannot be written: {error.strerror}; what was printed before may be incomplete"
    what = f"{type(error).__name__}: {one_line(str(error))}"
    plugins = _loaded("solvers.registry")  # without it no plug-in has done anything
    place = None if plugins is None else plugins.failing_plugin(error)
    if place is not None:
        return f"a plug-in failed: {place}: {what}. CLUSTERPLAN_DEBUG=1 shows its author the traceback"
    return f"internal error: {what}. Please report it with CLUSTERPLAN_DEBUG=1"


def _discard_output() -> None:
    """Discard all further output, since nothing more can be written, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
