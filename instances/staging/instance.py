"""Staging instances: a chain or a graph of layers to be divided into stages on mixed hardware.

Times of layers may be given in columns TYPE_ms, TYPE_us or TYPE_s for each type of hardware.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from ..common.base import Instance
from ..common.errors import Fault, Faults, first_names, shown, some
from ..common.fields import (
    NONE_NAMED,
    NUMBER,
    TABLE_FILE,
    Cell,
    Complaint,
    Fields,
    Flag,
    Model,
    Name,
    NonNegative,
    Positive,
    PositiveCount,
    Share,
    entries,
    repeated,
    require,
    unknown_names,
    validated_in_batches,
)
from ..common.hardware import HardwareCatalogue, HardwareType, fill_from_catalogue

if TYPE_CHECKING:
    import pandas as pd


MAX_EDGES = 200_000
MAX_NAMED = 5
"""Limit of the layers of a cycle that a message names."""


class Edge(Model):
    """The layer `source` hands its output to the layer `target`."""

    source: Name
    target: Name


def edge_complaints(edges: Sequence[Edge], backward: Mapping[str, bool]) -> Iterator[Complaint]:
    """Yield complaints about graph edges: unknown layers, wrong directions and cycles.

    Parameters
    ----------
    backward
        Name of each layer → whether it belongs to the backward pass.
    """
    unknown = False
    for index, edge in enumerate(edges):
        for key in ("source", "target"):
            for complaint in unknown_names([getattr(edge, key)], backward, "", "layer"):
                unknown = True
                yield f"edges[{index}].{key}", complaint[1]
    if unknown:
        return
    for index, edge in enumerate(edges):
        if backward[edge.source] and not backward[edge.target]:
            yield f"edges[{index}]", f"leads from backward layer {edge.source!r} to a forward one"
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for edge in edges:
        sorter.add(edge.target, edge.source)
    try:
        sorter.prepare()
    except CycleError as error:
        around = [*map(repr, error.args[1][1:])]
        yield "edges", f"have a cycle through {first_names(around, MAX_NAMED)}"


NumberT = TypeVar("NumberT")
OneOrByType = Annotated[
    Annotated[NumberT, Tag("(one number)")]
    | Annotated[dict[Name, NumberT], validated_in_batches(1000), Tag("(by type)")],
    Discriminator(lambda value: "(by type)" if isinstance(value, Mapping) else "(one number)"),
]
"""A number for all types, or one for each."""
Seconds = Annotated[dict[Name, NonNegative], validated_in_batches(1000)]
"""Times by type."""


SHARE = {"compute_parallel": 0.99}
"""Default parallel share of a layer; importers use the same."""
SAMPLES = 1e6
"""Default samples of a training; importers use the same."""
PROBE_BATCH = 1.0
"""Default number of samples to which layer times refer."""
NOT_GIVEN = "Not given: "
"""First words of assumptions about fields that a document leaves out."""


class StageType(Model):
    """A sort of hardware that a stage can run on, counted in units such as one GPU or one core.

    Attributes
    ----------
    hardware
        Entry of the instance's catalogue that provides the price and memory of one unit.
    limit
        Units that there are; none means as many as one likes.
    memory_gib
        Memory of one unit; none means that memory is not checked.
    """

    model_config = ConfigDict(json_schema_extra=require(or_field=("price_usd_per_hour", "hardware")))

    name: Name
    hardware: Name | None = None
    price_usd_per_hour: NonNegative
    limit: PositiveCount | None = None
    memory_gib: Positive | None = None


def figure_on(given: float | Mapping[str, float], name: str) -> float:
    """Return a figure, one number or one by type, on the type of a name; 0 where that is missing."""
    return given.get(name, 0.0) if isinstance(given, Mapping) else given


class Layer(Model):
    """One layer of the model, with its times on ONE unit of each type for a probe batch.

    Attributes
    ----------
    kind
        Sort of layer, such as embedding or dense; only learned methods look at it.
    compute_s, communication_s
        OCT and ODT: seconds per probe batch, by type. A type that is missing in `compute_s` cannot run
        the layer; one that is missing in `communication_s` has no communication.
    compute_parallel, communication_parallel
        α and β: the share that further units divide, one number or one per type. If not given, α is 0.99,
        which the instance's assumptions say, as it decides the plan; β is 0.
    memory_gib
        What every unit of the stage holds for this layer, one number or, in a chain, one per type.
    input_bytes, output_bytes, weight_bytes
        Sizes per probe batch; `output_bytes` is what the next layer receives.
    transfer_s
        In a graph: seconds per probe batch in which one unit sends or receives the output, by type; a type
        that is missing takes `output_bytes` over the link.
    colour
        In a graph: layers of one colour are in one stage.
    backward
        In a graph: whether the layer is of the backward pass, whose edges set no order of stages.
    """

    model_config = ConfigDict(json_schema_extra=require(filled=SHARE))

    name: Name
    kind: Name = "layer"
    memory_gib: OneOrByType[NonNegative] = 0.0
    input_bytes: NonNegative = 0.0
    output_bytes: NonNegative = 0.0
    weight_bytes: NonNegative = 0.0
    compute_s: Annotated[dict[Name, NonNegative], Field(min_length=1), validated_in_batches(1000)]
    communication_s: Seconds = NONE_NAMED
    compute_parallel: OneOrByType[Share]
    communication_parallel: OneOrByType[Share] = 0.0
    transfer_s: Seconds | None = None
    colour: Name | None = None
    backward: Flag | None = None

    def memory_on(self, name: str) -> float:
        """Return the memory in GiB that the layer needs on one unit of a hardware type."""
        return figure_on(self.memory_gib, name)

    @property
    def longest_s(self) -> float:
        """Sum of compute, communication and transfer seconds on one unit, each the maximum over types."""
        times = (self.compute_s, self.communication_s, self.transfer_s or {})
        return sum(max(seconds.values(), default=0.0) for seconds in times)

    @property
    def most_memory_gib(self) -> float:
        """Maximum memory in GiB that the layer needs on one unit, over all hardware types."""
        return max(self.memory_gib.values()) if isinstance(self.memory_gib, dict) else self.memory_gib


class Training(Model):
    """How much is to be trained: M samples, E times over."""

    samples: Positive
    epochs: Positive = 1.0

    @property
    def total(self) -> float:
        """Samples of all epochs together, E·M."""
        return self.epochs * self.samples


MANY_LAYERS, SLOW_S = 3, 2.0
"""Least number of layers, and median of seconds above which times are probably milliseconds."""
MAX_LAYERS = 20_000
"""Limit of the layers; ten times as many would have more pairs than fit into memory."""
LARGEST = 1e200
"""Upper limit of times and costs of a training, so that sums and products of them are finite."""


class StagingInstance(Instance):
    """Which layers run on which hardware, and on how many units? (HeterPS, 2023)

    Attributes
    ----------
    objective
        `cost`: least cost in USD; `throughput`: most samples per second; `time`: fewest seconds for the
        whole training.
    stage_rule
        `maximal_runs`: neighbouring stages differ in type (the paper); `free_cuts`: they need not.
    throughput_floor_samples_per_s, cost_limit_usd, hourly_budget_usd
        What every plan must keep, whichever the objective; none means no such limit.
    training
        Samples and epochs; a million samples once if not given.
    probe_batch
        B0, the samples that layer times refer to; 1 if not given.
    link_gbit_per_s
        Speed at which a stage receives the output of the one before; none: transfers take no time.
    edges
        Which layer hands its output to which; none: each to the next, a chain. In a graph a stage pays for
        every tensor that it sends or receives, once.
    stage_cost
        In a graph: whether computing and communicating `overlap`, as in a chain, or add up (`sum`); `relay`:
        they overlap, and every stage hands on each tensor that crosses it, received and sent at once.
    most_units_per_stage
        In a graph: how many units one stage may have; none: any number.
    """

    model_config = ConfigDict(
        json_schema_extra=require(
            "schema_version", "kind", filled={"training": {"samples": SAMPLES}, "probe_batch": PROBE_BATCH}
        )
    )

    kind: Literal["staging"] = "staging"
    objective: Literal["cost", "throughput", "time"] = "cost"
    stage_rule: Literal["maximal_runs", "free_cuts"] = "maximal_runs"
    throughput_floor_samples_per_s: Positive | None = None
    cost_limit_usd: Positive | None = None
    hourly_budget_usd: Positive | None = None
    training: Training
    probe_batch: Positive
    link_gbit_per_s: Positive | None = None
    catalogue: Annotated[HardwareCatalogue | None, TABLE_FILE] = None
    types: Annotated[tuple[StageType, ...], *entries(1000, least=1), TABLE_FILE]
    layers: Annotated[tuple[Layer, ...], *entries(MAX_LAYERS, least=1), TABLE_FILE]
    edges: Annotated[
        tuple[Edge, ...] | None, Field(max_length=MAX_EDGES), validated_in_batches(), TABLE_FILE
    ] = None
    stage_cost: Literal["overlap", "sum", "relay"] | None = None
    most_units_per_stage: PositiveCount | None = None

    @property
    def is_graph(self) -> bool:
        """Whether the layers form a graph, given by edges, and not a chain."""
        return self.edges is not None

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, data: Any) -> Any:
        return _filled(fill_from_catalogue(data, "types", _figures))

    def _complaints(self) -> Iterator[Complaint]:
        known = [hardware.name for hardware in self.types]
        yield from repeated(known, "types")
        yield from repeated((layer.name for layer in self.layers), "layers")
        for index, layer in enumerate(self.layers):
            path = f"layers[{index}]"
            for key in ("compute_s", "communication_s", "transfer_s"):
                yield from unknown_names(getattr(layer, key) or (), known, f"{path}.{key}", "type")
            for key, what in (
                ("memory_gib", "figure"),
                ("compute_parallel", "share"),
                ("communication_parallel", "share"),
            ):
                given = getattr(layer, key)
                if isinstance(given, dict):
                    yield from unknown_names(given, known, f"{path}.{key}", "type")
                    for name in layer.compute_s:
                        if name not in given:
                            yield (
                                f"{path}.{key}",
                                f"has no {what} for {name!r}; give one number or one per type",
                            )
        batches = self.training.total / self.probe_batch
        slowest = sum(layer.longest_s for layer in self.layers)
        if not batches * slowest * max(1.0, *(one.price_usd_per_hour for one in self.types)) <= LARGEST:
            yield "training", f"takes {batches:g} probe batches, so that times or costs exceed {LARGEST:g}"
        yield from self._chain_complaints() if self.edges is None else self._graph_complaints(self.edges)

    def _chain_complaints(self) -> Iterator[Complaint]:
        for index, layer in enumerate(self.layers):
            for name, seconds in layer.compute_s.items():
                if not seconds:
                    yield f"layers[{index}].compute_s.{name}", "is 0.0; must be greater than 0"
            for key in ("transfer_s", "colour", "backward"):
                if getattr(layer, key) is not None:
                    yield f"layers[{index}].{key}", "is for graphs, and there are no edges"
        for key in ("stage_cost", "most_units_per_stage"):
            if getattr(self, key) is not None:
                yield key, "is for graphs, and there are no edges"

    def _graph_complaints(self, edges: tuple[Edge, ...]) -> Iterator[Complaint]:
        if self.stage_rule != "free_cuts":
            yield "stage_rule", f"is {self.stage_rule}; stages of a graph have no neighbours: take free_cuts"
        if not any(all(layer.compute_s.values()) for layer in self.layers):
            yield "layers", "none takes time on all of its types, so that a plan could take none"
        backward = {layer.name: bool(layer.backward) for layer in self.layers}
        yield from edge_complaints(edges, backward)
        for index, layer in enumerate(self.layers):
            if isinstance(layer.memory_gib, dict):
                yield f"layers[{index}].memory_gib", "is by type; in a graph it is one number"

    def figure_notes(self) -> list[str]:
        """Return assumptions about missing fields, and a warning about times that may be milliseconds."""
        assumed = [sentence for sentence in self.assumptions if sentence.startswith(NOT_GIVEN)]
        times = [seconds for layer in self.layers for seconds in layer.compute_s.values()]
        if len(self.layers) < MANY_LAYERS or (middle := median(times)) <= SLOW_S:
            return assumed
        return [
            *assumed,
            f"half of the times in compute_s are from {middle:g} s on for {self.probe_batch:g} samples; if "
            f"they are milliseconds, call the columns {self.types[0].name}_ms and so on",
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each layer."""
        import pandas as pd

        by_type = any(isinstance(layer.memory_gib, dict) for layer in self.layers)
        return pd.DataFrame(
            [
                {
                    "layer": layer.name,
                    "kind": layer.kind,
                    "memory_gib": layer.most_memory_gib,
                    **{f"memory_gib_{t.name}": layer.memory_on(t.name) for t in self.types if by_type},
                    "output_bytes": layer.output_bytes,
                    **{f"compute_s_{t.name}": layer.compute_s.get(t.name) for t in self.types},
                    **{
                        f"communication_s_{t.name}": layer.communication_s.get(t.name, 0.0)
                        for t in self.types
                    },
                }
                for layer in self.layers
            ]
        )


def _figures(machine: HardwareType, _: Mapping[str, Any]) -> Fields:
    """Return what a catalogue says of one unit of a type."""
    return {
        "price_usd_per_hour": machine.unit_price_usd_per_hour(),
        "memory_gib": machine.unit_memory_gib(),
    }


def _filled(data: Any) -> Any:
    """Return the document with missing fields set to defaults, and an assumption noted for each."""
    if not isinstance(data, Mapping):
        return data
    filled, notes = dict(data), []
    if "training" not in data:
        filled["training"] = {"samples": SAMPLES}
        notes.append(f"training; it is taken to be {SAMPLES:,.0f} samples, once.")
    if "probe_batch" not in data:
        filled["probe_batch"] = PROBE_BATCH
        notes.append("probe_batch; layer times are taken to be those of one sample.")
    layers = data.get("layers")
    rows = layers if isinstance(layers, list | tuple) else ()
    lacking = sum(map(_lacks_share, rows))
    if lacking:
        filled["layers"] = [{**row, **SHARE} if _lacks_share(row) else row for row in rows]
        of = "all layers" if lacking == len(rows) else f"{lacking} of {len(rows)} layers"
        share = SHARE["compute_parallel"]
        notes.append(
            f"compute_parallel of {of}; {share:.0%} of the time is taken to be divided by further units."
        )
    given = data.get("assumptions", ())
    if notes and isinstance(given, list | tuple):
        filled["assumptions"] = [*given, *(NOT_GIVEN + note for note in notes)]
    return filled


def _lacks_share(row: Any) -> bool:
    return isinstance(row, Mapping) and "compute_parallel" not in row


PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}
_COLUMN = re.compile(r"(.+)_(s|ms|us)", re.DOTALL)


def with_seconds(data: Fields, source: str) -> Fields:
    """Return a document with columns of layer times converted to `compute_s` in seconds.

    Raises
    ------
    InstanceError
        If a column names no type, a time is given twice, or is no number.
    """
    layers, types = data.get("layers"), data.get("types")
    if not isinstance(layers, list) or not isinstance(types, list):
        return data
    names = [str(row["name"]) for row in types if isinstance(row, Mapping) and "name" in row]
    faults = Faults()
    rows = []
    for index, row in enumerate(layers):
        complaints: list[Complaint] = []
        timed = isinstance(row, Mapping) and [key for key in row if _is_time(key)]
        rows.append(_row(row, timed, names, complaints) if timed else row)
        for key, what in complaints:
            faults.add(Fault(source, f"layers[{index}].{key}", what))
        if faults.stop():
            break
    faults.refuse()
    return {**data, "layers": rows}


def _is_time(key: Any) -> bool:
    return isinstance(key, str) and key not in Layer.model_fields and _COLUMN.fullmatch(key) is not None


def _row(row: Mapping[str, Any], timed: list[str], names: list[str], complaints: list[Complaint]) -> Fields:
    """Return a layer with its columns of times in `compute_s`; append complaints about these columns."""
    given = row.get("compute_s")
    compute: Fields = dict(given) if isinstance(given, Mapping) else {}
    for key in timed:
        match = _COLUMN.fullmatch(key)
        assert match is not None
        # Hardware may be called A100 or a100; case matters only between names that differ in nothing else.
        near = [name for name in names if name.casefold() == match[1].casefold()]
        name = match[1] if match[1] in near or not near else near[0]
        if not near:
            complaints.append((key, f"names no type {match[1]!r}; the types are: {some(names, 12)}"))
        elif name in compute:
            complaints.append((key, f"is a second time on {name!r}; give one column for each type"))
        else:
            seconds = _number(row[key])
            if seconds is None:
                what = f"is {shown(row[key])}, which is not a number; write a plain number"
                complaints.append((key, what))
            compute[name] = (seconds or 0.0) / PER_SECOND[match[2]]
    return {key: value for key, value in row.items() if key not in timed} | {"compute_s": compute}


def _number(value: Any) -> float | None:
    if isinstance(value, Cell) and NUMBER.fullmatch(value):
        return float(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
