"""One verb of the command line by itself, in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.testing import CliRunner


def invoke(command: Callable[..., Any], *arguments: object, fails: type[Exception] | None = None) -> Any:
    """Run a verb and return what it printed, with its exit code; an exception passes unless it is expected.

    Parameters
    ----------
    fails
        What it has to raise for the command line to turn into a line and an exit code; the text is returned.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(command)
    answer = CliRunner().invoke(app, [*map(str, arguments)])
    if fails is not None:
        assert isinstance(answer.exception, fails), answer.output
        return str(answer.exception)
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer
