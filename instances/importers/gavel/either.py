"""Gavel: one importer for both kinds of instance, as the command line has it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ...common.base import Instance
from ...common.errors import OptionError
from ..importer import Importer, Option
from .allocation import import_gavel
from .consolidation import import_gavel_consolidation
from .files import Capacity, GavelFiles, GpusPerServer, GpuType, Servers


class GavelEitherOptions(GavelFiles):
    """Jobs with measured speeds on three GPU types (Gavel, OSDI'20): allocation or consolidation."""

    ORDER = ("throughputs", "trace", "kind", "capacity", "gpu_type", "servers", "gpus_per_server")

    kind: Annotated[Literal["allocation", "consolidation"], Option("What to plan.")] = "allocation"
    capacity: Capacity | None = None
    gpu_type: GpuType | None = None
    servers: Servers | None = None
    gpus_per_server: GpusPerServer | None = None


@Importer
def import_gavel_either(options: GavelEitherOptions) -> Instance:
    """Return the allocation or consolidation instance of a Gavel trace.

    Raises
    ------
    OptionError
        If an option is missing that the kind needs, or one is given that belongs to the other kind.
    """
    files = {name: getattr(options, name) for name in GavelFiles.model_fields}
    cluster = {name: getattr(options, name) for name in ("gpu_type", "servers", "gpus_per_server")}
    _check("allocation", options.kind, {"capacity": options.capacity})
    _check("consolidation", options.kind, cluster)
    if options.kind == "allocation":
        return import_gavel(**files, capacity=options.capacity)
    return import_gavel_consolidation(**files, **cluster)


def _check(needed_by: str, kind: str, options: dict[str, Any]) -> None:
    """Make sure that options are given with the kind of instance that needs them, and only there."""
    given = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    for name, value in given.items():
        if kind == needed_by and value is None:
            raise OptionError(f"{name} is missing; --kind {kind} needs {', '.join(given)}")
        if kind != needed_by and value is not None:
            raise OptionError(f"{name} goes with --kind {needed_by} only")
