"""The commands, each of which is loaded when it is asked for, so that `--help` loads none."""

from __future__ import annotations

import textwrap
from collections import UserDict
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
    "import": ("instances.imports", "importers", "Turn somebody else's data into an instance."),
    "generate": ("instances.generate", "generators", "Make a reproducible synthetic instance."),
    "fit": ("instances.fit", "fits", "Fit a job's speed or loss to measurements."),
}
"""Module and name of each command, and its first line, which `--help` shows without loading it."""


class _Loading(UserDict[str, Any]):
    """The commands by name, each loaded from its module when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        module, attribute, _ = self.data[name]
        found = getattr(import_module(f".{module}", __package__), attribute)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name = name
            return group
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        alone.command(name)(found)
        return typer.main.get_command(alone)


class Verbs(TyperGroup):
    """A group that knows the names and the first lines of its commands before they are loaded."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Loading(VERBS)  # typer looks a command up here only when it is run

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names."""
        del ctx
        return list(VERBS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and first lines."""
        del ctx
        with formatter.section("Commands"):
            most = formatter.width - 6 - max(map(len, VERBS))
            formatter.write_dl([(name, _shortened(line, most)) for name, (_, _, line) in VERBS.items()])


def _shortened(line: str, most: int) -> str:
    """Return the first words of a line."""
    return line if len(line) <= most else textwrap.shorten(line, most, placeholder="...")
