"""Training steps under data, tensor and pipeline parallelism: seconds, and memory of a device.

A model's layers are divided among the stages of a pipeline as evenly as can be.

A stage takes its layers' seconds for each batch, the sums of its tensor-parallel group, and what it sends
on and receives back. Batches pass the stages one after the other (`step_times.pipeline_s`). Then the
replicas add up their gradients, and the optimiser goes over its numbers. Nothing hides behind anything
else. Tensors are shared inside a server; replicas fill a server before they take another (Megatron-LM;
Narayanan et al. 2021, section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...common.errors import OptionError
from ..calibration import Estimate
from ..communication import LINK_ENDS, Link, hierarchical_s, ring_s
from ..models.description import MASTER_BYTES, OPTIMISER_NUMBERS, STAGES, DeviceMemory, held_bytes
from ..operator_times import MEMORY, PLATFORM
from .forecast import Forecast, LayerForecast, Server, width

MOST = 10**6


@dataclass(frozen=True)
class Parallelism:
    """How GPUs share a training.

    Parameters
    ----------
    tensor
        GPUs that share each layer (Megatron-LM; Shoeybi et al. 2019).
    pipeline
        Stages of layers, through which batches go one after the other (GPipe; Huang et al. 2019).
    data
        Replicas of all of that, each with batches of its own.
    zero_stage
        What the replicas of a layer divide: 1 the optimiser's numbers, 2 gradients too, 3 parameters too
        (Rajbhandari et al. 2020).
    recompute
        Whether only the inputs of layers are kept, and activations computed again (Chen et al. 2016).

    Raises
    ------
    OptionError
        If a figure is not possible.
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
        """GPUs of all replicas."""
        return self.tensor * self.pipeline * self.data

    def __str__(self) -> str:
        """Return what differs from one GPU, such as ``tensor 2 × data 8, ZeRO 1``."""
        degrees = [(name, getattr(self, name)) for name in ("tensor", "pipeline", "data")]
        shared = " × ".join(f"{name} {degree}" for name, degree in degrees if degree > 1) or "alone"
        zero = f", ZeRO {self.zero_stage}" if self.zero_stage else ""
        return shared + zero + (", recomputed" if self.recompute else "")


HALVINGS = 60
"""Of the interval in which the time of the slowest stage lies: to the last digit."""


@dataclass(frozen=True)
class Stage:
    """Layers in a row, as one GPU of a tensor-parallel group has them, for one batch.

    Parameters
    ----------
    compute_s
        Forward and backward pass, with what is computed again.
    reductions
        Bytes that the tensor-parallel group adds up, and how often.
    output_bytes
        Of the activations that the next stage receives.
    parameters
        Trained numbers.
    waiting_bytes
        Activations that wait for the backward pass of each batch on its way.
    working_bytes
        Activations that are held once, whatever number of batches is on its way.
    """

    compute_s: float
    reductions: tuple[tuple[float, int], ...]
    output_bytes: float
    parameters: int
    waiting_bytes: float
    working_bytes: float


def evenly(times: Sequence[float], parts: int) -> list[slice]:
    """Return contiguous, non-empty parts whose longest sum is least.

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
    # Further cuts make no sum longer.
    spare = [cut for cut in range(1, len(times)) if cut not in ends]
    ends = sorted([*ends, *spare[: parts - len(ends)]])
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def _filled(times: Sequence[float], most: float) -> list[int]:
    """Return the ends of parts that are filled one after the other up to a sum."""
    ends, total = [], 0.0
    for index, time in enumerate(times):
        if index and total + time > most * (1 + 1e-12):
            ends.append(index)
            total = 0.0
        total += time
    return [*ends, len(times)]


def stages_of(one: Forecast, pipeline: int, recompute: bool) -> list[Stage]:
    """Return the stages of a pipeline.

    Raises
    ------
    OptionError
        If the model has fewer layers.
    """
    times = [_compute_s(row, recompute) for row in one.layers]
    return [_stage(one.layers[part], recompute) for part in evenly(times, pipeline)]


def _compute_s(row: LayerForecast, recompute: bool) -> float:
    return row.estimate.seconds + (row.forward_s if recompute else 0.0)


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
"""What the optimiser takes over what its bytes would take: as elementwise operators beyond the cache."""


@dataclass(frozen=True)
class StepForecast:
    """An optimiser's step of all replicas.

    Parameters
    ----------
    samples
        That all replicas go through.
    compute_s, waiting_s, communication_s, update_s
        Its parts, of which the first is that of the slowest stage, and the second what the pipeline's ends
        make it wait.
    step
        Their sum with its 90 % interval.
    memory
        Of the fullest device.
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
    """A model's stages on the GPUs of one sort of server.

    Parameters
    ----------
    one
        The forecast for a group of `parallelism.tensor` GPUs.
    stages
        Its layers divided among `parallelism.pipeline` stages.
    batches
        Of each replica in a step.
    """

    one: Forecast
    server: Server
    stages: Sequence[Stage]
    parallelism: Parallelism
    batches: int
    optimiser: str = "adam"

    def __post_init__(self) -> None:
        tensor = self.parallelism.tensor
        if tensor > self.server.gpus:
            held = f"{self.server.name} has {self.server.gpus} GPUs"
            raise OptionError(f"tensor {tensor}: {held}, and tensors are shared inside a server")

    def memory(self) -> DeviceMemory:
        """Return the bytes of the fullest device: the first stages have most batches on their way."""
        way, count, held = self.parallelism, len(self.stages), width(self.one.setting)
        devices = [
            DeviceMemory(
                *held_bytes(stage.parameters, held, self.optimiser, way.zero_stage, way.data),
                activations=stage.waiting_bytes * min(self.batches, count - index) + stage.working_bytes,
            )
            for index, stage in enumerate(self.stages)
        ]
        return max(devices, key=lambda device: device.total)

    def forecast(self) -> StepForecast:
        """Return the step."""
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
        """Return computation, waiting, communication and update with times and links so much slower."""
        sums = self._sums()
        compute = [stage.compute_s * slower for stage in self.stages]
        sent = [links * self._exchange_s(index) for index in range(len(self.stages))]
        slots = [one + other for one, other in zip(compute, sent, strict=True)]
        slowest = max(range(len(slots)), key=slots.__getitem__)
        waiting = sum(slots) - slots[slowest]
        held = width(self.one.setting)
        gradients = max(self._gradients_s(stage.parameters * held, sums) for stage in self.stages)
        update = max(self._update_s(stage.parameters) for stage in self.stages)
        communication = self.batches * sent[slowest] + links * gradients
        return self.batches * compute[slowest], waiting, communication, update * slower

    def _exchange_s(self, index: int) -> float:
        """Return the seconds in which a stage adds up its tensors and sends a batch on, and gets it back."""
        inside, stage = self.one.rented.inside, self.stages[index]
        tensor = self.parallelism.tensor
        added = sum(ring_s(inside, tensor, size) * times for size, times in stage.reductions)
        if index == len(self.stages) - 1:
            return added
        within = self.parallelism.gpus <= self.server.gpus
        return added + 2 * (inside if within else self.server.network).message_s(stage.output_bytes)

    def _sums(self) -> Callable[[float], float]:
        """Return the seconds in which the replicas add up so many bytes."""
        inside, data, tensor = self.one.rented.inside, self.parallelism.data, self.parallelism.tensor
        beside = max(1, self.server.gpus // tensor)
        full, rest = divmod(data, beside)
        servers = [beside] * full + ([rest] if rest else [])
        # All GPUs of a server that belong to one ring send at a time.
        gbit_per_s = self.server.network_gbit_per_s * min(beside, data)
        network = Link.of_network(gbit_per_s, self.server.network.latency_s)
        return lambda size: hierarchical_s(inside, network, servers, size)

    def _gradients_s(self, size: float, sums: Callable[[float], float]) -> float:
        """Return the seconds in which replicas exchange gradients, and with ZeRO what they divide.

        A reduce-scatter, or an all-gather, is half of an all-reduce. Stage 2 scatters the gradients of each
        batch, and stage 3 gathers the parameters for its forward and for its backward pass too
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
        """Return the seconds in which the optimiser reads and writes its numbers."""
        held = width(self.one.setting)
        master = 2 * MASTER_BYTES if held < MASTER_BYTES else held
        moved = 2 * MASTER_BYTES * OPTIMISER_NUMBERS[self.optimiser] + 2 * held + master
        shared = self.parallelism.data if self.parallelism.zero_stage else 1
        return UPDATE_OVER_BANDWIDTH * parameters * moved / shared / self.one.rented.gpu.bytes_per_s
