"""Prediction of time, memory and cost of training a model on a list of GPUs, and instances from it.

An allocation instance has one job that may run on any of the hardware; its number of GPUs is to be chosen.
In a staging instance, the hardware and the number of units of each layer are to be chosen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..allocation.instance import AllocationInstance
from ..common.base import Instance
from ..common.errors import OptionError, RefusedError
from ..common.faults import validated
from ..common.fields import Fields
from ..common.hardware import GIB
from ..documents import load_catalogue
from ..staging.instance import StagingInstance
from .epochs import HOUR_S, Work, read_records
from .forecast import Forecast, LayerForecast, forecasts, operator_times
from .hardware import LINK_ENDS, Rented, rentable_hardware, ring_theta
from .measurement_plan import measurement_script, plan_measurements
from .models.description import ModelDescription, Setting
from .models.load import load_model
from .models.transformer import Transformer
from .offers import (
    Offer,
    Refusal,
    RequestedParallelism,
    best_of,
    best_offer,
    no_precision,
    powers,
    why_not,
)
from .operator_times import OperatorTimes
from .operators import Operator
from .report import (
    answer_of,
    forecast_notes,
    half_precision_note,
    offer_notes,
    pointer,
    precision_choice_notes,
    precisions,
    prediction_notes,
    row_left_out,
    row_of,
    server_note,
    work_assumptions,
)

if TYPE_CHECKING:
    import pandas as pd


InstanceT = TypeVar("InstanceT", bound=Instance)
PARALLEL_SHARE = 0.99
"""Parallel fraction of the computation of a stage (Amdahl): an assumption."""
GPUS = 8
"""Default limit of GPUs of each type of hardware."""


def allocation_of(
    model: ModelDescription, forecasts: Sequence[Forecast], work: Work, notes: Sequence[str] = ()
) -> AllocationInstance:
    """Return the allocation instance of training a model, as a single job.

    Parameters
    ----------
    notes
        Further assumptions.

    Raises
    ------
    OptionError
        If the model fits on none of the hardware.
    InstanceError
        If the result is no valid instance.
    """
    usable = [one for one in forecasts if one.fits]
    if not usable:
        least = forecasts[0].memory_bytes / 1e9
        raise OptionError(
            f"{model.name}: needs {least:.3g} GB on one GPU, more than any hardware has; give a smaller "
            "--batch, larger GPUs, or --kind staging, which divides the layers"
        )
    batch = usable[0].batch * work.microbatches
    left_out = [one.rented.name for one in forecasts if not one.fits]
    resources = {one.rented.name: one.rented.limit or GPUS for one in usable}
    unlimited = [one.rented.name for one in usable if one.rented.limit is None]
    prices = {one.rented.name: one.rented.price_usd_per_hour for one in usable}
    theta = [f"/jobs/0/variants/{index}/speed/theta" for index in range(len(usable))]
    variants = [_variant(one, batch, min(resources[one.rented.name], work.microbatches)) for one in usable]
    return _instance(
        AllocationInstance,
        model,
        usable,
        work,
        notes,
        also=[
            f"A step is one global batch of {batch} samples, which GPUs go through in batches of "
            f"{usable[0].batch}; so at most {work.microbatches} GPUs help.",
            "Gradients are added up in a ring over the network, and do not hide behind computation.",
            *(f"{name} has too little memory for the model and is left out." for name in left_out),
            *(f"There are {GPUS} {name}, for no other number was given." for name in unlimited),
        ],
        uncertainty=[
            interval
            for one, of_it in zip(usable, theta, strict=True)
            for interval in _intervals(one, (f"{of_it}/0", f"{of_it}/1"), (f"{of_it}/2", f"{of_it}/3"))
        ],
        resources=resources,
        prices_usd_per_hour={name: price for name, price in prices.items() if price is not None},
        jobs=[
            {
                "name": model.name[:200],
                "remaining_steps": work.total / batch,
                "deadline_s": None if work.within_h is None else work.within_h * HOUR_S,
                "variants": variants,
            }
        ],
    )


def _instance(
    kind: type[InstanceT],
    model: ModelDescription,
    forecasts: Sequence[Forecast],
    work: Work,
    notes: Iterable[str],
    also: Iterable[str],
    **fields: Any,
) -> InstanceT:
    """Return the instance of a kind with these fields; what is assumed ends with `also`."""
    document = {
        "name": f"predicted-{model.name}"[:200],
        "source": "predicted from the model's description and data sheets",
        "assumptions": [
            *model.assumptions,
            *notes,
            *forecast_notes(forecasts),
            *work_assumptions(work),
            *also,
        ],
        **fields,
    }
    return validated(kind, document, f"prediction of {model.name}")


def _intervals(one: Forecast, compute: Iterable[str], links: Iterable[str]) -> list[Fields]:
    """Return the `uncertainty` of figures of computation, and of those of links."""
    (low, high), (least, most) = one.factors, LINK_ENDS
    of_compute = {"inside": one.step.inside, "basis": one.step.basis, "low": low, "high": high}
    of_link = {"inside": False, "basis": "bandwidth as it is sold", "low": least, "high": most}
    return [
        *({"figure": figure, **of_compute} for figure in compute),
        *({"figure": figure, **of_link} for figure in links),
    ]


def _variant(one: Forecast, batch: int, most: int) -> Fields:
    size = sum(layer.weight_bytes for layer in one.layers)
    # Each GPU processes its share in batches, so the time of a sample is that in one batch.
    per_sample = one.step.seconds / one.batch
    return {
        "name": one.rented.name,
        "worker_demand": {one.rented.name: 1},
        "workers": {"min": 1, "max": most},
        "speed": {
            "model": "ring_allreduce",
            "theta": list(ring_theta(one.rented.network, size, per_sample)),
            "batch": batch,
        },
    }


def staging_of(
    model: ModelDescription, forecasts: Sequence[Forecast], work: Work, notes: Sequence[str] = ()
) -> StagingInstance:
    """Return the staging instance of training a model.

    Parameters
    ----------
    notes
        Further assumptions.

    Raises
    ------
    OptionError
        If hardware has no price.
    InstanceError
        If the result is no valid instance.
    """
    unpriced = [one.rented.name for one in forecasts if one.rented.price_usd_per_hour is None]
    if unpriced:
        given = ",".join(f"{name}=USD" for name in unpriced)
        raise OptionError(f"no price is known of {', '.join(unpriced)}; give --price {given} (GPU and hour)")
    link = min(one.rented.network_gbit_per_s for one in forecasts)
    widest = max(forecasts, key=lambda one: one.element_bytes)
    if any(one.element_bytes < widest.element_bytes for one in forecasts):
        notes = [
            *notes,
            f"GPUs compute in {precisions(forecasts)}; memory of layers and what is sent are as large as in "
            f"{widest.setting.precision} on all of them.",
        ]
    names = [pointer(one.rented.name) for one in forecasts]
    return _instance(
        StagingInstance,
        model,
        forecasts,
        work,
        notes,
        also=[
            f"Further GPUs of a stage divide {PARALLEL_SHARE:g} of its compute time.",
            f"Once in {work.microbatches} batches each layer adds its gradients up in a ring over the "
            "network of its GPUs, 2·X·β seconds however many they are; a stage of one GPU is charged too.",
            f"A stage receives its input over the slowest network of all, {link:g} Gbit/s for each GPU.",
        ],
        # The times of all layers on a GPU are fully correlated.
        uncertainty=[
            interval
            for one, name in zip(forecasts, names, strict=True)
            for interval in _intervals(
                one, [f"/layers/*/compute_s/{name}"], [f"/layers/*/communication_s/{name}"]
            )
        ],
        objective="cost",
        stage_rule="free_cuts",
        throughput_floor_samples_per_s=work.floor_samples_per_s,
        training={"samples": work.samples, "epochs": work.epochs},
        probe_batch=forecasts[0].batch,
        link_gbit_per_s=link,
        types=[
            {
                "name": one.rented.name,
                "price_usd_per_hour": one.rented.price_usd_per_hour,
                "limit": one.rented.limit,
                "memory_gib": one.rented.memory_bytes / GIB,
            }
            for one in forecasts
        ],
        layers=[_layer(index, widest.layers, forecasts, work) for index in range(len(widest.layers))],
    )


def _layer(index: int, widest: Sequence[LayerForecast], forecasts: Sequence[Forecast], work: Work) -> Fields:
    """Return a layer as a document has it, with the sizes of the precision with most bytes per element."""
    own = widest[index]
    exchanged = {
        one.rented.name: 2 * one.layers[index].weight_bytes * one.rented.network.seconds_per_byte
        for one in forecasts
    }
    return {
        "name": own.layer.name,
        "memory_gib": own.memory_bytes / GIB,
        "input_bytes": widest[index - 1].output_bytes if index else 0.0,
        "output_bytes": own.output_bytes,
        "weight_bytes": own.weight_bytes,
        "compute_s": {one.rented.name: one.layers[index].seconds for one in forecasts},
        "communication_s": {name: seconds / work.microbatches for name, seconds in exchanged.items()},
        "compute_parallel": PARALLEL_SHARE,
        "communication_parallel": 0.0,
    }


CATALOGUE = "catalogue:aws-us-east-1"
"""The default price list."""
FILLS: Mapping[str, Callable[[ModelDescription, Sequence[Forecast], Work, Sequence[str]], Instance]] = {
    "staging": staging_of,
    "allocation": allocation_of,
}
"""Kind of instance → function that makes it from a prediction."""


@dataclass(frozen=True)
class Prediction:
    """The predicted time, memory and cost of training a model on each type of hardware.

    Parameters
    ----------
    model, work
        The model, and the amount of training.
    precision
        The requested precision; None: the usual training precision of each GPU.
    forecasts
        For each type of hardware with the precision, in the order given: one batch on one GPU.
    offers
        The best offer of each; None if nothing that was requested fits.
    refusals
        The reason for each without an offer; None if it has one.
    left_out
        Hardware without the precision, with the reason.
    """

    model: ModelDescription
    work: Work
    precision: str | None
    forecasts: tuple[Forecast, ...]
    offers: tuple[Offer | None, ...]
    refusals: tuple[Refusal | None, ...]
    left_out: tuple[tuple[Rented, Refusal], ...] = ()

    @property
    def best(self) -> Offer | None:
        """The best offer of all GPU types, as chosen by `best_of`; None if the model fits nowhere."""
        return best_of(self.offers)

    def answer(self) -> str:
        """Return a text on which GPUs to rent, the duration, the cost, and their uncertainty."""
        why = {one.rented.name: why for one, why in zip(self.forecasts, self.refusals, strict=True)}
        left_out = {one.name: why for one, why in self.left_out}
        return answer_of(self.model.name, self.best, why | left_out)

    def sentences(self) -> list[str]:
        """Return notes on the training, the assumptions, and the basis of the figures."""
        rests = dict.fromkeys(f"{row['hardware']}: {row['basis']}" for row in self.rows() if row["basis"])
        available = [offer for offer in self.offers if offer is not None]
        machines = [server_note(offer.server) for offer in available]
        own = [line for offer in available for line in offer_notes(offer)]
        head = prediction_notes(self.model, self.forecasts, self.work)
        return [*head, *self._chosen(), *half_precision_note(self.forecasts), *rests, *machines, *own]

    def _chosen(self) -> list[str]:
        return list(precision_choice_notes(self.precision, self.left_out))

    def instance(self, kind: str) -> Instance:
        """Return an instance of a problem kind whose figures have intervals (field `uncertainty`).

        Raises
        ------
        OptionError
            If there are no predictions of this kind, a price is missing, or the model fits nowhere.
        """
        if kind not in FILLS:
            raise OptionError(f"kind {kind!r:.60}: cannot be predicted; there are {', '.join(FILLS)}")
        return FILLS[kind](self.model, self.forecasts, self.work, self._chosen())

    def rows(self) -> list[Fields]:
        """Return one row for each type of hardware as plain data; hardware that is left out comes last."""
        every = zip(self.forecasts, self.offers, self.refusals, strict=True)
        rows = [row_of(one, offer, refusal) for one, offer, refusal in every]
        return [*rows, *(row_left_out(one, why, rows[0]) for one, why in self.left_out)]

    def to_json(self) -> str:
        """Return the whole prediction as a JSON document: answer, best hardware, rows and notes."""
        data = {
            "model": self.model.name,
            "answer": self.answer(),
            "best": None if self.best is None else self.best.rented.name,
            "rows": self.rows(),
            "sentences": self.sentences(),
        }
        return json.dumps(data, ensure_ascii=False, allow_nan=False)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a table of pandas."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def shapes_to_time(self) -> list[dict[str, str]]:
        """Return the operator shapes to measure on a GPU to improve the prediction most."""
        return [
            {"kind": op.kind, "precision": op.precision, "shape": "x".join(map(str, op.shape))}
            for op in self._plan()
        ]

    def timing_script(self) -> str:
        """Return a script that times these operators with PyTorch and writes a table for `measurements`."""
        return measurement_script(self._plan())

    def _plan(self) -> list[Operator]:
        first = self.forecasts[0]
        if any(one.setting.precision != first.setting.precision for one in self.forecasts):
            several = precisions(self.forecasts)
            raise OptionError(
                f"shapes are timed in one precision; these GPUs train in {several}: name one GPU"
            )
        return plan_measurements(self.model.operators(first.setting), first.rented.gpu)


def predict(
    model: str | Path | ModelDescription,
    hardware: str | Sequence[str],
    *,
    batch: int = 8,
    sequence: int | None = None,
    precision: str | None = None,
    measurements: str | Path | Mapping[str, str | Path] | None = None,
    samples: float = 1e6,
    epochs: float = 1.0,
    within_h: float | None = None,
    microbatches: int = 8,
    prices: Mapping[str, float] | None = None,
    limits: Mapping[str, int] | None = None,
    network_gbit_per_s: float | None = None,
    catalogue: str | Path = CATALOGUE,
    gpus: int | None = None,
    tensor: int | None = None,
    pipeline: int | None = None,
    zero_stage: int | None = None,
    recompute: bool | None = None,
    optimiser: str = "adam",
    global_batch: int | None = None,
    records: str | Path | None = None,
    fused_attention: bool = False,
) -> Prediction:
    """Predict time, memory and cost of training a model on hardware that need not be at hand.

    Parameters
    ----------
    model
        A known name, a ``config.json``, a table of layers, an ONNX file, or a description.
    hardware
        GPUs or machines of the price list; a text has commas between them.
    batch, sequence, precision
        Samples of one GPU at a time, tokens of a sample, and arithmetic. By default a GPU uses the usual
        training precision: bf16 if it has that, else fp16 if its tensor cores have that, else fp32.
    measurements
        A file with measurements on the GPU; for several GPUs, a file by name.
    samples, epochs, within_h, microbatches
        Amount of training, deadline in hours, and batches between two exchanges of gradients.
    prices, limits, network_gbit_per_s, catalogue
        USD per hour of a GPU and number of GPUs, by name; the network of a GPU; the price list.
    gpus, tensor, pipeline, zero_stage, recompute
        Number of GPUs and parallelism; what is not given is chosen (see `prediction.offers`).
    optimiser
        sgd, momentum, adam or adamw.
    global_batch
        Samples of all GPUs between two exchanges of gradients, in place of `microbatches`.
    records
        A CSV file of trainings at other batch sizes (`batch`, `epochs`, which is empty if the target was not
        met), from which epochs are predicted.
    fused_attention
        Whether attention is one kernel that keeps no scores; only for a transformer with one stack.

    Raises
    ------
    InstanceError
        If the model or a file is unknown or invalid.
    OptionError
        If a name, a figure or a combination is impossible.
    RefusedError
        If no GPU has the precision; a GPU that lacks it is left out if others have it.
    """
    names = hardware.split(",") if isinstance(hardware, str) else hardware
    given = rentable_hardware(names, load_catalogue(catalogue), prices, limits, network_gbit_per_s)
    if isinstance(measurements, str | Path):
        if len(given) != 1:
            raise OptionError(f"measurements: say of which hardware they are, such as {given[0].name}=FILE")
        measurements = {given[0].name: measurements}
    described = model if isinstance(model, ModelDescription) else load_model(model)
    if fused_attention and (not isinstance(described, Transformer) or described.config.decoder_blocks):
        raise OptionError(f"{described.name}: fused attention is known of transformers with one stack only")
    asked = None if precision is None else str(precision).strip().lower()
    setting = Setting(batch, sequence, "fp32" if asked is None else asked, fused_attention=fused_attention)
    if global_batch is not None and 0 < global_batch < batch:
        raise OptionError(f"global_batch {global_batch}: is smaller than the batch of one GPU, {batch}")
    wanted = RequestedParallelism(gpus, tensor, pipeline, zero_stage, recompute)
    known = read_records(records) if records is not None else ()
    work = Work(samples, epochs, within_h, microbatches, global_batch=global_batch, records=known)
    if known:
        work = replace(work, epochs=work.epochs_at(global_batch or batch * microbatches).seconds)
    times = operator_times(given, measurements or {})
    left_out = [
        (one, no_precision(one.gpu, asked))
        for one in given
        if asked is not None and asked not in one.gpu.peak_tflops
    ]
    lacking = {one.name: why for one, why in left_out}
    if len(lacking) == len(given):
        raise RefusedError(answer_of(described.name, None, lacking))
    able = [
        (one, replace(setting, precision=asked or one.gpu.training_precision))
        for one in given
        if one.name not in lacking
    ]
    alone = forecasts(described, able, times, optimiser)
    groups = _groups(alone, times, wanted)
    offers = [best_offer(own, work, wanted) for own in groups]
    refusals = [
        why_not(own, work, wanted) if offer is None else None
        for own, offer in zip(groups, offers, strict=True)
    ]
    return Prediction(described, work, asked, tuple(alone), tuple(offers), tuple(refusals), tuple(left_out))


def _groups(
    alone: Sequence[Forecast], times: Mapping[str, OperatorTimes], wanted: RequestedParallelism
) -> list[list[Forecast]]:
    """Return for each GPU type the forecasts of tensor-parallel groups of increasing size."""
    model, optimiser = alone[0].model, alone[0].optimiser
    most = max(server.gpus for one in alone for server in one.rented.servers)
    found: list[Sequence[Forecast]] = []
    for degree in [wanted.tensor] if wanted.tensor else powers(most):
        shared = [(one.rented, replace(one.setting, tensor_parallel=degree)) for one in alone]
        try:
            found.append(alone if degree == 1 else forecasts(model, shared, times, optimiser))
        except OptionError:
            # Degrees that do not divide the model's heads or widths are skipped.
            if wanted.tensor:
                raise
    return [list(group) for group in zip(*found, strict=True)]
