"""Options and arguments that several commands share; nothing heavy is imported here.

`RunOptions` has those of `solve` and `compare`. `MoveOptions` has those for running jobs: they set fields of
the instance.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field, fields
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


def argument(text: str, metavar: str | None = None, **more: Any) -> Any:
    """Return an argument with a text for `--help`, under this name or that of its parameter."""
    return typer.Argument(help=text, metavar=metavar, **more)


def option_field(text: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Return the field of a dataclass of options (see `taking`) that is an option with this default."""
    return field(default=default, metadata={OPTION: option(text, *names, **more)})


OPTION = "option"
"""Key in the metadata of a field."""
DeviceMoves = Annotated[
    bool,
    option("A move between devices of one server is a migration.", "--device-moves"),
]


@dataclass(frozen=True, kw_only=True)
class MoveOptions:
    """Options on moves of running jobs; `changes` returns them as fields of the instance."""

    running: Literal["stay", "move"] | None = option_field(
        "stay: running jobs keep what they have; move: they may move. [default: move]"
    )
    pin: list[str] | None = option_field(
        "Running jobs whose names match stay; may be repeated.", metavar="PATTERN"
    )
    max_moves: int | None = option_field("Most running jobs that are moved or stopped.", min=0)
    restart_cost: float | None = option_field(
        "Hours of its value (GPU-hours per GPU) that a move costs a job; its restart_s wins.",
        metavar="HOURS",
        min=0,
    )
    free: int | None = option_field(
        "Empty so many servers with the fewest moves, and do nothing else; racks with --per rack.",
        metavar="SERVERS",
        min=1,
    )
    per: Literal["server", "rack"] = option_field("Whether --free counts servers or racks.", default="server")
    seat: list[str] | None = option_field(
        "Waiting jobs whose names match have to start, with the fewest moves; may be repeated.",
        metavar="PATTERN",
    )
    drain: list[str] | None = option_field(
        "Empty the servers whose names, or racks, match, with the fewest moves; may be repeated.",
        metavar="PATTERN",
    )
    stop: list[str] | None = option_field(
        "Running jobs that may be stopped. [default: never for --drain, --free and --seat]",
        metavar="never|allowed|PATTERN",
    )
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
Files = Annotated[list[str], argument("Instance files, or example:NAME.", show_default=False)]
InstanceFile = Annotated[str, argument("The instance that was solved.", "INSTANCE")]
ResultFile = Annotated[Path, argument("What 'solve --format json' printed.", "RESULT")]
Threads = Annotated[int | None, option("Most threads to use.")]
Seed = Annotated[int | None, option("Of everything random. [default: 0]")]
SCENARIO_CHANGES = (
    "A comma joins changes. Consolidation: drain=SERVER, add=NxSERVER, remove=JOB, value=JOB:X, "
    "must-place=JOB; allocation: RESOURCE=+8, budget=X, add=NxJOB, remove=JOB, weight=JOB:X, on servers "
    "RESOURCE=SERVER:+8, servers=SERVER:N, drain=SERVER, add=NxSERVER, remove=SERVER; staging: "
    "limit=TYPE:+8, price=TYPE:-20%, floor=X, cost=X, budget=X; scheduling: RESOURCE=+10, add=NxSERVER, "
    "drain=SERVER, remove=JOB; mix: limit=HARDWARE:N, price=HARDWARE:USD, devices=N, budget=USD, of requests "
    "rate=TYPE:X, of jobs count=TYPE:N, weight=TYPE:X, least-progress=X."
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
    solver: str | None = option_field("A name from 'clusterplan solvers'. [default: auto]")
    time_limit: float | None = option_field("Seconds for each instance, 0 for no limit. [default: 60]")
    gap: float | None = option_field("Relative gap that counts as optimal. [default: 1e-6]")
    threads: Threads = None
    seed: Seed = None
    memory_limit: float | None = option_field(
        "GiB that the backend, or in a batch each worker process, may take."
    )
    settings: list[str] | None = option_field(
        "Option of the method; may be repeated.", "--set", metavar="KEY=VALUE"
    )
    provisioning: Literal["load-balance", "exact"] | None = option_field(
        "How HeterPS's methods find units. [default: load-balance]"
    )
    what_if: list[str] | None = option_field(
        f"Compare with a scenario, as 'what-if' does; may be repeated. {SCENARIO_CHANGES}",
        "--what-if",
        metavar="KEY=VALUE,…",
    )
    apply: str | None = option_field(
        "Write the plan of this scenario, by its name or number, to --output PLAN.json.", metavar="SCENARIO"
    )
    robust: bool = option_field(
        "Plan at the ends of the instance's intervals too, and show what each plan loses.",
        "--robust",
        default=False,
    )
    warm_start: Path | None = option_field(
        "Start from plan and prices of this result; jobs and servers may have changed.",
        metavar="RESULT.json",
    )
    stability: float | None = option_field(
        "With --warm-start: what a change of its configuration costs each job of that plan.",
        metavar="SECONDS",
        min=0,
    )
    keep_cuts: bool | None = option_field(
        "Keep the cutting planes of the price search with the result, for the next --warm-start.",
        "--keep-cuts",
    )
    config: Path | None = option_field("YAML file with options; those given here win.")
    jobs: int | None = option_field("Solves at a time, each in a process of its own.", min=1)
    dry_run: bool = option_field(
        "Check the files, as 'validate' does, and solve nothing.", "--dry-run", default=False
    )
    resume: bool = option_field("Continue the batch in the folder --output.", default=False)
    kill_after: float | None = option_field(
        "Seconds after which a solve is killed. [default: twice the time limit and 10]", min=0
    )
    engine: Literal["local", "dask"] = option_field(
        "Where a batch runs: this machine, or a Dask cluster.", default="local"
    )
    scheduler: str | None = option_field("Address of the Dask scheduler.")
    allow_outside: AllowOutside = False
    format: HowToPrint = "table"
    output: Path | None = option_field(
        "Write the results here and print none: a file, one a line; of a batch, a folder."
    )
    verbose: int = option_field("Say more; twice: even more.", "--verbose", "-v", default=0, count=True)
    quiet: Quiet = False

    def changes(self) -> dict[str, Any]:
        """Return the fields of instance documents that the options set.

        Raises
        ------
        OptionError
            If options are given without those that they need.
        """
        if self.stability is None:
            return super().changes()
        if self.warm_start is None:
            raise OptionError("--stability needs the plan that runs: give --warm-start RESULT.json too")
        plan = {"plan": str(self.warm_start.absolute()), "seconds": self.stability}
        return super().changes() | {"stability": plan}


OptionsT = TypeVar("OptionsT")


def parameters(options: type[Any], leave_out: Container[str] = ()) -> list[Parameter]:
    """Return the fields of a dataclass of options as parameters of a command, but for those left out."""
    shown = {of.name: of.metadata[OPTION] for of in fields(options) if of.metadata}
    empty = Parameter.empty
    return [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=getattr(options, name, empty),
            annotation=Annotated[hint, shown[name]] if name in shown else hint,
        )
        for name, hint in get_type_hints(options, include_extras=True).items()
        if name not in leave_out
    ]


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
    offered = parameters(options, leave_out)

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
    """Raise an error if a file to be written is one of those that a result refers to.

    Raises
    ------
    OptionError
        If it is.
    """
    if path.exists() and any(Path(file).exists() and path.samefile(file) for file in files):
        raise OptionError(f"{path}: is what the result refers to; write to another file")


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
            whole = " with a whole number" if kind is int else ""
            raise OptionError(
                f"{option} {part.strip()!r}: write NAME=NUMBER{whole}, several separated by commas"
            ) from None
        if name in numbers:
            raise OptionError(f"{option} {part.strip()!r}: {name} stands twice; each name may stand once")
        numbers[name] = value
    return numbers
