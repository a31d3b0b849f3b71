"""The commands, each of which is loaded when it is asked for, so that `--help` loads none."""

from __future__ import annotations

import sys
import textwrap
from collections import UserDict
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..exit_codes import INTERRUPTED
from ..output.terminal import say

USAGE_ERROR: Any = typer.BadParameter.__base__
"""What a wrong command line raises: Click's, or in newer versions of Typer that of its own copy of Click."""
WAS_INTERRUPTED = "interrupted; what was printed before is complete"
GROUPS = {
    "Make an instance": ("import", "predict", "generate", "fit", "validate", "schema"),
    "Plan": ("solve", "compare", "pareto"),
    "Look at a plan and carry it out": ("report", "diff", "verify", "export-plan"),
    "Solvers": ("solvers", "doctor", "export-model"),
}
"""The commands by what they are for, as `--help` shows them."""
VERBS = {
    "import": "Turn somebody else's data into an instance.",
    "predict": "Predict time, memory and cost of training a model, or make an instance of it.",
    "generate": "Make a reproducible synthetic instance.",
    "fit": "Fit a job's speed or loss to measurements.",
    "validate": "Check instance files without solving them; one line for each fault.",
    "schema": "Print the JSON Schema of a document.",
    "solve": "Solve instances; every plan is verified before it is shown.",
    "compare": "Compare solvers: every one on every instance, with hard limits on time and memory.",
    "pareto": "Find what no other plan beats in two aims at once, and prove that none is missing.",
    "report": "Write a stored result or frontier as one HTML page that opens without a network.",
    "diff": "Show what a plan changes, against what runs now or against another plan.",
    "verify": "Check stored results: constraints, objective, bounds and everything else that can be derived "
    "again.",
    "export-plan": "Write a plan, once it is verified, for those who carry it out.",
    "solvers": "List the solvers: what they can solve and prove, and whether they can be used here.",
    "doctor": "Check that the libraries load together and that every solver answers right.",
    "export-model": "Write the textbook model for any other solver; earlier objectives are not fixed in it.",
}
"""First line of each command, which `--help` shows without loading it."""
EXAMPLES = {
    "import": (
        "clusterplan import slurm nodes.json queue.json --output cluster.yaml",
        "clusterplan import kubernetes nodes.json pods.json --output cluster.yaml",
    ),
    "predict": (
        "clusterplan predict gpt2-large --hardware h100,a100-80,l4 --batch 4",
        "clusterplan predict gpt2-large --hardware h100,l4 --kind staging --within 48 --solve",
    ),
    "generate": ("clusterplan generate allocation --jobs 50 --seed 1 --output jobs.yaml",),
    "fit": ("clusterplan fit speed example:synthetic-speed.csv",),
    "validate": ("clusterplan validate example:tiresias-testbed",),
    "schema": ("clusterplan schema staging",),
    "solve": (
        "clusterplan solve example:tiresias-testbed",
        "clusterplan solve cluster.yaml --format json > plan.json",
        "clusterplan solve cluster.yaml --what-if drain=gpu-003 --what-if add=2xh100",
    ),
    "compare": ("clusterplan compare example:heterps-ctr --solvers exact,greedy --output compared",),
    "pareto": ("clusterplan pareto example:opt-350-three-gpus --output frontier",),
    "report": ("clusterplan report cluster.yaml plan.json --output plan.html",),
    "diff": ("clusterplan diff cluster.yaml plan.json",),
    "verify": ("clusterplan verify cluster.yaml plan.json",),
    "export-plan": ("clusterplan export-plan cluster.yaml plan.json --format slurm --output plan.sh",),
    "solvers": ("clusterplan solvers",),
    "doctor": ("clusterplan doctor",),
    "export-model": ("clusterplan export-model example:heterps-ctr --format mps --output model.mps",),
}
"""What stands below the options in the help of a command."""
ELSEWHERE = {
    "diff": ("plans.diff", "diff"),
    "export-plan": ("plans.export", "export_plan"),
    "import": ("instances.imports", "importers"),
    "predict": ("instances.predict", "predict"),
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
            group.name, group.help, group.epilog = name, VERBS[name], _examples(name)
            return group
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        alone.command(name, epilog=_examples(name))(found)
        return typer.main.get_command(alone)


class Verbs(TyperGroup):
    """A group that knows the names and the first lines of its commands before they are loaded."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Loading(VERBS)  # typer looks a command up here only when it is run

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what is wrong on the command line is told with what was given and is allowed."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # Typer would end without a word
            say(WAS_INTERRUPTED)
            raise typer.Exit(INTERRUPTED) from None
        except USAGE_ERROR as error:
            _tell(error)
            raise

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names."""
        del ctx
        return list(VERBS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and first lines, by what the commands are for."""
        del ctx
        longest = max(map(len, VERBS))
        most = formatter.width - 6 - longest
        for title, names in GROUPS.items():
            with formatter.section(title):
                rows = [(name.ljust(longest), _shortened(VERBS[name], most)) for name in names]
                formatter.write_dl(rows)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the names that go on like this; a shell waits for them, so that no command is loaded."""
        self.commands = {name: TyperCommand(name, help=line) for name, line in VERBS.items()}
        return super().shell_complete(ctx, incomplete)


def _examples(name: str) -> str:
    """Return the examples of a command; the mark keeps each on a line of its own."""
    return "\n".join(
        [
            "\b",
            "Examples:" if len(EXAMPLES[name]) > 1 else "Example:",
            *(f"  {line}" for line in EXAMPLES[name]),
        ]
    )


def _tell(error: Any) -> None:
    """Add to an error of the command line the value that was given, or the commands that there are."""
    group = getattr(error.ctx, "command", None) if hasattr(error, "ctx") else None
    if error.message.startswith("No such command") and isinstance(group, TyperGroup):
        error.message += f" There are: {', '.join(group.list_commands(error.ctx))}."
    error.message = error.message.removeprefix("Value error, ")
    given = _given(getattr(getattr(error, "param", None), "opts", ()))
    if isinstance(error, typer.BadParameter) and given is not None and repr(given) not in error.message:
        error.message = f"is {given!r}; {error.message[:1].lower()}{error.message[1:]}"


def _given(options: Sequence[str]) -> str | None:
    """Return what was typed after one of these options; None if that is not known."""
    for word, following in pairwise([*sys.argv[1:], ""]):
        option, sign, value = word.partition("=")
        if option in options and option.startswith("-"):
            return value if sign else following
    return None


def _shortened(line: str, most: int) -> str:
    """Return the first words of a line."""
    return line if len(line) <= most else textwrap.shorten(line, most, placeholder="...")
