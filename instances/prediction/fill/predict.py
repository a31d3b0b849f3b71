"""Predict: from a model's name and a list of GPUs to times, memory and cost with intervals, and instances."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...common.base import Instance
from ...common.errors import OptionError, RefusedError
from ...documents import load_catalogue
from ..measurement_plan import measurement_script, plan_measurements, plan_table
from ..models.description import ModelDescription, Setting
from ..models.load import load_model
from ..models.transformer import Transformer
from ..times.measurements import Measurement
from ..training.offers import Offer, Wanted, best_of, best_offer
from ..training.refusals import Refusal, no_precision, why_not
from .allocation import allocation_of
from .answer import answer_of, of_offer
from .forecast import Forecast, forecast
from .measured import measured_on
from .records import read_records
from .rented import Rented, rented
from .rows import row_left_out, row_of
from .sentences import of_choice, of_precision, of_prediction, of_server, precisions
from .staging import staging_of
from .work import Work

if TYPE_CHECKING:
    import pandas as pd

CATALOGUE = "catalogue:aws-us-east-1"
"""The price list unless another is given."""
FILLS: Mapping[str, Callable[[ModelDescription, Sequence[Forecast], Work, Sequence[str]], Instance]] = {
    "staging": staging_of,
    "allocation": allocation_of,
}
"""Kinds of instances that predictions fill."""


@dataclass(frozen=True)
class Prediction:
    """What training a model would take on each sort of hardware.

    Parameters
    ----------
    model, work
        What is trained, and how much of it.
    precision
        That was asked for; None: what people train in on each GPU.
    forecasts
        One for each sort of hardware that has the precision, in the order given: one batch on one GPU.
    offers
        The best way to train the model on each; None where nothing that was asked for fits.
    refusals
        For each, why there is no offer; None where there is one.
    left_out
        Hardware without the precision, and what it has.
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
        """The offer to take, as `best_of` chooses it; None if the model fits nowhere."""
        return best_of(self.offers)

    def answer(self) -> str:
        """Return which GPUs to rent, how long it takes, what it costs, and how sure that is."""
        why = {one.rented.name: why for one, why in zip(self.forecasts, self.refusals, strict=True)}
        left_out = {one.name: why for one, why in self.left_out}
        return answer_of(self.model.name, self.best, why | left_out)

    def sentences(self) -> list[str]:
        """Return what is trained, what was assumed, and what the figures rest on."""
        rests = dict.fromkeys(f"{row['hardware']}: {row['basis']}" for row in self.rows() if row["basis"])
        there = [offer for offer in self.offers if offer is not None]
        said = [of_server(offer.server) for offer in there]
        own = [line for offer in there for line in of_offer(offer)]
        head = of_prediction(self.model, self.forecasts, self.work)
        return [*head, *self._chosen(), *of_precision(self.forecasts), *rests, *said, *own]

    def _chosen(self) -> list[str]:
        return list(of_choice(self.precision, self.left_out))

    def instance(self, kind: str) -> Instance:
        """Return an instance whose figures carry their intervals (field `uncertainty`).

        Raises
        ------
        OptionError
            If predictions fill no such kind, a price is missing, or the model fits nowhere.
        """
        if kind not in FILLS:
            raise OptionError(f"kind {kind!r:.60}: cannot be predicted; there are {', '.join(FILLS)}")
        return FILLS[kind](self.model, self.forecasts, self.work, self._chosen())

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each sort of hardware, as plain data; what is left out comes last."""
        every = zip(self.forecasts, self.offers, self.refusals, strict=True)
        rows = [row_of(one, offer, refusal) for one, offer, refusal in every]
        return [*rows, *(row_left_out(one, why, rows[0]) for one, why in self.left_out)]

    def to_json(self) -> str:
        """Return all of it as one document: the answer, the best hardware, the rows and the sentences."""
        data = {
            "model": self.model.name,
            "answer": self.answer(),
            "best": None if self.best is None else self.best.rented.name,
            "rows": self.rows(),
            "sentences": self.sentences(),
        }
        return json.dumps(data, ensure_ascii=False, allow_nan=False)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def shapes_to_time(self) -> list[dict[str, str]]:
        """Return which operators, timed on a GPU, would tell most about this model."""
        return plan_table(self._plan())

    def timing_script(self) -> str:
        """Return a script that times them with PyTorch and writes a table for `measurements`."""
        return measurement_script(self._plan())

    def _plan(self) -> list[Any]:
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
    """Predict what training a model takes on hardware that one need not have.

    Parameters
    ----------
    model
        A known name, a ``config.json``, a table of layers, an ONNX file, or a description.
    hardware
        GPUs or machines of the price list; a text has commas between them.
    batch, sequence, precision
        Samples of one GPU at a time, tokens of a sample, and arithmetic. By default a GPU computes in what
        people train in: bf16 if it has that, else fp16 if its tensor cores have that, else fp32.
    measurements
        What was timed on the GPU; of several, a file for each name.
    samples, epochs, within_h, microbatches
        How much is trained, in how many hours, and batches between two exchanges of gradients.
    prices, limits, network_gbit_per_s, catalogue
        USD an hour of a GPU and how many there are, by name; the network of a GPU; the price list.
    gpus, tensor, pipeline, zero_stage, recompute
        How many GPUs share the training, and how; what is not given is chosen (see `training.offers`).
    optimiser
        sgd, momentum, adam or adamw.
    global_batch
        Samples of all GPUs between two exchanges of gradients, in place of `microbatches`.
    records
        A CSV file of trainings at other batch sizes (`batch`, `epochs`, which is empty where the target was
        not met), from which epochs are predicted.
    fused_attention
        Whether attention is one kernel that keeps no scores; of a transformer with one stack.

    Raises
    ------
    InstanceError
        If the model or a file is not known or wrong.
    OptionError
        If a name, a figure or a combination is not possible.
    RefusedError
        If no GPU has the precision; one that lacks it is left out where others have it.
    """
    names = hardware.split(",") if isinstance(hardware, str) else hardware
    given = rented(names, load_catalogue(catalogue), prices, limits, network_gbit_per_s)
    if isinstance(measurements, str | Path):
        if len(given) != 1:
            raise OptionError(f"measurements: say of which hardware they are, such as {given[0].name}=FILE")
        measurements = {given[0].name: measurements}
    described = model if isinstance(model, ModelDescription) else load_model(model)
    if fused_attention and not isinstance(described, Transformer):
        raise OptionError(f"{described.name}: fused attention is known of transformers with one stack only")
    asked = None if precision is None else str(precision).strip().lower()
    setting = Setting(batch, sequence, "fp32" if asked is None else asked, fused_attention=fused_attention)
    if global_batch is not None and 0 < global_batch < batch:
        raise OptionError(f"global_batch {global_batch}: is smaller than the batch of one GPU, {batch}")
    wanted = Wanted(gpus, tensor, pipeline, zero_stage, recompute)
    known = read_records(records) if records is not None else ()
    work = Work(samples, epochs, within_h, microbatches, global_batch=global_batch, records=known)
    if known:
        work = replace(work, epochs=work.epochs_at(global_batch or batch * microbatches).seconds)
    timed = measured_on(given, measurements or {})
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
    found = _forecasts(described, able, timed, optimiser)
    groups = _groups(described, able, timed, optimiser, wanted, found)
    offers = [best_offer(own, work, wanted, optimiser) for own in groups]
    refusals = [
        why_not(own, work, wanted) if offer is None else None
        for own, offer in zip(groups, offers, strict=True)
    ]
    return Prediction(described, work, asked, tuple(found), tuple(offers), tuple(refusals), tuple(left_out))


def _forecasts(
    model: ModelDescription,
    hardware: Sequence[tuple[Rented, Setting]],
    measurements: Mapping[str, Sequence[Measurement]],
    optimiser: str,
) -> list[Forecast]:
    """Return the forecast of each sort of hardware in its own setting."""
    found = {}
    for setting in dict.fromkeys(setting for _, setting in hardware):
        alike = [one for one, own in hardware if own == setting]
        for each in forecast(model, alike, setting, measurements, optimiser):
            found[each.rented.name] = each
    return [found[one.name] for one, _ in hardware]


def _groups(
    model: ModelDescription,
    hardware: Sequence[tuple[Rented, Setting]],
    measurements: Mapping[str, Sequence[Measurement]],
    optimiser: str,
    wanted: Wanted,
    alone: Sequence[Forecast],
) -> list[list[Forecast]]:
    """Return for each sort of hardware the forecasts of groups of GPUs that share tensors."""
    most = max(server.gpus for one, _ in hardware for server in one.servers)
    degrees = [wanted.tensor] if wanted.tensor else [1 << power for power in range(most.bit_length())]
    groups: list[list[Forecast]] = [[] for _ in hardware]
    for degree in degrees:
        try:
            shared = [(one, replace(setting, tensor_parallel=degree)) for one, setting in hardware]
            found = alone if degree == 1 else _forecasts(model, shared, measurements, optimiser)
        except OptionError:
            # Degrees that do not divide the model's heads or widths are not among those to choose from.
            if wanted.tensor:
                raise
            continue
        for group, one in zip(groups, found, strict=True):
            group.append(one)
    return groups
