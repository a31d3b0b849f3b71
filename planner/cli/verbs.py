"""The commands, each of which is loaded when it is asked for, so that `--help` loads none."""

from __future__ import annotations

import textwrap
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

VERBS = {
    "solve": ("solve", "solve", "Solve instances; every plan is verified before it is shown."),
    "compare": (
        "compare",
        "compare",
        "Compare solvers: every one on every instance, with hard limits on time and memory.",
    ),
    "pareto": (
        "pareto",
        "pareto",
        "Find what no other plan beats in two aims at once, and prove that none is missing.",
    ),
    "report": (
        "report",
        "report",
        "Write a stored result or frontier as one HTML page that opens without a network.",
    ),
    "export-plan": (
        "export",
        "export_plan",
        "Write a plan, once it is verified, for those who carry it out.",
    ),
    "verify": (
        "verify",
        "verify",
        "Check stored results: constraints, objective, bounds and everything else that can be derived again.",
    ),
    "validate": (
        "validate",
        "validate",
        "Check instance files without solving them; one line for each fault.",
    ),
    "schema": ("schema", "schema", "Print the JSON Schema of a document."),
    "solvers": (
        "solvers",
        "solvers",
        "List the solvers: what they can solve and prove, and whether they can be used here.",
    ),
    "doctor": (
        "doctor",
        "doctor",
        "Check that the libraries load together and that every solver answers right.",
    ),
    "export-model": (
        "export_model",
        "export_model",
        "Write the textbook model for any other solver; earlier objectives are not fixed in it.",
    ),
    "import": ("instances.import_clusters", "importers", "Turn somebody else's data into an instance."),
    "generate": ("instances.generate", "generators", "Make a reproducible synthetic instance."),
    "fit": ("instances.fit", "fits", "Fit a job's speed or loss to measurements."),
}
"""Module and name of each command, and its first line, which `--help` shows without loading it."""


class Verbs(TyperGroup):
    """A group that knows the names and the first lines of its commands before they are loaded."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        names: Any = dict.fromkeys(VERBS)
        self.commands = names  # `get_command` loads what goes with them

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, loaded from the module of its name."""
        del ctx
        if cmd_name not in VERBS:
            return None
        module, attribute, _ = VERBS[cmd_name]
        found = getattr(import_module(f".{module}", __package__), attribute)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
            alone.command(cmd_name)(found)
            return typer.main.get_command(alone)
        group = typer.main.get_group(found)
        group.name = cmd_name
        return group

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and first lines."""
        del ctx
        with formatter.section("Commands"):
            most = formatter.width - 6 - max(map(len, VERBS))
            formatter.write_dl([(name, _shortened(line, most)) for name, (_, _, line) in VERBS.items()])


def _shortened(line: str, most: int) -> str:
    """Return the first words of a line."""
    return line if len(line) <= most else textwrap.shorten(line, most, placeholder="...")
