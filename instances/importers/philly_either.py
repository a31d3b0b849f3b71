"""Philly: one importer for both kinds of instance, as the command line has it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from ..common.base import Instance
from ..common.errors import OptionError
from ..common.fields import Name, PositiveCount, ServerCount
from .importer import Importer, ImportOptions, Option
from .philly import Instant, PhillyOptions, Spread, import_philly
from .philly_trace import SHORTEST_S, PhillyTraceOptions, import_philly_trace

NEEDED = {"consolidation": ("at", "servers"), "scheduling": ("gpus",)}


class PhillyEitherOptions(ImportOptions):
    """Jobs of a production cluster (Philly, ATC'19): those of one instant, or a trace of them."""

    jobs: Annotated[Path, Option("philly.csv of the Pollux artifact.", argument="jobs")]
    kind: Annotated[
        Literal["consolidation", "scheduling"],
        Option("consolidation: where the jobs of an instant run; scheduling: which job runs when."),
    ] = "consolidation"
    at: Annotated[Instant | None, Option("The instant, such as '2017-11-01 12:00'.", kind=str)] = None
    servers: Annotated[ServerCount | None, Option("Servers of the cluster.")] = None
    gpus_per_server: Annotated[PositiveCount | None, Option("GPUs of each server. [default: 8]")] = None
    spread: Annotated[
        Spread | None,
        Option(
            "one-server: a job that fits one must have one, others had better use few. [default: one-server]"
        ),
    ] = None
    virtual_cluster: Annotated[Name | None, Option("Only the jobs of this one, such as 6214e9.")] = None
    gpus: Annotated[PositiveCount | None, Option("With --kind scheduling: GPUs of the cluster.")] = None
    first: Annotated[
        PositiveCount | None, Option("With --kind scheduling: only so many jobs, by submission.")
    ] = None
    max_duration_s: Annotated[
        float | None, Option("With --kind scheduling: longer durations are cut to this.", least=SHORTEST_S)
    ] = None


@Importer
def import_philly_either(options: PhillyEitherOptions) -> Instance:
    """Return the consolidation instance of an instant, or the scheduling instance of a trace.

    Raises
    ------
    OptionError
        If an option is missing that the kind needs, or one is given that belongs to the other kind.
    """
    own = PhillyOptions if options.kind == "consolidation" else PhillyTraceOptions
    given: dict[str, Any] = {
        name: getattr(options, name)
        for name in PhillyEitherOptions.model_fields
        if name != "kind" and getattr(options, name) is not None
    }
    for name in given:
        if name not in own.model_fields:
            other = next(kind for kind in NEEDED if kind != options.kind)
            raise OptionError(f"{_flag(name)} goes with --kind {other} only")
    for name in NEEDED[options.kind]:
        if name not in given:
            needed = ", ".join(map(_flag, NEEDED[options.kind]))
            raise OptionError(f"{_flag(name)} is missing; --kind {options.kind} needs {needed}")
    return import_philly(**given) if options.kind == "consolidation" else import_philly_trace(**given)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
