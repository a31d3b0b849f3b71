"""Measured replicas of a language model, and the requests that they have to serve.

Measurements are CSV, one row for each operating point: the columns of aiconfigurator's `silicon_sample.csv`
(ai-dynamo/aiconfigurator, commit 095f58a, Apache-2.0), among them `batch_size`, the requests at a time of each
attention rank, and the milliseconds to the first token (TTFT) and for each further one (TPOT). A replica takes
tp × pp × attention_dp GPUs, as `ModelConfig.total_gpus_per_worker` counts them there, and serves

    batch × attention_dp / (TTFT + output tokens × TPOT)   requests per second.

Rows in which both `moe_tp_size` and `moe_ep_size` are above 1 are left out: the identifiers of the source say
of most of them, such as tp8_ep8, that they took fewer GPUs than their columns say, and 57 of 142 have a row
beside them with the same times on as few. Or a table has the columns name, gpu, devices, type and
requests_per_s: what a user has measured within his limits, one row for each replica and type of request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated

from ...common.errors import Fault, Faults, refuse_faults, some
from ...common.fields import Fields, Model, Name, NonNegative, Positive, PositiveCount
from ...documents import load_catalogue
from ...files.csv_tables import numbered_rows
from ...files.reading import fail, read_text
from ...mix.instance import MixInstance
from ..importer import Importer, ImportOptions, Option
from ..traces.trace import TraceSource, filled, named, rows_of

CATALOGUE = "catalogue:aws-us-east-1"
LEFT_OUT = {
    "other": "{other} points of other models or precisions are not used.",
    "shapes": "{shapes} points with other numbers of tokens than the requests have are not used.",
    "crossed": "{crossed} points in which experts are divided both ways are left out: their GPUs are uncertain.",
    "unpriced": "{unpriced} points on GPUs without a price are left out; --price gives one.",
    "repeated": "{repeated} points were measured again; of each the slowest measurement counts.",
    "slow": "{slow} points beyond the limits are left out.",
}
"""Why points are left out, and what is said of it."""
SERVING = TraceSource(
    name="serving-{list}",
    files="{measurements.name} and {workload.name}",
    sentences=(
        "A replica that serves several types of requests divides its time between them; each was measured "
        "alone.",
        (
            "chosen",
            "The points are of {chosen}; limits: {ttft_ms} ms to the first token, {tpot_ms} ms for others.",
        ),
        *LEFT_OUT.items(),
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
        Option("USD per hour of one GPU, such as h100=2.5. [default: of its machine of AWS in us-east-1]"),
    ] = {}
    stock: Annotated[dict[Name, PositiveCount], Option("GPUs there are. [default: any number]")] = {}


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
    def gpu(self) -> str:
        return self.system.removesuffix("_sxm")

    @property
    def latency_ms(self) -> float:
        """Milliseconds from the arrival of a request to its last token."""
        return self.silicon_ttft_ms + self.osl * self.silicon_tpot_ms

    def replica(self, request: str) -> _Replica:
        """Return the replica at this point, for a type of request."""
        degrees = {"pp": self.pp_size, "dp": self.attention_dp_size, "ep": self.moe_ep_size}
        parts = [f"tp{self.tp_size}", *(f"{key}{size}" for key, size in degrees.items() if size > 1)]
        words = [self.gpu, self.backend, self.backend_version, *parts, f"batch {self.batch_size}"]
        return _Replica(
            name=" ".join(word for word in words if word),
            gpu=self.gpu,
            devices=self.tp_size * self.pp_size * self.attention_dp_size,
            type=request,
            requests_per_s=1000 * self.batch_size * self.attention_dp_size / self.latency_ms,
        )

    @property
    def key(self) -> tuple[object, ...]:
        """What two measurements of one point have in common."""
        return self.model_path, self.precision, self.replica("-").name, self.isl, self.osl


@Importer
def import_serving(options: ServingOptions) -> MixInstance:
    """Return the mix instance of measured replicas and a table of requests."""
    source = str(options.measurements)
    requests = list(rows_of(options.workload, _Request).values())
    if "silicon_ttft_ms" in numbered_rows(read_text(options.measurements), source)[0]:
        points = rows_of(options.measurements, _Point)
        prices = _prices({one.gpu for one in points.values()}, options)
        replicas, facts = _measured(points, requests, prices, options)
    else:
        limits = ("model", "precision", "ttft_ms", "tpot_ms")
        what = "is for operating points, and the table has replicas, within limits of your own"
        refuse_faults("options", ((name, what) for name in limits if getattr(options, name)))
        replicas = list(rows_of(options.measurements, _Replica).items())
        prices = _prices({one.gpu for _, one in replicas}, options)
        unpriced = ((place, f"has gpu {one.gpu}") for place, one in replicas if one.gpu not in prices)
        refuse_faults(
            source, ((place, f"{what}, whose price is not known; give --price") for place, what in unpriced)
        )
        facts = dict.fromkeys(("chosen", "repeated", *LEFT_OUT))
    names = [one.called for one in requests]
    configurations = _configurations(replicas, names, source)
    used = {one["hardware"]: prices[one["hardware"]] for one in configurations}
    served = {one.type for _, one in replicas}
    facts["unserved"] = named(name for name in names if name not in served)
    return SERVING.instance(
        MixInstance,
        options,
        facts,
        (f"One {gpu} costs {price:g} USD an hour, {why}." for gpu, (price, why) in used.items()),
        types=[{**one.model_dump(), "name": one.called} for one in requests],
        hardware=[
            {"name": gpu, "price_usd_per_hour": price, "limit": options.stock.get(gpu)}
            for gpu, (price, _) in used.items()
        ],
        configurations=configurations,
    )


def _prices(gpus: Collection[str], options: ServingOptions) -> dict[str, tuple[float, str]]:
    """Return the USD per hour of one of each GPU and where they are from; none of those without a price."""
    what = f"is in no row of the measurements, which have {some(sorted(gpus))}"
    for option, given in (("price", options.price), ("stock", options.stock)):
        refuse_faults("options", ((f"{option}.{gpu}", what) for gpu in given if gpu not in gpus))
    catalogue = load_catalogue(CATALOGUE)
    prices = {gpu: (price, "as given") for gpu, price in options.price.items()}
    # The largest machine of a GPU, as a replica needs several of them.
    for machine in sorted(catalogue.types, key=lambda one: (-one.gpus, one.price_usd_per_hour)):
        why = f"that of {machine.name} in {catalogue.name} of {catalogue.date}, divided by {machine.gpus}"
        prices.setdefault(machine.gpu_model or "", (machine.unit_price_usd_per_hour(), why))
    return {gpu: price for gpu, price in prices.items() if gpu in gpus}


def _measured(
    points: dict[str, _Point],
    requests: Sequence[_Request],
    prices: Collection[str],
    options: ServingOptions,
) -> tuple[list[tuple[str, _Replica]], Fields]:
    """Return the replicas of operating points with their places, and facts about what is left out."""
    model = _only("model", {one.model_path for one in points.values()}, options.model)
    precisions = {one.precision for one in points.values() if one.model_path == model}
    precision = _only("precision", precisions, options.precision)
    shapes = {(one.input_tokens, one.output_tokens) for one in requests}
    ttft_ms, tpot_ms = options.ttft_ms or math.inf, options.tpot_ms or math.inf
    slowest = {one.key: place for place, one in sorted(points.items(), key=lambda item: item[1].latency_ms)}
    kept: dict[str, Callable[[str, _Point], bool]] = {
        "other": lambda _, one: (one.model_path, one.precision) == (model, precision),
        "shapes": lambda _, one: (one.isl, one.osl) in shapes,
        "crossed": lambda _, one: min(one.moe_tp_size, one.moe_ep_size) == 1,
        "unpriced": lambda _, one: one.gpu in prices,
        "repeated": lambda place, one: slowest[one.key] == place,
        "slow": lambda _, one: one.silicon_ttft_ms <= ttft_ms and one.silicon_tpot_ms <= tpot_ms,
    }
    facts: Fields = {"chosen": f"{model}, {precision}"}
    for fact, keep in kept.items():
        left = {place: one for place, one in points.items() if keep(place, one)}
        facts[fact] = len(points) - len(left)
        points = left
    if not points:
        reasons = filled([(fact, text) for fact, text in LEFT_OUT.items()], facts)
        raise fail(
            str(options.measurements), f"has no point for these requests and limits. {' '.join(reasons)}"
        )
    replicas = [
        (place, one.replica(request.called))
        for place, one in points.items()
        for request in requests
        if (one.isl, one.osl) == (request.input_tokens, request.output_tokens)
    ]
    return replicas, facts


def _only(option: str, values: Collection[str], given: str | None) -> str:
    """Return the value that is chosen, or the only one there is."""
    if given in values or (given is None and len(values) == 1):
        return given or next(iter(values))
    raise fail("options", f"is {given!r}; the measurements have: {', '.join(sorted(values))}", option)


def _configurations(
    replicas: Iterable[tuple[str, _Replica]], types: Collection[str], source: str
) -> list[Fields]:
    """Return the configurations of replicas, which have a row for each type of request that they serve.

    Raises
    ------
    InstanceError
        If rows of one replica contradict each other, or have a type that is not asked for.
    """
    configurations: dict[str, Fields] = {}
    faults = Faults()
    for place, one in replicas:
        given = {"name": one.name, "hardware": one.gpu, "devices": one.devices}
        known = configurations.setdefault(one.name, {**given, "requests_per_s": {}})
        if one.type not in types:
            faults.add(Fault(source, place, f"has type {one.type!r}; the requests are: {some(types)}"))
        elif given.items() <= known.items() and one.type not in known["requests_per_s"]:
            known["requests_per_s"][one.type] = one.requests_per_s
        else:
            what = f"has replica {one.name!r} with another gpu or devices than before, or twice with one type"
            faults.add(Fault(source, place, what))
        if faults.stop():
            break
    faults.refuse()
    return list(configurations.values())
