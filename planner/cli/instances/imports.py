"""The commands that read what others recorded: `import SOURCE`, `fit speed` and `fit loss`.

The commands of importers are generated from their options. `fit` turns measurements into fields of a job.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from ....instances.allocation.fits import fit_loss, fit_speed
from ....instances.common.errors import OptionError
from ....instances.common.fields import marks_of
from ....instances.importers import IMPORTERS
from ....instances.importers.importer import Importer, Option, option_of
from ...reports.text import console, figure, first_rows, number_column, percent, plain_column, table_of
from ..options import Quiet, argument, option, option_field, pairs, parameters, start_logging
from .output import BY_NAME, Output, Steps, emit

if TYPE_CHECKING:
    from ....instances.allocation.fits import LossFit, SpeedFit

importers = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def _parameter(field_name: str, field: FieldInfo) -> tuple[str, inspect.Parameter, Callable[[Any], Any]]:
    """Return the field name of an importer's option, its command parameter, and the parser of its value."""
    marks = list(marks_of(field))
    shown = option_of(field)
    default: Any = inspect.Parameter.empty if field.is_required() else field.default
    kind, read = _typed(shown.option or f"--{field_name}", field.annotation, shown, marks)
    name = shown.argument or field_name
    if shown.argument:
        made: Any = argument(shown.help)
    else:
        # Typer makes the name of an option of that of its parameter, and a --no- beside that of a flag.
        names = [shown.option] if shown.option else []
        least = max(mark.ge for mark in marks if hasattr(mark, "ge")) if kind is int else shown.least
        made = option(shown.help, *names, min=least, show_default="[default:" not in shown.help)
    if default in ((), {}):
        default = None
    annotation: Any = Annotated[kind | None if default is None else kind, made]
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


@dataclass(kw_only=True)
class CommonOptions:
    """The options that all importers share."""

    output: Output = None
    solve: str | None = option_field("Solve the instance too, such as with auto.", metavar="SOLVER")
    report: Path | None = option_field("HTML file to write of the plan.")
    time_limit: float | None = option_field("Seconds for --solve, 0 for no limit. [default: 60]", min=0)
    quiet: Quiet = False


def _command(importer: Importer[Any, Any]) -> Callable[..., None]:
    """Return the command-line function of an importer, with its own options and the common ones."""
    made = [_parameter(name, field) for name, field in importer.options.in_order().items()]

    def run(
        output: Path | None,
        solve: str | None,
        report: Path | None,
        time_limit: float | None,
        quiet: bool,
        **typed: Any,
    ) -> None:
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
        raise typer.Exit(solve_imported(instance, solve, time_limit, report, steps))

    own = [parameter for _, parameter, _ in made]
    signature = inspect.Signature(own + parameters(CommonOptions))
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: part.annotation for name, part in signature.parameters.items()}
    run.__doc__ = importer.options.__doc__
    return run


for _name, _importer in IMPORTERS.items():
    importers.command(_name)(_command(_importer))


fits = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

File = Annotated[Path, argument("Measurements.", "FILE.csv", show_default=False)]
Format = Annotated[Literal["table", "json"], option("How to print.")]


@fits.command()
def speed(
    file: File,
    model: Annotated[
        Literal["auto", "ps_sync", "ps_async", "ring_allreduce"],
        option("Form of the speed; auto takes the smallest leave-one-out error."),
    ] = "auto",
    batch: Annotated[
        float | None, option("Global batch of the job, and of rows that do not name theirs.")
    ] = None,
    batch_per_gpu: Annotated[
        float | None,
        option("Batch of each worker in all rows and in the job, in place of --batch."),
    ] = None,
    allow_rank_deficient: Annotated[
        bool,
        option("Accept coefficients that the measurements leave undetermined.", "--allow-rank-deficient"),
    ] = False,
    format: Format = "table",
) -> None:
    """Speed coefficients from the columns workers, steps_per_s and, where they matter, ps and batch."""
    _print(
        fit_speed(file, model, batch, allow_rank_deficient, batch_per_gpu=batch_per_gpu), format, _show_speed
    )


@fits.command()
def loss(
    file: File,
    steps_per_epoch: Annotated[float, option("Steps of one pass over the data.")],
    delta: Annotated[
        float, option("Converged: the loss falls by less than this share of its maximum …")
    ] = 0.01,
    patience: Annotated[int, option("… in each of so many epochs in a row.")] = 3,
    seed: Annotated[int, option("Of the resampling behind the interval.", min=0)] = 0,
    format: Format = "table",
) -> None:
    """Remaining steps until convergence from the columns step and loss."""
    _print(fit_loss(file, steps_per_epoch, delta, patience, seed=seed), format, _show_loss)


def _print(fit: Any, format: str, show: Callable[[Any], None]) -> None:
    if format == "json":
        typer.echo(fit.model_dump_json())
    else:
        show(fit)


def _signed_percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:+.1f} %"


def _flow(value: dict[str, Any]) -> str:
    """Return a mapping as one line of YAML, with figures of eight digits."""
    parts = []
    for key, item in value.items():
        items = (
            [_flow(x) if isinstance(x, dict) else json.dumps(float(f"{x:.8g}")) for x in item]
            if isinstance(item, list)
            else None
        )
        text = f"[{', '.join(items)}]" if items else f"{item:.10g}" if isinstance(item, float) else str(item)
        parts.append(f"{key}: {text}")
    return "{" + ", ".join(parts) + "}"


def _show_speed(fit: SpeedFit) -> None:
    console().print(
        first_rows(
            [
                plain_column("where", "place"),
                number_column("ps", "ps", str),
                number_column("workers", "workers", str),
                number_column("batch", "batch"),
                number_column("measured s/step", "step_s"),
                number_column("fitted s/step", "fitted_step_s"),
                number_column("error", "error", _signed_percent),
            ],
            fit.rows,
        )
    )
    typer.echo()
    console().print(
        table_of(
            [
                plain_column("model", "model"),
                number_column("MAPE", "mape", percent),
                number_column("leave-one-out", "leave_one_out", percent),
                ("rank", True, lambda one: f"{one.rank} of {one.coefficients}"),
                ("", False, lambda one: "chosen" if one.model == fit.model else ""),
            ],
            fit.candidates,
        )
    )
    typer.echo()
    for number, value in enumerate(fit.theta):
        typer.echo(f"θ{number} = {value:.8g}")
    _say_warnings(fit.warnings)
    typer.echo(f"measured: {fit.points} points, {fit.range.words()}")
    typer.echo(f"speed: {_flow(fit.fields())}")


def _show_loss(fit: LossFit) -> None:
    console().print(
        first_rows(
            [
                plain_column("where", "place"),
                number_column("step", "step"),
                number_column("measured loss", "loss"),
                number_column("fitted loss", "fitted_loss"),
                ("error", True, lambda row: "outlier" if row.outlier else _signed_percent(row.error)),
            ],
            fit.rows,
        )
    )
    b0, b1, b2 = fit.coefficients
    typer.echo(f"\nloss(k) = 1/({b0:.6g}·k + {b1:.6g}) + {b2:.6g}, MAPE {percent(fit.mape)}")
    low, high = fit.interval
    typer.echo(
        f"converged at step {figure(fit.converged_step)}: {fit.patience} epochs of "
        f"{figure(fit.steps_per_epoch)} steps in which the loss falls by less than "
        f"{percent(fit.delta)} of its maximum"
    )
    typer.echo(
        f"remaining from step {figure(fit.last_step)}: {figure(fit.remaining_steps)} steps; "
        f"{100 * fit.confidence:g} % interval {figure(low)} to {figure(high)} (residual bootstrap)"
    )
    _say_warnings(fit.warnings)
    if fit.remaining_steps > 0:
        typer.echo(f"remaining_steps: {fit.remaining_steps:.10g}")


def _say_warnings(warnings: Sequence[str]) -> None:
    for warning in warnings:
        typer.echo(f"warning: {warning}")
