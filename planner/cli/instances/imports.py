"""The commands `import SOURCE`, generated from the options of the importers."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from ....instances.common.errors import OptionError
from ....instances.common.fields import marks_of
from ....instances.importers import IMPORTERS
from ....instances.importers.importer import Importer, Option, option_of
from ..options import Quiet, pairs, start_logging
from .output import BY_NAME, Output, Steps, emit

importers = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def _parameter(field_name: str, field: FieldInfo) -> tuple[str, inspect.Parameter, Callable[[Any], Any]]:
    """Return the field name of an importer's option, its command parameter, and the parser of its value."""
    marks = list(marks_of(field))
    shown = option_of(field)
    default: Any = inspect.Parameter.empty if field.is_required() else field.default
    kind, read = _typed(shown.option or f"--{field_name}", field.annotation, shown, marks)
    name = shown.argument or field_name
    if shown.argument:
        option: Any = typer.Argument(help=shown.help)
    else:
        # Typer makes the name of an option of that of its parameter, and a --no- beside that of a flag.
        names = [shown.option] if shown.option else []
        least = max(mark.ge for mark in marks if hasattr(mark, "ge")) if kind is int else shown.least
        option = typer.Option(*names, help=shown.help, min=least, show_default="[default:" not in shown.help)
    if default in ((), {}):
        default = None
    annotation: Any = Annotated[kind | None if default is None else kind, option]
    return field_name, inspect.Parameter(name, BY_NAME, default=default, annotation=annotation), read


def _typed(flag: str, annotation: Any, shown: Option, marks: list[Any]) -> tuple[Any, Callable[[Any], Any]]:
    """Return the command-line type of an importer's option, and the parser of its value."""
    kind = _without_marks(annotation)
    if type(None) in get_args(kind):
        kind = _without_marks(next(part for part in get_args(kind) if part is not type(None)))
    if get_origin(kind) is dict:
        number = int if int in marks else float
        return str, lambda text: pairs(text, flag, number)
    if get_origin(kind) is tuple and shown.kind is None:
        kind = types.GenericAlias(list, _without_marks(get_args(kind)[0]))
    return shown.kind or kind, shown.read or (lambda value: value)


def _without_marks(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _command(importer: Importer[Any, Any]) -> Callable[..., None]:
    """Return the command-line function of an importer, with its own options and the common ones."""
    made = [_parameter(name, field) for name, field in importer.options.in_order().items()]

    def run(output: Path | None, solve: str | None, report: Path | None, **typed: Any) -> None:
        limit, quiet = typed.pop("time_limit"), typed.pop("quiet")
        start_logging(verbose=0, quiet=quiet)
        if report is not None and solve is None:
            raise OptionError(
                "--report is the page of a plan; say with --solve SOLVER which one, such as auto"
            )
        given = {
            name: read(typed[parameter.name])
            for name, parameter, read in made
            if typed[parameter.name] is not None
        }
        if solve is None:
            emit(importer(**given), output)
            return
        from ..solving import solve_imported  # heavy

        steps = Steps(quiet)
        with steps.step("reading"):
            instance = importer(**given)
        if output is not None:
            emit(instance, output)
        raise typer.Exit(solve_imported(instance, solve, limit, report, steps))

    last = [
        inspect.Parameter(name, BY_NAME, default=default, annotation=annotation)
        for name, (default, annotation) in COMMON_OPTIONS.items()
    ]
    signature = inspect.Signature([*(parameter for _, parameter, _ in made), *last])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: part.annotation for name, part in signature.parameters.items()}
    run.__doc__ = importer.options.__doc__
    return run


COMMON_OPTIONS: dict[str, tuple[Any, Any]] = {
    "output": (None, Output),
    "solve": (
        None,
        Annotated[
            str | None, typer.Option(metavar="SOLVER", help="Solve the instance too, such as with auto.")
        ],
    ),
    "report": (None, Annotated[Path | None, typer.Option(help="HTML file to write of the plan.")]),
    "time_limit": (
        None,
        Annotated[
            float | None, typer.Option(help="Seconds for --solve, 0 for no limit. [default: 60]", min=0)
        ],
    ),
    "quiet": (False, Quiet),
}
"""The options that all importers share: default and annotation by name."""


for _name, _importer in IMPORTERS.items():
    importers.command(_name)(_command(_importer))
