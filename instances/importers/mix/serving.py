"""Measured replicas of a language model, and the requests that they have to serve.

Measurements are CSV, one row for each operating point, with columns of aiconfigurator's `silicon_sample.csv`
(ai-dynamo/aiconfigurator, commit 095f58a, Apache-2.0), among them `batch_size`, the requests at a time of
each attention rank, and the milliseconds to the first token (TTFT) and for each further one (TPOT). A replica
takes tp × pp × attention_dp GPUs, as `ModelConfig.total_gpus_per_worker` counts them there, and serves

    batch × attention_dp / (TTFT + output tokens × TPOT)   requests per second.

Rows in which both `moe_tp_size` and `moe_ep_size` are above 1 are left out: the identifiers of the source say
of most of them, such as tp8_ep8, that they took fewer GPUs than their columns say, and many have a row beside
them with the same times on as few. Or a table has the columns name, gpu, devices, type and requests_per_s:
what a user has measured within limits of his own, one row for each replica and type of request.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from ...common.errors import refuse_faults
from ...common.fields import (
    Fields,
    Model,
    Name,
    NonNegative,
    Positive,
    PositiveCount,
    repeated,
    unknown_names,
)
from ...documents import load_catalogue
from ...files.csv_tables import numbered_rows
from ...files.reading import fail, read_text
from ...mix.instance import MixInstance
from ..importer import Importer, ImportOptions, Option
from ..traces.trace import TraceSource, filled, named, rows_of

LEFT_OUT = (
    ("other", "Points not used, of other models or precisions: {other}."),
    (
        "shapes",
        "Points not used, with other input/output tokens than the requests have: {shapes}, with {tokens}.",
    ),
    (
        "crossed",
        "Points left out, with experts divided both ways, so that their GPUs are uncertain: {crossed}.",
    ),
    ("unpriced", "Points left out, on GPUs without a price; --price gives one: {unpriced}."),
    ("repeated", "Points measured again, of which the slowest measurement counts: {repeated}."),
    ("slow", "Points left out, beyond the limits: {slow}."),
    ("unasked", "Rows not used, of types that {workload.name} does not have: {unasked}."),
)
"""Why points, or rows of replicas, are left out, and what is said of it."""
POINTS_ONLY = ("model", "precision", "ttft_ms", "tpot_ms")
"""Options that choose among operating points."""
SERVING = TraceSource(
    name="serving-{list}",
    files="{measurements.name} and {workload.name}",
    sentences=(
        "A replica that serves several types of requests divides its time between them; each was measured "
        "alone.",
        ("chosen", "The operating points are of {chosen}."),
        ("ttft_ms", "Limit on the measured time to the first token: {ttft_ms:g} ms."),
        ("tpot_ms", "Limit on the measured time for each further token: {tpot_ms:g} ms."),
        *LEFT_OUT,
        (
            "catalogued",
            "Prices of {catalogued} are those of the machine named as hardware, at AWS in us-east-1, {date}, "
            "divided by its GPUs.",
        ),
        ("unserved", "No replica serves {unserved}."),
    ),
    jobs="measurements",
)


class ServingOptions(ImportOptions):
    """Measured replicas of a language model, and requests to serve at least cost: a mix instance."""

    measurements: Annotated[
        Path, Option("Operating points or replicas, CSV or CSV.gz.", argument="measurements")
    ]
    workload: Annotated[
        Path, Option("CSV with input_tokens, output_tokens, requests_per_s and, if you like, name.")
    ]
    model: Annotated[Name | None, Option("The model; needed if there are several.")] = None
    precision: Annotated[Name | None, Option("Such as fp8; needed if there are several.")] = None
    ttft_ms: Annotated[Positive | None, Option("Most milliseconds to the first token.")] = None
    tpot_ms: Annotated[Positive | None, Option("Most milliseconds for each further token.")] = None
    price: Annotated[
        dict[Name, NonNegative],
        Option("USD per hour of one GPU, such as h100=2.5. [default: of its machine at AWS in us-east-1]"),
    ] = {}
    stock: Annotated[
        dict[Name, PositiveCount], Option("GPUs that there are, such as h100=64. [default: any number]")
    ] = {}


class _Request(Model):
    input_tokens: PositiveCount
    output_tokens: PositiveCount
    requests_per_s: NonNegative
    name: Name | None = None

    @property
    def called(self) -> str:
        return self.name or f"{self.input_tokens}-in-{self.output_tokens}-out"


class _Replica(Model):
    name: Name
    gpu: Name
    devices: PositiveCount
    type: Name
    requests_per_s: Positive


class _Point(Model):
    backend: Name
    model_path: Name
    system: Name
    isl: PositiveCount
    osl: PositiveCount
    batch_size: PositiveCount
    tp_size: PositiveCount
    silicon_ttft_ms: Positive
    silicon_tpot_ms: Positive
    backend_version: Name = ""
    precision: Name = "none"
    pp_size: PositiveCount = 1
    attention_dp_size: PositiveCount = 1
    moe_tp_size: PositiveCount = 1
    moe_ep_size: PositiveCount = 1

    @property
    def served(self) -> str:
        """The model and its precision."""
        return f"{self.model_path} {self.precision}"

    @property
    def gpu(self) -> str:
        return self.system.removesuffix("_sxm")

    @property
    def latency_ms(self) -> float:
        """Milliseconds from the arrival of a request to its last token."""
        return self.silicon_ttft_ms + self.osl * self.silicon_tpot_ms

    @property
    def name(self) -> str:
        """Name of the replica."""
        degrees = {"pp": self.pp_size, "dp": self.attention_dp_size, "ep": self.moe_ep_size}
        parts = (f" {key}{size}" for key, size in degrees.items() if size > 1)
        backend = f"{self.backend} {self.backend_version}".rstrip()
        return f"{self.gpu} {backend} tp{self.tp_size}{''.join(parts)} batch {self.batch_size}"

    def serves(self, request: _Request) -> bool:
        return (self.isl, self.osl) == (request.input_tokens, request.output_tokens)

    def replica(self, request: _Request) -> _Replica:
        """Return the replica at this point, for a type of request."""
        rate = 1000 * self.batch_size * self.attention_dp_size / self.latency_ms
        return _Replica(
            name=self.name,
            gpu=self.gpu,
            devices=self.tp_size * self.pp_size * self.attention_dp_size,
            type=request.called,
            requests_per_s=round(rate, 6),
        )


@Importer
def import_serving(options: ServingOptions) -> MixInstance:
    """Return the mix instance of measured replicas and a table of requests."""
    source = str(options.measurements)
    requests = list(rows_of(options.workload, _Request).values())
    names = [one.called for one in requests]
    refuse_faults(str(options.workload), repeated(names, "rows"))
    catalogue = load_catalogue("catalogue:aws-us-east-1")
    # Of each GPU the largest machine, as a replica needs several of them.
    by_size = sorted(catalogue.types, key=lambda one: (one.gpus, -one.price_usd_per_hour))
    prices: dict[str | None, Fields] = {one.gpu_model: {"hardware": one.name} for one in by_size}
    prices |= {gpu: {"price_usd_per_hour": price} for gpu, price in options.price.items()}
    if "silicon_ttft_ms" in numbered_rows(read_text(options.measurements), source)[0]:
        points = list(rows_of(options.measurements, _Point).values())
        replicas, facts = _measured(points, requests, prices, options)
        listed = {one.gpu for one in points}
    else:
        what = "is for operating points; the table has rates within limits of your own, so leave it out"
        refuse_faults("options", ((name, what) for name in POINTS_ONLY if getattr(options, name)))
        rows = rows_of(options.measurements, _Replica)
        replicas = {place: one for place, one in rows.items() if one.type in names}
        if not replicas:
            there = named(one.type for one in rows.values())
            raise fail(source, f"has no row of a type of {options.workload}; it has rows of: {there}")
        facts = dict.fromkeys(("chosen", *dict(LEFT_OUT))) | {"unasked": len(rows) - len(replicas)}
        listed = {one.gpu for one in rows.values()}
    asked = options.price | options.stock
    refuse_faults("options", unknown_names(asked, sorted(listed), "price or stock", "GPU"))
    served = {one.type for one in replicas.values()}
    gpus = sorted({one.gpu for one in replicas.values()})
    return SERVING.instance(
        MixInstance,
        options,
        {
            **facts,
            "date": catalogue.date,
            "catalogued": named(gpu for gpu in gpus if gpu not in options.price),
            "unserved": named(name for name in names if name not in served),
        },
        catalogue=catalogue,
        types=[{**one.model_dump(), "name": one.called} for one in requests],
        hardware=[{"name": gpu, "limit": options.stock.get(gpu), **prices.get(gpu, {})} for gpu in gpus],
        configurations=_configurations(replicas, source),
    )


def _measured(
    points: Sequence[_Point],
    requests: Sequence[_Request],
    priced: Container[str | None],
    options: ServingOptions,
) -> tuple[dict[str, _Replica], Fields]:
    """Return the replicas of operating points, and facts about what is left out."""
    asked = {
        one.served
        for one in points
        if options.model in (None, one.model_path) and options.precision in (None, one.precision)
    }
    if len(asked) != 1:
        what = "several fit, and an instance has one" if asked else "no point of the table has them"
        there = "; ".join(sorted(asked or {one.served for one in points}))
        raise fail("options", f"{what}; give model and precision of one: {there}", "model and precision")
    ttft_ms, tpot_ms = options.ttft_ms or math.inf, options.tpot_ms or math.inf
    measured = set[tuple[object, ...]]()
    left = defaultdict[str, list[_Point]](list)
    for one in sorted(points, key=lambda one: -one.latency_ms):
        key = one.name, one.isl, one.osl
        reasons = {
            "other": one.served not in asked,
            "shapes": not any(map(one.serves, requests)),
            "crossed": min(one.moe_tp_size, one.moe_ep_size) > 1,
            "unpriced": one.gpu not in priced,
            "repeated": key in measured,
            "slow": one.silicon_ttft_ms > ttft_ms or one.silicon_tpot_ms > tpot_ms,
        }
        reason = next((reason for reason, holds in reasons.items() if holds), "")
        left[reason].append(one)
        if reason in ("slow", ""):
            measured.add(key)
    tokens = named(sorted(f"{one.isl}/{one.osl}" for one in left["shapes"]))
    counts = {reason: len(left[reason]) for reason in dict(LEFT_OUT)}
    facts: Fields = {"chosen": asked.pop(), "tokens": tokens, **counts}
    if not left[""]:
        what = "has no point for these requests and limits; change the tokens of the requests, or the limits"
        raise fail(str(options.measurements), f"{what}. {' '.join(filled(LEFT_OUT, facts))}")
    replicas = (one.replica(request) for one in left[""] for request in requests if one.serves(request))
    return {f"{one.name} for {one.type}": one for one in replicas}, facts


def _configurations(replicas: Mapping[str, _Replica], source: str) -> list[Fields]:
    """Return the configurations of replicas, which have a row for each type of request that they serve."""
    found: dict[tuple[str, str, int], Fields] = {}
    for place, one in replicas.items():
        fields = {"name": one.name, "hardware": one.gpu, "devices": one.devices, "requests_per_s": {}}
        served = found.setdefault((one.name, one.gpu, one.devices), fields)["requests_per_s"]
        if one.type in served:
            raise fail(f"{source}: {place}", f"has {one.name!r} with type {one.type!r} again; give each once")
        served[one.type] = one.requests_per_s
    return list(found.values())
