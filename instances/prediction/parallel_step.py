"""Training steps under data, tensor and pipeline parallelism: seconds, and memory of a device.

A model's layers are divided among the stages of a pipeline as evenly as possible.

The time of a stage for each batch is that of its layers, of the all-reduces of its tensor-parallel group, and
of transfers to and from the next stage. Batches pass the stages one after the other, m of them in
(m − 1)·max_k t_k + Σ_k t_k seconds on stages of t_k (GPipe, Huang et al. 2019; the same for 1F1B of
PipeDream-Flush, Narayanan et al. 2021, section 2.2). Then the replicas all-reduce their gradients, and the
optimiser updates its states. There is no overlap. Tensor-parallel groups are inside a server; replicas fill a
server before they use another (Megatron-LM; ibid., section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..common.errors import OptionError
from .calibration import Estimate
from .forecast import Forecast, LayerForecast, Server
from .hardware import LINK_ENDS, Link, hierarchical_s, ring_s
from .models.description import MASTER_BYTES, OPTIMISER_NUMBERS, STAGES, DeviceMemory, held_bytes
from .operator_times import MEMORY, PLATFORM

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

    def memory(self) -> DeviceMemory:
        """Return the memory of the device with the highest use, in bytes by use."""
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
        samples = self.one.batch * self.batches * self.parallelism.data
        return StepForecast(samples, *parts, whole, self.memory())

    def _parts(self, slower: float, links: float) -> tuple[float, float, float, float]:
        """Return seconds of computation, bubble, communication and optimiser in one step.

        Times of computation and of links are scaled by the two factors.
        """
        sums = self._sums()
        compute = [stage.compute_s * slower for stage in self.stages]
        sent = [links * self._exchange_s(index) for index in range(len(self.stages))]
        slots = [one + other for one, other in zip(compute, sent, strict=True)]
        slowest = max(range(len(slots)), key=slots.__getitem__)
        waiting = sum(slots) - slots[slowest]
        size = self.one.element_bytes
        gradients = max(self._gradients_s(stage.parameters * size, sums) for stage in self.stages)
        update = max(self._update_s(stage.parameters) for stage in self.stages)
        communication = self.batches * sent[slowest] + links * gradients
        return self.batches * compute[slowest], waiting, communication, update * slower

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
        return added + 2 * (inside if within else self.server.network).message_s(stage.output_bytes)

    def _sums(self) -> Callable[[float], float]:
        """Return a function: bytes → seconds of their all-reduce over the data-parallel replicas."""
        inside, data, tensor = self.one.rented.inside, self.parallelism.data, self.parallelism.tensor
        beside = max(1, self.server.gpus // tensor)
        full, rest = divmod(data, beside)
        servers = [beside] * full + ([rest] if rest else [])
        # All GPUs of a server in one ring send at the same time.
        gbit_per_s = self.server.network_gbit_per_s * min(beside, data)
        network = Link.of_network(gbit_per_s, self.server.network.latency_s)
        return lambda size: hierarchical_s(inside, network, servers, size)

    def _gradients_s(self, size: float, sums: Callable[[float], float]) -> float:
        """Return the seconds of gradient exchange over replicas, with ZeRO also of sharded states.

        A reduce-scatter, or an all-gather, is half of an all-reduce. Stage 2 scatters the gradients of each
        batch, and stage 3 also gathers the parameters for its forward and for its backward pass
        (Rajbhandari et al. 2020, section 7).
        """
        half = sums(size) / 2
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
