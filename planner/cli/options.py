"""Options of `solve` from the command line, a configuration file and the defaults, in that order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...instances.common.errors import InstanceError, OptionError
from ...instances.files.reading import parse_document, read_text
from ...solvers.common.options import SolveOptions, parse_options
from ..batch.solve_many import BatchOptions
from .common import RunOptions

DEFAULT_TIME_LIMIT_S = 60.0


def _setting(text: str) -> tuple[str, Any]:
    """Read KEY=VALUE; a value that looks like a number or truth value is one."""
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise OptionError(f"--set {text!r}: write KEY=VALUE")
    try:
        parsed = parse_document(value, "--set", ".yaml")
    except InstanceError:
        parsed = value
    return key, parsed if isinstance(parsed, bool | int | float | str) else value


def merged_options(
    config: Path | None, given: dict[str, Any], settings: list[str]
) -> tuple[str | None, SolveOptions]:
    """Merge the configuration file with the options given on the command line, which win."""
    merged: dict[str, Any] = {"time_limit_s": DEFAULT_TIME_LIMIT_S}
    solver = None
    if config is not None:
        try:
            data = parse_document(read_text(config), str(config), config.suffix.lower())
        except InstanceError as error:
            raise OptionError(str(error)) from None
        if not isinstance(data, dict) or not isinstance(data.get("solver", ""), str):
            raise OptionError(f"{config}: must be a mapping of options such as 'solver: auto'")
        solver = data.pop("solver", None)
        merged |= data
    merged |= {key: value for key, value in given.items() if value is not None}
    if merged["time_limit_s"] == 0:
        merged["time_limit_s"] = None
    options = parse_options(merged)
    method_options = {**options.method_options, **dict(map(_setting, settings))}
    return solver, options.model_copy(update={"method_options": method_options})


def search_options(
    run: RunOptions, settings: Sequence[str] = (), **more: Any
) -> tuple[str | None, SolveOptions]:
    """Return the solver that is named, if any, and the options of every solve."""
    given = {"time_limit_s": run.time_limit, "gap": run.gap, "threads": run.threads, "seed": run.seed}
    configured, options = merged_options(run.config, {**given, **more}, [*(run.settings or ()), *settings])
    return run.solver or configured, options


def batch_options(run: RunOptions) -> BatchOptions:
    """Return how to run a batch.

    Raises
    ------
    OptionError
        If options do not belong together.
    """
    if (run.engine == "dask") != (run.scheduler is not None):
        raise OptionError("--engine dask and --scheduler ADDRESS belong together; give both or neither")
    return BatchOptions(
        jobs=run.jobs,
        output=run.output,
        resume=run.resume,
        kill_after_s=run.kill_after,
        memory_limit_gib=run.memory_limit,
        scheduler=run.scheduler,
        allow_outside=run.allow_outside,
        changes=run.changes(),
    )
