"""The commands, each of which is loaded when it is asked for, so that `--help` loads none."""

from __future__ import annotations

import textwrap
from collections import UserDict
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

VERBS = {
    "solve": "Solve instances; every plan is verified before it is shown.",
    "compare": "Compare solvers: every one on every instance, with hard limits on time and memory.",
    "pareto": "Find what no other plan beats in two aims at once, and prove that none is missing.",
    "report": "Write a stored result or frontier as one HTML page that opens without a network.",
    "diff": "Show what a plan changes, against what runs now or against another plan.",
    "export-plan": "Write a plan, once it is verified, for those who carry it out.",
    "verify": "Check stored results: constraints, objective, bounds and everything else that can be derived "
    "again.",
    "validate": "Check instance files without solving them; one line for each fault.",
    "schema": "Print the JSON Schema of a document.",
    "solvers": "List the solvers: what they can solve and prove, and whether they can be used here.",
    "doctor": "Check that the libraries load together and that every solver answers right.",
    "export-model": "Write the textbook model for any other solver; earlier objectives are not fixed in it.",
    "import": "Turn somebody else's data into an instance.",
    "generate": "Make a reproducible synthetic instance.",
    "fit": "Fit a job's speed or loss to measurements.",
}
"""First line of each command, which `--help` shows without loading it."""
ELSEWHERE = {
    "diff": ("plans.diff", "diff"),
    "export-plan": ("plans.export", "export_plan"),
    "import": ("instances.imports", "importers"),
    "generate": ("instances.generate", "generators"),
    "fit": ("instances.fit", "fits"),
}
"""Module and name of the commands whose module is called otherwise than they."""


def load(name: str) -> Any:
    """Return a command, or a group of commands, from its module."""
    module, attribute = ELSEWHERE.get(name, (name.replace("-", "_"),) * 2)
    return getattr(import_module(f".{module}", __package__), attribute)


class _Loading(UserDict[str, Any]):
    """The commands by name, each loaded from its module when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.data:
            raise KeyError(name)
        found = load(name)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name, group.help = name, VERBS[name]
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
            formatter.write_dl([(name, _shortened(line, most)) for name, line in VERBS.items()])


def _shortened(line: str, most: int) -> str:
    """Return the first words of a line."""
    return line if len(line) <= most else textwrap.shorten(line, most, placeholder="...")
