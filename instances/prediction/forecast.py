"""Forecasts of a training step: of one GPU, and of many under data, tensor and pipeline parallelism.

Measurements on the hardware at hand are read once, and refused if they cannot be seconds of that GPU.

A model's layers are divided among the stages of a pipeline as evenly as possible.

The time of a stage for each batch is that of its layers, of the all-reduces of its tensor-parallel group, and
of transfers to and from the next stage. Batches pass the stages one after the other, m of them in
(m − 1)·max_k t_k + Σ_k t_k seconds on stages of t_k (GPipe, Huang et al. 2019; the same for 1F1B of
PipeDream-Flush, Narayanan et al. 2021, section 2.2). Then the replicas all-reduce their gradients, and the
optimiser updates its states. There is no overlap. Tensor-parallel groups are inside a server; replicas fill a
server before they use another (Megatron-LM; ibid., section 3).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median

from ..common.errors import OptionError
from ..files.reading import fail
from .calibration import Estimate
from .hardware import LINK_ENDS, LINK_LATENCY_S, Link, Rented, Server, hierarchical_s, ring_s
from .models.description import (
    LARGEST,
    MASTER_BYTES,
    OPTIMISER_NUMBERS,
    STAGES,
    DeviceMemory,
    Layer,
    ModelDescription,
    Setting,
    device_memory,
    held_bytes,
)
from .operator_times import MEMORY, PLATFORM, Measurement, OperatorTimes, read_measurements
from .operators import PRECISION_BYTES

SLOWER, FASTER = 100.0, 20.0
"""Limits of the median of measured over data-sheet time; beyond, units or machine must be wrong."""


def operator_times(
    hardware: Sequence[Rented], measurements: Mapping[str, str | Path]
) -> dict[str, OperatorTimes]:
    """Return GPU type → predictor of its operators' times, from the files of measurements given for some.

    Raises
    ------
    OptionError
        If a name is not in the hardware.
    InstanceError
        If a file is invalid, or its times cannot be seconds of that GPU.
    """
    gpus = {one.name: one.gpu for one in hardware}
    for name in measurements:
        if name not in gpus:
            known = ", ".join(gpus)
            raise OptionError(f"measurements of {name!r:.60}: not in the hardware; there are {known}")
    times = {name: OperatorTimes(gpu) for name, gpu in gpus.items()}
    for name, file in measurements.items():
        rows = read_measurements(file)
        _check_unit(gpus[name].name, times[name], rows, str(file))
        times[name] = OperatorTimes(gpus[name], rows)
    return times


def _check_unit(gpu: str, times: OperatorTimes, rows: Sequence[Measurement], file: str) -> None:
    """Refuse measurements that cannot be seconds of the GPU of these times by its data sheet."""
    predicted = times.seconds([row.operator for row in rows]).sum(axis=1).tolist()
    ratio = median(row.seconds / one for row, one in zip(rows, predicted, strict=True))
    if ratio > SLOWER:
        what = f"half of its times are {ratio:,.0f} times what the data sheet of {gpu} says, or more"
        raise fail(file, f"{what}; seconds are needed: are they milliseconds, or of another machine?")
    if ratio < 1 / FASTER:
        what = f"half of its times are 1/{1 / ratio:,.0f} of what the data sheet of {gpu} says, or less"
        raise fail(file, f"{what}; seconds of one call on that GPU are needed")


@dataclass(frozen=True)
class LayerForecast:
    """The predicted time and memory of a layer on one GPU, as a part of the whole step.

    Parameters
    ----------
    seconds, forward_s
        Seconds of the layer, and of its forward pass among them, as parts of the step.
    memory_bytes
        Parameters, gradients, optimiser and activations.
    output_bytes, weight_bytes
        Bytes of the activations that the next layer receives, and of the gradients.
    activation_bytes
        Bytes of the activations that are kept for the backward pass.
    """

    layer: Layer
    seconds: float
    forward_s: float
    memory_bytes: float
    output_bytes: float
    weight_bytes: float
    activation_bytes: float


@dataclass(frozen=True)
class Forecast:
    """The predicted training step of a model on one GPU, or on each GPU of a tensor-parallel group.

    Parameters
    ----------
    setting
        Batch, sequence, precision and the size of the group.
    step
        Forward and backward pass of the batch, with the interval of whole steps.
    model, times, optimiser
        The model, the predictor of operator times, and the name of the optimiser.
    """

    rented: Rented
    setting: Setting
    step: Estimate
    layers: tuple[LayerForecast, ...]
    memory_bytes: float
    model: ModelDescription = field(repr=False)
    times: OperatorTimes = field(repr=False, compare=False)
    optimiser: str = "adam"

    @property
    def batch(self) -> int:
        """Number of samples of a step of one GPU."""
        return self.setting.batch

    @property
    def element_bytes(self) -> int:
        """Bytes of one element in the precision of the setting."""
        return PRECISION_BYTES[self.setting.precision]

    @property
    def fits(self) -> bool:
        """Whether the memory of one GPU suffices for the whole model and the batch."""
        return self.memory_bytes <= self.rented.memory_bytes

    @cached_property
    def launch_bound(self) -> bool:
        """Whether launching the kernels of a batch takes the host longer than the GPU takes to run them."""
        return self._waits(self.batch)

    @cached_property
    def busy_batch(self) -> int | None:
        """The minimum batch size that is not launch-bound; None if the current one is not, or none is."""
        if not self.launch_bound:
            return None
        waits, busy = self.batch, 2 * self.batch
        while busy <= LARGEST and self._waits(busy):
            waits, busy = busy, 2 * busy
        if busy > LARGEST:
            return None
        return bisect_left(range(busy), True, waits + 1, key=lambda batch: not self._waits(batch))

    def _waits(self, batch: int) -> bool:
        return self.times.launch_bound(self.model.operators(replace(self.setting, batch=batch)))

    @property
    def factors(self) -> tuple[float, float]:
        """Both ends of the interval of the step time, as factors of the predicted time."""
        return self.step.low / self.step.seconds, self.step.high / self.step.seconds


def forecasts(
    model: ModelDescription,
    hardware: Sequence[tuple[Rented, Setting]],
    times: Mapping[str, OperatorTimes],
    optimiser: str,
) -> list[Forecast]:
    """Return the forecast of the model on each type of hardware, in a setting of its own.

    Parameters
    ----------
    hardware
        Each type with batch of one GPU, sequence, precision and tensor parallelism.
    times
        Name of hardware → predictor of the times of operators on its GPU.

    Raises
    ------
    OptionError
        If the setting is not possible for the model, or a GPU lacks the precision.
    """
    found = {}
    for setting in dict.fromkeys(own for _, own in hardware):
        layers, operators = model.layers(setting), model.operators(setting)
        whole = device_memory(layers, setting, optimiser).total
        alike = {layer.operators: layer for layer in layers}
        memory = {key: device_memory([layer], setting, optimiser).total for key, layer in alike.items()}
        for one in (one for one, own in hardware if own == setting):
            of_gpu = times[one.name]
            step = of_gpu.total(operators)
            alone = {
                key: of_gpu.total(layer.passes(setting.training)).seconds for key, layer in alike.items()
            }
            forward = {key: of_gpu.total(layer.operators).seconds for key, layer in alike.items()}
            # Launches of a layer overlap with the work of another, so layers share the time of the step.
            scale = step.seconds / sum(alone[layer.operators] for layer in layers)
            width = PRECISION_BYTES[setting.precision]
            rows = [
                LayerForecast(
                    layer,
                    alone[layer.operators] * scale,
                    min(forward[layer.operators], alone[layer.operators]) * scale,
                    memory[layer.operators],
                    layer.output * width,
                    layer.parameters * width,
                    layer.activations * width,
                )
                for layer in layers
            ]
            found[one.name] = Forecast(one, setting, step, tuple(rows), whole, model, of_gpu, optimiser)
    return [found[one.name] for one, _ in hardware]


MOST = 10**6


@dataclass(frozen=True)
class Parallelism:
    """The degrees of parallelism of a training, with ZeRO and recomputation.

    Parameters
    ----------
    tensor
        GPUs that share each layer (Megatron-LM; Shoeybi et al. 2019).
    pipeline
        Pipeline stages, which batches pass one after the other (GPipe; Huang et al. 2019).
    data
        Data-parallel replicas, each with its own batches.
    zero_stage
        States that the replicas of a layer divide: 1 the optimiser's, 2 also gradients, 3 also parameters
        (Rajbhandari et al. 2020).
    recompute
        Whether only the inputs of layers are kept, and activations computed again (Chen et al. 2016).

    Raises
    ------
    OptionError
        If a figure is impossible.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    zero_stage: int = 0
    recompute: bool = False

    def __post_init__(self) -> None:
        for name in ("tensor", "pipeline", "data"):
            if not 1 <= getattr(self, name) <= MOST:
                raise OptionError(f"{name} {getattr(self, name)}: must be from 1 to {MOST:,}")
        if self.zero_stage not in STAGES:
            raise OptionError(f"zero_stage {self.zero_stage}: must be 0, 1, 2 or 3")

    @property
    def gpus(self) -> int:
        """Number of GPUs of all data-parallel replicas."""
        return self.tensor * self.pipeline * self.data

    def __str__(self) -> str:
        """Return the degrees other than 1 and further options, such as ``tensor 2 × data 8, ZeRO 1``."""
        degrees = [(name, getattr(self, name)) for name in ("tensor", "pipeline", "data")]
        shared = " × ".join(f"{name} {degree}" for name, degree in degrees if degree > 1) or "alone"
        zero = f", ZeRO {self.zero_stage}" if self.zero_stage else ""
        return shared + zero + (", recomputed" if self.recompute else "")


HALVINGS = 60
"""Number of halvings of the interval of the slowest stage's time: to the last digit."""


@dataclass(frozen=True)
class Stage:
    """Consecutive layers on one GPU of a tensor-parallel group, with time and memory for one batch.

    Parameters
    ----------
    compute_s
        Seconds of forward and backward pass, with recomputation.
    reductions
        All-reduces of the tensor-parallel group, as pairs of bytes and number.
    output_bytes
        Bytes of the activations that the next stage receives.
    parameters
        Number of trained parameters.
    waiting_bytes
        Bytes of activations that are kept for each batch in flight.
    working_bytes
        Bytes of activations that are kept once, for any number of batches in flight.
    """

    compute_s: float
    reductions: tuple[tuple[float, int], ...]
    output_bytes: float
    parameters: int
    waiting_bytes: float
    working_bytes: float


def even_partition(times: Sequence[float], parts: int) -> list[slice]:
    """Return the partition of layer times into contiguous parts that minimises the maximum sum.

    Raises
    ------
    OptionError
        If there are fewer entries than parts.
    """
    if not 1 <= parts <= len(times):
        raise OptionError(f"pipeline {parts}: the model has {len(times)} layers, and each stage needs one")
    low, high = max(times), sum(times)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if len(_filled(times, middle)) <= parts:
            high = middle
        else:
            low = middle
    ends = _filled(times, high)
    # Further cuts increase no sum.
    spare = [cut for cut in range(1, len(times)) if cut not in ends]
    ends = sorted([*ends, *spare[: parts - len(ends)]])
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def _filled(times: Sequence[float], most: float) -> list[int]:
    """Return the ends of contiguous parts, each filled greedily up to a sum of `most`."""
    ends, total = [], 0.0
    for index, time in enumerate(times):
        if index and total + time > most * (1 + 1e-12):
            ends.append(index)
            total = 0.0
        total += time
    return [*ends, len(times)]


def stages_of(one: Forecast, pipeline: int, recompute: bool) -> list[Stage]:
    """Return the pipeline stages of the model, with the layers divided evenly by time.

    Raises
    ------
    OptionError
        If the model has fewer layers.
    """
    times = [_compute_s(row, recompute) for row in one.layers]
    return [_stage(one.layers[part], recompute) for part in even_partition(times, pipeline)]


def _compute_s(row: LayerForecast, recompute: bool) -> float:
    return row.seconds + (row.forward_s if recompute else 0.0)


def _stage(rows: Sequence[LayerForecast], recompute: bool) -> Stage:
    passes = 3 if recompute else 2
    reductions: dict[float, int] = {}
    for row in rows:
        if row.layer.all_reduces:
            again = reductions.get(row.output_bytes, 0)
            reductions[row.output_bytes] = again + passes * row.layer.all_reduces
    waiting = [row.output_bytes if recompute else row.activation_bytes for row in rows]
    return Stage(
        compute_s=sum(_compute_s(row, recompute) for row in rows),
        reductions=tuple(reductions.items()),
        output_bytes=rows[-1].output_bytes,
        parameters=sum(row.layer.parameters for row in rows),
        waiting_bytes=sum(waiting),
        working_bytes=max(row.activation_bytes for row in rows) if recompute else 0.0,
    )


UPDATE_OVER_BANDWIDTH = sum(PLATFORM["elementwise"][column] for column in MEMORY)
"""Time of the optimiser relative to its bytes over the bandwidth, as of elementwise operators."""


@dataclass(frozen=True)
class StepForecast:
    """The predicted step of all replicas, with its parts and memory.

    Parameters
    ----------
    samples
        Samples of all replicas together.
    compute_s, waiting_s, communication_s, update_s
        Its parts in seconds; the first is that of the slowest stage, the second the bubble of the pipeline.
    step
        Their sum with its 90 % interval.
    memory
        Memory of the device with the highest use.
    """

    samples: int
    compute_s: float
    waiting_s: float
    communication_s: float
    update_s: float
    step: Estimate
    memory: DeviceMemory


@dataclass(frozen=True)
class Setup:
    """A model's pipeline stages on servers of one type, under one choice of parallelism.

    Parameters
    ----------
    one
        The forecast for a group of `parallelism.tensor` GPUs.
    stages
        Its layers divided among `parallelism.pipeline` stages.
    batches
        Batches of each replica in a step.
    """

    one: Forecast
    server: Server
    stages: Sequence[Stage]
    parallelism: Parallelism
    batches: int

    @cached_property
    def memory(self) -> DeviceMemory:
        """Memory of the device with the highest use, in bytes by use."""
        way, count, one = self.parallelism, len(self.stages), self.one
        devices = [
            DeviceMemory(
                *held_bytes(stage.parameters, one.element_bytes, one.optimiser, way.zero_stage, way.data),
                activations=stage.waiting_bytes * min(self.batches, count - index) + stage.working_bytes,
            )
            for index, stage in enumerate(self.stages)
        ]
        return max(devices, key=lambda device: device.total)

    def forecast(self) -> StepForecast:
        """Return the predicted time of one step with its interval."""
        parts = self._parts(1.0, 1.0)
        (low, high), (least, most) = self.one.factors, LINK_ENDS
        alone = self.parallelism.gpus == 1
        basis = self.one.step.basis
        whole = Estimate(
            sum(parts),
            sum(self._parts(low, least)),
            sum(self._parts(high, most)),
            self.one.step.inside and alone,
            basis if alone else f"{basis}; bandwidth of links as it is sold",
        )
        return StepForecast(self.one.batch * self.batches * self.parallelism.data, *parts, whole, self.memory)

    def _parts(self, slower: float, links: float) -> tuple[float, float, float, float]:
        """Return seconds of computation, bubble, communication and optimiser in one step.

        Times of computation and of links are scaled by the two factors.
        """
        compute = [stage.compute_s * slower for stage in self.stages]
        sent = [links * self._exchange_s(index) for index in range(len(self.stages))]
        slots = [one + other for one, other in zip(compute, sent, strict=True)]
        slowest = max(range(len(slots)), key=slots.__getitem__)
        waiting = sum(slots) - slots[slowest]
        most = max(stage.parameters for stage in self.stages)
        communication = self.batches * sent[slowest] + links * self._gradients_s(most)
        return self.batches * compute[slowest], waiting, communication, self._update_s(most) * slower

    def _exchange_s(self, index: int) -> float:
        """Return the seconds of a stage's communication for one batch.

        These are its all-reduces, and sending activations on and receiving gradients back.
        """
        inside, stage = self.one.rented.inside, self.stages[index]
        tensor = self.parallelism.tensor
        added = sum(ring_s(inside, tensor, size) * times for size, times in stage.reductions)
        if index == len(self.stages) - 1:
            return added
        within = self.parallelism.gpus <= self.server.gpus
        link = inside if within else Link.of_network(self.server.network_gbit_per_s, LINK_LATENCY_S)
        return added + 2 * link.message_s(stage.output_bytes)

    def _gradients_s(self, parameters: int) -> float:
        """Return the seconds of gradient exchange over replicas, with ZeRO also of sharded states.

        A reduce-scatter, or an all-gather, is half of an all-reduce. Stage 2 scatters the gradients of each
        batch, and stage 3 also gathers the parameters for its forward and for its backward pass
        (Rajbhandari et al. 2020, section 7).
        """
        data, tensor = self.parallelism.data, self.parallelism.tensor
        beside = max(1, self.server.gpus // tensor)
        full, rest = divmod(data, beside)
        servers = [beside] * full + ([rest] if rest else [])
        # All GPUs of a server in one ring send at the same time.
        network = Link.of_network(self.server.network_gbit_per_s * min(beside, data), LINK_LATENCY_S)
        size = parameters * self.one.element_bytes
        half = hierarchical_s(self.one.rented.inside, network, servers, size) / 2
        match self.parallelism.zero_stage:
            case 2:
                return half * (self.batches + 1)
            case 3:
                return half * 3 * self.batches
        return 2 * half

    def _update_s(self, parameters: int) -> float:
        """Return the seconds in which the optimiser reads and writes the states of these parameters."""
        element_bytes = self.one.element_bytes
        master = 2 * MASTER_BYTES if element_bytes < MASTER_BYTES else element_bytes
        moved = 2 * MASTER_BYTES * OPTIMISER_NUMBERS[self.one.optimiser] + 2 * element_bytes + master
        shared = self.parallelism.data if self.parallelism.zero_stage else 1
        return UPDATE_OVER_BANDWIDTH * parameters * moved / shared / self.one.rented.gpu.bytes_per_s
