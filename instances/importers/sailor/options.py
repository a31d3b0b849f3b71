"""What can be asked of the import of Sailor's profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ...common.fields import Name, NonNegative, PositiveCount
from ..importer import Option
from ..staging_options import StagingOptions


def _split(names: Any) -> Any:
    """Return what stands between commas, and numbers as text."""
    if isinstance(names, str):
        return tuple(name.strip() for name in names.split(","))
    return [str(name) if type(name) is int else name for name in names] if isinstance(names, list) else names


class SailorOptions(StagingOptions):
    """Measured layer times of a language model on several GPU types (Sailor): a staging instance."""

    ORDER = (
        *("model_dir", "types", "microbatch", "limit", "throughput", "prices", "parallel_share"),
        *("link_gbit_per_s", "microbatches_per_step"),
    )

    model_dir: Annotated[Path, Option("Folder of one model's profiles, such as profiles/OPT-350.")]
    types: Annotated[
        tuple[Name, ...],
        Field(min_length=1),
        BeforeValidator(_split),
        Option(
            "GPU types, separated by commas; A100-40-tp4: four that share each layer; all: those measured on "
            "one GPU, or at --tensor-parallel.",
            kind=str,
        ),
    ]
    tensor_parallel: Annotated[
        tuple[Name, ...] | None,
        BeforeValidator(_split),
        Option("GPUs of a unit, such as 1,2,4, or all that were measured. [default: 1]", kind=str),
    ] = None
    microbatch: Annotated[
        PositiveCount | None, Option("Samples of the profiled batch. [default: most measured]")
    ] = None
    limit: Annotated[
        dict[Name, PositiveCount],
        Option("GPUs of each type, such as A100-40=8,GH-96=4, or units: A100-40-tp4=2."),
    ] = {}
    prices: Annotated[
        dict[Name, NonNegative], Option("USD per GPU-hour, such as Titan-RTX=0.5.", option="--price")
    ] = {}
    microbatches_per_step: Annotated[PositiveCount, Option("Microbatches that share an all-reduce.")] = 4
    llm_info: Annotated[Path | None, Option("Sizes; by default llm_info.json above the folder.")] = None
