"""Options of `solve` for jobs that run: they set fields of the instance, which alone says what is solved."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import typer

from ...instances.common.errors import OptionError
from ...instances.common.printable import some

PANEL = "Consolidation"
NAMED = 5
"""So many jobs are named."""
DeviceMoves = Annotated[
    bool,
    typer.Option(
        "--device-moves",
        help="A move between devices of one server is a migration.",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True, kw_only=True)
class MoveOptions:
    """What may happen to jobs that run now; `changes` says it in the instance's fields."""

    running: Annotated[
        Literal["stay", "move"] | None,
        typer.Option(help="Whether running jobs may move. [default: move]", rich_help_panel=PANEL),
    ] = None
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Running jobs whose names match stay; may be repeated.",
            rich_help_panel=PANEL,
        ),
    ] = None
    max_moves: Annotated[
        int | None,
        typer.Option(help="Most running jobs that are moved or stopped.", min=0, rich_help_panel=PANEL),
    ] = None
    restart_cost: Annotated[
        float | None,
        typer.Option(
            metavar="HOURS",
            help="Hours of its value (GPU-hours per GPU) that a move costs a job; its restart_s wins.",
            min=0,
            rich_help_panel=PANEL,
        ),
    ] = None
    device_moves: DeviceMoves = False

    def check_pins(self, instance: Any) -> None:
        """Refuse patterns that match no job of an instance: a slip in one would let jobs move.

        Raises
        ------
        OptionError
            Naming the first such pattern.
        """
        if not self.pin:
            return  # a large table makes its jobs one by one, when somebody asks for them
        names = [job.name for job in instance.jobs]
        for pattern in self.pin:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise OptionError(f"--pin {pattern!r} matches no job; there are: {some(names, NAMED)}")

    def changes(self) -> dict[str, Any]:
        """Return what the options change in the documents of instances."""
        said = {
            "running": self.running,
            "pinned": self.pin or None,
            "max_moves": self.max_moves,
            "restart_cost_h": self.restart_cost,
            "device_moves": self.device_moves or None,
        }
        return {name: value for name, value in said.items() if value is not None}
