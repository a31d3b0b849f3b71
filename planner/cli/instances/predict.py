"""The command `predict`: time, memory and cost of training a model on given hardware.

A deadline is a day of the week, a date, or a date and a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ....instances.common.errors import OptionError
from ....instances.documents import save
from ....instances.prediction import CATALOGUE, Prediction
from ....instances.prediction import predict as predicted
from ...api import solve
from ...exit_codes import INFEASIBLE, SOLVED, code_of_result
from ...output import say, write_file
from ...reports.page import as_text_column
from ...reports.prediction_page import overview_columns, prediction_page
from ...reports.text import console, csv_text, table_of
from ..options import HowToPrint, argument, option, option_field, pairs, start_logging, taking, write_text
from ..solving import show_results
from .output import emit

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NEAR = ("today", "tomorrow")
HOUR = timedelta(hours=1)


def hours_until(text: str, now: datetime | None = None) -> float:
    """Return the hours from now until a deadline; a day alone means its end, in local time.

    Parameters
    ----------
    text
        Such as ``friday``, ``tomorrow``, ``2026-11-27`` or ``2026-11-27T18:00``; an offset (``+01:00``) is
        heeded.
    now
        Current time; by default that of the clock.

    Raises
    ------
    OptionError
        If it is none of these, or has passed.
    """
    asked = (now or datetime.now()).astimezone()
    try:
        until = _until(text.strip(), asked.date()).astimezone()
    except (ValueError, OverflowError):
        what = "write a day such as friday, tomorrow or 2026-11-27, or 2026-11-27T18:00"
        raise OptionError(f"--deadline {text!r:.60}: {what}") from None
    hours = (until - asked) / HOUR
    if hours <= 0:
        raise OptionError(f"--deadline {text!r:.60}: is over since {-hours:.1f} h")
    return hours


def _until(text: str, today: date) -> datetime:
    """Parse a date or time as text; a day alone means its end, the next midnight."""
    if text.lower() in DAYS:
        day = today + timedelta(days=(DAYS.index(text.lower()) - today.weekday()) % len(DAYS))
    elif text.lower() in NEAR:
        day = today + timedelta(days=NEAR.index(text.lower()))
    else:
        try:
            day = date.fromisoformat(text)
        except ValueError:
            return datetime.fromisoformat(text)
    return datetime.combine(day + timedelta(days=1), time())


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """The options of `predict`, in the order of `--help`."""

    model: Annotated[str, argument("A model's name, config.json, table of layers or ONNX file.")]
    hardware: Annotated[str, option("GPUs or machines of the price list, such as h100,a100-80,l4.")]
    batch: int = option_field("Samples of one GPU at a time.", default=8, min=1)
    sequence: int | None = option_field("Tokens of a sample. [default: the most]", min=1)
    precision: str | None = option_field(
        "fp64, fp32, tf32, fp16, bf16 or fp8. [default: bf16, else fp16 on tensor cores, else fp32]"
    )
    measurements: list[str] | None = option_field(
        "What was timed on a GPU; may be repeated, with its name.", metavar="[NAME=]FILE"
    )
    plan_measurements: bool = option_field(
        "Print which shapes to time; with --output FILE.py write the script that times them.",
        "--plan-measurements",
        default=False,
    )
    samples: float = option_field("Samples to train.", default=1e6)
    epochs: float = option_field("How many times over.", default=1.0)
    records: Path | None = option_field(
        "CSV of trainings at other batch sizes (batch, epochs), to predict the epochs."
    )
    within: float | None = option_field("In how many hours it has to be done.", metavar="HOURS")
    deadline: str | None = option_field("By when: friday (its end), 2026-11-27 or 2026-11-27T18:00.")
    gpus: int | None = option_field("GPUs that share the training. [default: the best number]")
    tensor: int | None = option_field("GPUs that share each layer. [default: the best]")
    pipeline: int | None = option_field("Stages of layers. [default: the best]")
    zero: int | None = option_field("Stage of ZeRO, 0 to 3. [default: the fastest]")
    recompute: bool | None = option_field(
        "Compute activations again. [default: where memory needs it]", "--recompute/--no-recompute"
    )
    fused_attention: bool = option_field(
        "Attention is one kernel that keeps no scores.", "--fused-attention", default=False
    )
    optimiser: str = option_field("sgd, momentum, adam or adamw.", default="adam")
    global_batch: int | None = option_field("Samples of all GPUs between two exchanges of gradients.", min=1)
    microbatches: int = option_field("Batches between two exchanges of gradients.", default=8, min=1)
    price: str | None = option_field("USD an hour of a GPU, such as h100=4.5,l4=0.8.")
    limit: str | None = option_field("How many GPUs there are, such as h100=8,l4=32.")
    network: float | None = option_field("Network of a GPU.", metavar="GBIT/S")
    catalogue: str = option_field("The price list.", default=CATALOGUE)
    kind: Literal["staging", "allocation"] | None = option_field("Make an instance, and write it.")
    solve: bool = option_field("Solve the instance too, and show its proven plan.", "--solve", default=False)
    output: Path | None = option_field("File of the page (.html), the instance or the script.")
    format: HowToPrint = "table"


@taking(PredictOptions)
def predict(run: PredictOptions) -> None:
    """Predict time, memory and cost of training a model, or make an instance of it.

    Every figure has a 90 % interval.
    """
    start_logging(verbose=0, quiet=False)
    _check(run)
    prediction = predicted(
        run.model,
        run.hardware,
        batch=run.batch,
        sequence=run.sequence,
        precision=run.precision,
        measurements=_files(run.measurements),
        samples=run.samples,
        epochs=run.epochs,
        within_h=run.within if run.deadline is None else hours_until(run.deadline),
        microbatches=run.microbatches,
        prices=pairs(run.price, "--price", float) if run.price else None,
        limits=pairs(run.limit, "--limit", int) if run.limit else None,
        network_gbit_per_s=run.network,
        catalogue=run.catalogue,
        gpus=run.gpus,
        tensor=run.tensor,
        pipeline=run.pipeline,
        zero_stage=run.zero,
        recompute=run.recompute,
        fused_attention=run.fused_attention,
        optimiser=run.optimiser,
        global_batch=run.global_batch,
        records=run.records,
    )
    if run.plan_measurements:
        _plan(prediction, run)
    elif run.solve or run.kind is not None:
        raise typer.Exit(_instance(prediction, run))
    elif run.output is not None:
        write_file(run.output, prediction_page(prediction))
        say(f"{prediction.answer()} Written: {run.output}")
    else:
        _show(prediction, run.format)
    if prediction.best is None and not run.plan_measurements:
        raise typer.Exit(INFEASIBLE)


OF_TABLE = ("gpus", "tensor", "pipeline", "zero", "recompute")
"""Options that fix how the training is divided, which instances leave to the solver."""


def _check(run: PredictOptions) -> None:
    """Raise an error for options that exclude each other."""
    of_instance = run.kind is not None or run.solve
    if run.plan_measurements and of_instance:
        raise OptionError("--plan-measurements makes no instance; leave --kind and --solve out")
    if not (of_instance or run.plan_measurements):
        if run.output is not None and run.output.suffix.lower() != ".html":
            what = "give a page (.html), or add --kind staging, --kind allocation or --plan-measurements"
            raise OptionError(f"--output {run.output}: {what}")
        if run.output is not None and run.format != "table":
            raise OptionError(f"--format {run.format}: a page is written; leave --output out to print data")
    fixed = [name for name in OF_TABLE if getattr(run, name) is not None]
    if of_instance and fixed:
        what = "an instance leaves to the solver how GPUs share the work; --limit says how many there are"
        raise OptionError(f"--{fixed[0]}: {what}")
    if run.format != "table" and (run.plan_measurements or (of_instance and not run.solve)):
        what = (
            "shapes are printed as CSV" if run.plan_measurements else "the ending of --output is the format"
        )
        raise OptionError(f"--format {run.format}: {what}; leave it out")
    if run.solve and run.format == "csv":
        raise OptionError("--format csv: a plan is printed as table or json")
    if run.within is not None and run.deadline is not None:
        raise OptionError("--within and --deadline say the same; give one of them")


def _files(given: list[str] | None) -> Any:
    """Parse arguments [NAME=]FILE: the only file, or the files by hardware name; None without arguments."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    files: dict[str, str] = {}
    for text in given:
        given_name, _, file = text.partition("=")
        name = given_name.strip().lower()
        if not name or not file or name in files:
            raise OptionError(f"--measurements {text!r:.100}: write NAME=FILE, each name once")
        files[name] = file
    return files


def _plan(prediction: Prediction, run: PredictOptions) -> None:
    if run.output is not None:
        write_text(run.output, prediction.timing_script())
        say(f"{run.output}: run it on the GPU: python {run.output.name} measured.csv")
        return
    rows = prediction.shapes_to_time()
    _print_csv(rows)


OF_PLAN = {
    "staging": (
        "The instance, and the plan below, may divide the layers among GPUs of all sorts, rented one by one; "
        "above, each sort is alone, in whole machines."
    ),
    "allocation": (
        "The instance, and the plan below, share one global batch out to GPUs of one sort over the network, "
        "as fast as can be by the deadline; above, replicas have batches of their own, at least cost."
    ),
}
"""Why the plan of an instance differs from the answer above it."""


def _instance(prediction: Prediction, run: PredictOptions) -> int:
    """Write the instance made from a prediction, solve it if requested, and return the exit code."""
    made = prediction.instance(run.kind or "staging")
    if not run.solve:
        emit(made, run.output)
        return SOLVED
    if run.output is not None:
        save(made, run.output)
    if run.format == "table":
        _show(prediction, "table")
        typer.echo("")
        typer.echo(OF_PLAN[run.kind or "staging"])
        typer.echo("")
    result = solve(made, time_limit_s=60.0)
    if run.format == "json":
        typer.echo(result.to_json())
    else:
        show_results([result], made)
    return code_of_result(result)


def _print_csv(rows: Sequence[dict[str, Any]]) -> None:
    typer.echo(csv_text(list(rows[0]), [list(row.values()) for row in rows]), nl=False)


def _show(prediction: Prediction, form: str) -> None:
    if form == "json":
        typer.echo(prediction.to_json())
        return
    rows = prediction.rows()
    if form == "csv":
        _print_csv(rows)
        return
    out = console()
    out.print(prediction.answer())
    out.print("")
    out.print(table_of([*map(as_text_column, overview_columns())], rows))
    for line in prediction.sentences():
        out.print(line)
