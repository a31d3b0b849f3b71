"""Tensors of a model as blocks for parameter servers: a consolidation instance (Optimus, EuroSys'18, 5.3).

A block is a job that has to be placed, a parameter server is a server, and the traffic of a server is what
one worker sends to it and receives from it. A file has names and numbers of parameters: CSV, or JSON, where a
mapping of names to numbers, to shapes or to entries of the header of a `safetensors` file does as well as a
list of entries. A model that `predict` knows needs no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from math import prod
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ..common.errors import OptionError
from ..common.faults import validated, validated_rows
from ..common.fields import Checked, Complaint, Name, Positive, PositiveCount, PositiveTaskCount
from ..consolidation.instance import ConsolidationInstance
from ..files.csv_tables import model_rows
from ..files.reading import fail, parse_document, read_text
from .importer import Importer, ImportOptions, Option

MAX_TENSORS = 100_000


class TensorOptions(ImportOptions):
    """Blocks of parameters on parameter servers (Optimus, EuroSys'18): a consolidation instance."""

    servers: Annotated[PositiveTaskCount, Option("Parameter servers.")]
    file: Annotated[
        Path | None,
        Option("CSV of name and parameters, or JSON of names and sizes.", argument="file"),
    ] = None
    model: Annotated[
        Name | None, Option("In place of a file, a model that predict knows, such as resnet50-v2.")
    ] = None
    cuts: Annotated[bool, Option("Blocks may be cut between any two parameters.")] = False
    any_requests: Annotated[
        bool, Option("Numbers of blocks on servers may differ by more than one; always with --cuts.")
    ] = False
    bits: Annotated[PositiveCount, Option("Bits of a parameter.")] = 32
    steps_per_s: Annotated[
        Positive, Option("Steps of training a second, each of which needs all blocks.")
    ] = 1.0


class _Tensor(Checked):
    name: Name
    parameters: PositiveCount | None = None
    shape: Annotated[tuple[PositiveCount, ...], Field(max_length=20)] | None = None

    def _complaints(self) -> Iterator[Complaint]:
        if (self.parameters is None) == (self.shape is None):
            yield "parameters", "is needed, or a shape in its place"

    @property
    def size(self) -> int:
        """Number of parameters of the tensor."""
        return self.parameters or prod(self.shape or ())


@Importer
def import_tensors(options: TensorOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a model's tensors on parameter servers."""
    if (options.file is None) == (options.model is None):
        raise OptionError("give a FILE of tensors, or --model with a model that predict knows; one of both")
    from ..prediction import load_model  # heavy

    source = str(options.model or options.file)
    found = _of_file(options.file) if options.file else load_model(source).tensors()
    tensors = list(islice(found, MAX_TENSORS + 1))
    if len(tensors) > MAX_TENSORS:
        raise fail(source, f"has more than {MAX_TENSORS:,} tensors; join small ones")
    count, total = options.servers, sum(size for _, size in tensors)
    each = Fraction(str(options.steps_per_s)) * options.bits / 10**9
    few, more = divmod(len(tensors), count)
    limited = not (options.cuts or options.any_requests)
    assumptions = [
        f"A parameter has {options.bits} bits and is needed {options.steps_per_s:g} times a second: so much "
        "goes from a worker to its server, and so much comes back. "
        f"0.001 Gbit/s are {float(1 / each / 1000):.10g} parameters.",
        f"Each server could hold all {total:,} parameters.",
        "The numbers of blocks on servers, which are requests, differ by at most one.",
    ]
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": f"tensors-{Path(source).stem}"[:100],
        "source": f"tensors of {source}",
        "assumptions": assumptions[: 2 + limited],
        "objectives": ["imbalance", *["spread"] * options.cuts, "traffic"],
        "servers": [
            {
                "name": f"ps-{n + 1}",
                "capacity": {"parameters": total, **({"requests": few + (n < more)} if limited else {})},
            }
            for n in range(count)
        ],
        "jobs": [
            {
                "name": name,
                "must_place": True,
                "spread": "preferred" if options.cuts else "free",
                "tasks": size // part,
                "task_demand": {"parameters": part, **({"requests": 1} if limited else {})},
                "traffic_gbit_per_s": float(each * part),
            }
            for name, size in tensors
            for part in [1 if options.cuts else size]
        ],
    }
    return validated(ConsolidationInstance, document, source)


def _of_file(path: Path) -> Iterator[tuple[str, int]]:
    """Yield name and number of parameters of each tensor of a CSV or JSON file."""
    source, place = str(path), ""
    if path.suffix.lower() == ".csv":
        rows: list[tuple[int, Any]] = [*model_rows(path, _Tensor)]
    else:
        rows, place = [*enumerate(_entries(parse_document(read_text(path), source, ".json"), source))], "[{}]"
    for _, tensor in validated_rows(_Tensor, rows, source, place):
        yield tensor.name, tensor.size


def _entries(data: Any, source: str) -> Iterator[dict[str, Any]]:
    """Yield the tensors of a JSON document as mappings with the fields of `_Tensor`."""
    if isinstance(data, dict):
        for name, value in data.items():
            field = "shape" if isinstance(value, list) else "parameters"
            if name != "__metadata__":
                yield {"name": name, **(value if isinstance(value, dict) else {field: value})}
    elif isinstance(data, list) and all(isinstance(each, dict) for each in data):
        yield from data
    else:
        raise fail(source, "is neither a mapping of names to sizes nor a list of tensors, each a mapping")
