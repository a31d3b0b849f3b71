"""The commands that turn measurements into fields of a job: `fit speed` and `fit loss`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from ....instances.allocation.fits import fit_loss, fit_speed
from ...reports.text import TextColumn, console, figure, first_rows, percent, table_of

if TYPE_CHECKING:
    from ....instances.allocation.fits import LossFit, SpeedFit
    from ....instances.allocation.fits.loss import FittedLoss
    from ....instances.allocation.fits.speed import Candidate, FittedSpeed

FitT = TypeVar("FitT", "LossFit", "SpeedFit")

fits = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

File = Annotated[Path, typer.Argument(metavar="FILE.csv", help="Measurements.", show_default=False)]
Format = Annotated[Literal["table", "json"], typer.Option(help="How to print.")]


@fits.command()
def speed(
    file: File,
    model: Annotated[
        Literal["auto", "ps_sync", "ps_async", "ring_allreduce"],
        typer.Option(help="Form of the speed; auto takes the smallest leave-one-out error."),
    ] = "auto",
    batch: Annotated[
        float | None, typer.Option(help="Global batch of the job, and of rows that do not name theirs.")
    ] = None,
    batch_per_gpu: Annotated[
        float | None,
        typer.Option(help="Batch of each worker in all rows and in the job, in place of --batch."),
    ] = None,
    allow_rank_deficient: Annotated[
        bool,
        typer.Option(
            "--allow-rank-deficient", help="Accept coefficients that the measurements leave undetermined."
        ),
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
    steps_per_epoch: Annotated[float, typer.Option(help="Steps of one pass over the data.")],
    delta: Annotated[
        float, typer.Option(help="Converged: the loss falls by less than this share of its maximum …")
    ] = 0.01,
    patience: Annotated[int, typer.Option(help="… in each of so many epochs in a row.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the resampling behind the interval.", min=0)] = 0,
    format: Format = "table",
) -> None:
    """Remaining steps until convergence from the columns step and loss."""
    _print(fit_loss(file, steps_per_epoch, delta, patience, seed=seed), format, _show_loss)


def _print(fit: FitT, format: str, show: Callable[[FitT], None]) -> None:
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
    points: list[TextColumn[FittedSpeed]] = [
        ("where", False, lambda row: row.place),
        ("ps", True, lambda row: str(row.ps)),
        ("workers", True, lambda row: str(row.workers)),
        ("batch", True, lambda row: figure(row.batch)),
        ("measured s/step", True, lambda row: figure(row.step_s)),
        ("fitted s/step", True, lambda row: figure(row.fitted_step_s)),
        ("error", True, lambda row: _signed_percent(row.error)),
    ]
    candidates: list[TextColumn[Candidate]] = [
        ("model", False, lambda one: one.model),
        ("MAPE", True, lambda one: percent(one.mape)),
        ("leave-one-out", True, lambda one: percent(one.leave_one_out)),
        ("rank", True, lambda one: f"{one.rank} of {one.coefficients}"),
        ("", False, lambda one: "chosen" if one.model == fit.model else ""),
    ]
    console().print(first_rows(points, fit.rows))
    typer.echo()
    console().print(table_of(candidates, fit.candidates))
    typer.echo()
    for number, value in enumerate(fit.theta):
        typer.echo(f"θ{number} = {value:.8g}")
    _say_warnings(fit.warnings)
    typer.echo(f"measured: {fit.points} points, {fit.range.words()}")
    typer.echo(f"speed: {_flow(fit.fields())}")


def _show_loss(fit: LossFit) -> None:
    points: list[TextColumn[FittedLoss]] = [
        ("where", False, lambda row: row.place),
        ("step", True, lambda row: figure(row.step)),
        ("measured loss", True, lambda row: figure(row.loss)),
        ("fitted loss", True, lambda row: figure(row.fitted_loss)),
        ("error", True, lambda row: "outlier" if row.outlier else _signed_percent(row.error)),
    ]
    console().print(first_rows(points, fit.rows))
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
