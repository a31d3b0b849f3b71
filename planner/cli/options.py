"""Options and arguments that several commands share; nothing heavy is imported here.

`RunOptions` has those of `solve` and `compare`. `MoveOptions` has those for running jobs: they set fields of
the instance.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import typer

from ...instances.common.errors import OptionError, some

NAMED = 5
"""Most jobs named in a message."""


def option(text: str, *names: str, **more: Any) -> Any:
    """Return an option with a text for `--help`; its name is that of its parameter if none is given."""
    return typer.Option(*names, help=text, **more)


DeviceMoves = Annotated[
    bool,
    option("A move between devices of one server is a migration.", "--device-moves"),
]


@dataclass(frozen=True, kw_only=True)
class MoveOptions:
    """Options on moves of running jobs; `changes` returns them as fields of the instance."""

    running: Annotated[
        Literal["stay", "move"] | None,
        option("stay: running jobs keep what they have; move: they may move. [default: move]"),
    ] = None
    pin: Annotated[
        list[str] | None,
        option("Running jobs whose names match stay; may be repeated.", metavar="PATTERN"),
    ] = None
    max_moves: Annotated[
        int | None,
        option("Most running jobs that are moved or stopped.", min=0),
    ] = None
    restart_cost: Annotated[
        float | None,
        option(
            "Hours of its value (GPU-hours per GPU) that a move costs a job; its restart_s wins.",
            metavar="HOURS",
            min=0,
        ),
    ] = None
    free: Annotated[
        int | None,
        option(
            "Empty so many servers with the fewest moves, and do nothing else; racks with --per rack.",
            metavar="SERVERS",
            min=1,
        ),
    ] = None
    per: Annotated[
        Literal["server", "rack"],
        option("Whether --free counts servers or racks."),
    ] = "server"
    seat: Annotated[
        list[str] | None,
        option(
            "Waiting jobs whose names match have to start, with the fewest moves; may be repeated.",
            metavar="PATTERN",
        ),
    ] = None
    drain: Annotated[
        list[str] | None,
        option(
            "Empty the servers whose names, or racks, match, with the fewest moves; may be repeated.",
            metavar="PATTERN",
        ),
    ] = None
    stop: Annotated[
        list[str] | None,
        option(
            "Running jobs that may be stopped. [default: never for --drain, --free and --seat]",
            metavar="never|allowed|PATTERN",
        ),
    ] = None
    device_moves: DeviceMoves = False

    def check_patterns(self, instance: Any) -> None:
        """Raise an error for a pattern that matches no job, or no server: it is a typing error.

        Raises
        ------
        OptionError
            Naming the first such pattern.
        """
        if self.free and self.per == "rack" and not any(server.rack for server in instance.servers):
            raise OptionError("--per rack: no server has a rack; free servers, or give each its rack")
        patterns = {"pin": self.pin, "seat": self.seat, "stop": self._stopped()}
        # A large table makes its jobs one by one, when somebody asks for them.
        names = [job.name for job in instance.jobs] if any(patterns.values()) else []
        waiting = [job.name for job in instance.jobs if not instance.runs(job)] if self.seat else []
        servers = [server.name for server in instance.expanded_servers] if self.drain else []
        racks = [*dict.fromkeys(s.rack for s in instance.servers if s.rack)] if self.drain else []
        choices = [("job", "pin", names), ("job that waits", "seat", waiting), ("job", "stop", names)]
        for noun, option, known in [*choices, ("server and no rack", "drain", [*servers, *racks])]:
            for pattern in patterns.get(option, self.drain) or ():
                if not any(fnmatchcase(name, pattern) for name in known):
                    # Somebody may have given a number, or a part of a name.
                    near = [name for name in known if pattern.strip("*") in name]
                    there = some(near or known, NAMED)
                    raise OptionError(f"--{option} {pattern!r} matches no {noun}; there are: {there}")

    def _stopped(self) -> list[str]:
        """Return the patterns of the jobs that may be stopped."""
        if "never" in (self.stop or ()) and len(self.stop or ()) > 1:
            raise OptionError("--stop never stands alone; leave it out, or what may be stopped")
        return ["*" if text == "allowed" else text for text in self.stop or () if text != "never"]

    def changes(self) -> dict[str, Any]:
        """Return the fields of instance documents that the options set."""
        fields = {
            "running": self.running,
            "pinned": self.pin or None,
            "max_moves": self.max_moves,
            "restart_cost_h": self.restart_cost,
            "device_moves": self.device_moves or None,
            "seat": self.seat or None,
            "drain": self.drain or None,
            "stop": None if self.stop is None else self._stopped(),
            "free": None if self.free is None else {"count": self.free, "per": self.per},
        }
        return {name: value for name, value in fields.items() if value is not None}


Format = Literal["table", "json", "csv"]
Files = Annotated[list[str], typer.Argument(help="Instance files, or example:NAME.", show_default=False)]
InstanceFile = Annotated[str, typer.Argument(metavar="INSTANCE", help="The instance that was solved.")]
ResultFile = Annotated[Path, typer.Argument(metavar="RESULT", help="What 'solve --format json' printed.")]
Threads = Annotated[int | None, option("Most threads to use.")]
Seed = Annotated[int | None, option("Of everything random. [default: 0]")]
SCENARIO_CHANGES = (
    "A comma joins changes. Consolidation: drain=SERVER, add=NxSERVER, remove=JOB, value=JOB:X, "
    "must-place=JOB; allocation: RESOURCE=+8, budget=X, add=NxJOB, remove=JOB, weight=JOB:X, on servers "
    "RESOURCE=SERVER:+8, servers=SERVER:N, drain=SERVER, add=NxSERVER, remove=SERVER; staging: "
    "limit=TYPE:+8, price=TYPE:-20%, floor=X, cost=X, budget=X; scheduling: RESOURCE=+10, add=NxSERVER, "
    "drain=SERVER, remove=JOB."
)
"""What a scenario may say, for help texts."""
Quiet = Annotated[bool, option("No progress, only errors.", "--quiet", "-q")]
HowToPrint = Annotated[Format, option("How to print.")]
AllowOutside = Annotated[
    bool,
    option("Also read files that an instance names outside its own folder.", "--allow-outside"),
]


@dataclass(frozen=True, kw_only=True)
class RunOptions(MoveOptions):
    """The options of `solve`, in the order of `--help`, after those of kinds; `compare` inherits them."""

    files: Files
    solver: Annotated[str | None, option("A name from 'clusterplan solvers'. [default: auto]")] = None
    time_limit: Annotated[
        float | None, option("Seconds for each instance, 0 for no limit. [default: 60]")
    ] = None
    gap: Annotated[float | None, option("Relative gap that counts as optimal. [default: 1e-6]")] = None
    threads: Threads = None
    seed: Seed = None
    memory_limit: Annotated[
        float | None,
        option("GiB that the backend, or in a batch each worker process, may take."),
    ] = None
    settings: Annotated[
        list[str] | None,
        option("Option of the method; may be repeated.", "--set", metavar="KEY=VALUE"),
    ] = None
    provisioning: Annotated[
        Literal["load-balance", "exact"] | None,
        option("How HeterPS's methods find units. [default: load-balance]"),
    ] = None
    what_if: Annotated[
        list[str] | None,
        option(
            f"Compare with a scenario, as 'what-if' does; may be repeated. {SCENARIO_CHANGES}",
            "--what-if",
            metavar="KEY=VALUE,…",
        ),
    ] = None
    apply: Annotated[
        str | None,
        option(
            "Write the plan of this scenario, by its name or number, to --output PLAN.json.",
            metavar="SCENARIO",
        ),
    ] = None
    robust: Annotated[
        bool,
        option(
            "Plan at the ends of the instance's intervals too, and show what each plan loses.", "--robust"
        ),
    ] = False
    warm_start: Annotated[
        Path | None,
        option(
            "Start from the plan of this result, as of an hour ago; jobs may have changed.",
            metavar="RESULT.json",
        ),
    ] = None
    config: Annotated[Path | None, option("YAML file with options; those given here win.")] = None
    jobs: Annotated[int | None, option("Solves at a time, each in a process of its own.", min=1)] = None
    dry_run: Annotated[
        bool, option("Check the files, as 'validate' does, and solve nothing.", "--dry-run")
    ] = False
    resume: Annotated[bool, option("Continue the batch in the folder --output.")] = False
    kill_after: Annotated[
        float | None,
        option("Seconds after which a solve is killed. [default: twice the time limit and 10]", min=0),
    ] = None
    engine: Annotated[
        Literal["local", "dask"],
        option("Where a batch runs: this machine, or a Dask cluster."),
    ] = "local"
    scheduler: Annotated[str | None, option("Address of the Dask scheduler.")] = None
    allow_outside: AllowOutside = False
    format: HowToPrint = "table"
    output: Annotated[
        Path | None,
        option("Write the results here and print none: a file, one a line; of a batch, a folder."),
    ] = None
    verbose: Annotated[int, option("Say more; twice: even more.", "--verbose", "-v", count=True)] = 0
    quiet: Quiet = False


OptionsT = TypeVar("OptionsT")


def taking(
    options: type[OptionsT], leave_out: Container[str] = ()
) -> Callable[[Callable[[OptionsT], None]], Callable[..., None]]:
    """Return a decorator that makes the fields of a dataclass the parameters of a command.

    Parameters
    ----------
    options
        A dataclass whose fields are annotated for Typer; the command takes one of these.
    leave_out
        Fields that the command does not offer.
    """
    empty = Parameter.empty
    offered = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(options, name, empty), annotation=hint)
        for name, hint in get_type_hints(options, include_extras=True).items()
        if name not in leave_out
    ]

    def decorate(command: Callable[[OptionsT], None]) -> Callable[..., None]:
        @wraps(command)
        def flat(**given: Any) -> None:
            command(options(**given))

        # Typer reads options from the signature alone.
        flat.__signature__ = Signature(offered)  # type: ignore[attr-defined]
        return flat

    return decorate


def write_text(path: Path, text: str, append: bool = False) -> None:
    """Write text to a file.

    Raises
    ------
    OptionError
        If it cannot be written.
    """
    try:
        with path.open("a" if append else "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror or error}") from None


def refuse_overwriting(path: Path, files: Iterable[str]) -> None:
    """Raise an error if a file to be written is one of the instances.

    Raises
    ------
    OptionError
        If it is.
    """
    if path.exists() and any(Path(file).exists() and path.samefile(file) for file in files):
        raise OptionError(f"{path}: is the instance; write the result to another file")


def start_logging(verbose: int, quiet: bool) -> None:
    """Send the log to stderr, at the level of the options."""
    level = logging.ERROR if quiet else (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(level=level, stream=sys.stderr, format="%(levelname)s %(message)s")


def pairs(text: str, option: str, kind: type) -> dict[str, Any]:
    """Parse a text NAME=NUMBER,NAME=NUMBER into numbers by name.

    Parameters
    ----------
    option
        Name of the option in messages.
    kind
        int or float.

    Raises
    ------
    OptionError
        If a part is no pair, or a name appears twice.
    """
    numbers = {}
    for part in text.split(","):
        name, sign, number = part.strip().partition("=")
        try:
            if not (sign and name):
                raise ValueError
            value = kind(number)
        except ValueError:
            raise OptionError(
                f"{option} {part.strip()!r}: write NAME=NUMBER, several separated by commas"
            ) from None
        if name in numbers:
            raise OptionError(f"{option} {part.strip()!r}: {name} stands twice; each name may stand once")
        numbers[name] = value
    return numbers
