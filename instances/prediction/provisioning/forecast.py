"""Forecasts: seconds, memory and cost of training a model on hardware that could be rented.

Rented hardware is a GPU with its price, its network and how many there are. What was timed on the
hardware at hand is read once, and refused where it cannot be seconds of that GPU.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TypeVar

from ...common.errors import OptionError
from ...common.hardware import HardwareCatalogue, HardwareType
from ...files.reading import fail
from ..calibration import Estimate
from ..communication import Link
from ..hardware import ALIASES, Gpu, gpu_named, known_gpus
from ..models.description import LARGEST, Layer, ModelDescription, Setting, device_memory
from ..operator_times import DataSheetTimes, Measurement, OperatorTimes, read_measurements, times_on
from ..operators import PRECISION_BYTES, Operator

ValueT = TypeVar("ValueT")
NETWORK_GBIT_PER_S = 100.0
"""Of hardware whose network nobody gave."""
LINK_LATENCY_S = 5e-5
"""α of a network between servers: what TCP and the collective library take for a message."""
INSIDE_LATENCY_S = 1e-5
"""The same inside a server: the launch of a kernel."""
PCIE_GB_PER_S = 16.0
"""Of GPUs whose data sheet names no link: PCIe 3.0 with 16 lanes."""


FRAMEWORK_BYTES = 1e9
"""What the framework keeps of each GPU for its context, its libraries and its buffers: an assumption."""
MOST_USD = 1e6
MOST_GBIT_PER_S = 1e6
SERVER = 8
"""GPUs of a server of which nobody said it."""


@dataclass(frozen=True)
class Server:
    """A machine with one sort of GPUs.

    Parameters
    ----------
    price_usd_per_hour
        Of one GPU; None where no price is known.
    network_gbit_per_s
        What one GPU has of the machine's network.
    sold
        GPUs that are rented at a time: those of the machine, or one where a price of GPUs was given.
    """

    name: str
    gpus: int
    price_usd_per_hour: float | None
    network_gbit_per_s: float
    sold: int

    @property
    def network(self) -> Link:
        """The link of one GPU to those of other machines."""
        return Link.of_network(self.network_gbit_per_s, LINK_LATENCY_S)


@dataclass(frozen=True)
class Rented:
    """One sort of hardware that could be rented, counted in GPUs.

    Parameters
    ----------
    name
        What instances call it.
    price_usd_per_hour
        Of one GPU; None where no price is known.
    network_gbit_per_s
        What one GPU has of its machine's network.
    limit
        GPUs that there are; None: any number.
    said
        Where price and network come from, a sentence each.
    servers
        The machines that have it.
    """

    name: str
    gpu: Gpu
    price_usd_per_hour: float | None
    network_gbit_per_s: float
    limit: int | None
    said: tuple[str, ...]
    servers: tuple[Server, ...]

    @property
    def inside(self) -> Link:
        """The link between GPUs of one machine."""
        return Link.of_bandwidth(self.gpu.link_gb_per_s or PCIE_GB_PER_S, INSIDE_LATENCY_S)

    @property
    def network(self) -> Link:
        """The link between GPUs of several machines."""
        return Link.of_network(self.network_gbit_per_s, LINK_LATENCY_S)

    @property
    def memory_bytes(self) -> float:
        """Memory of one GPU that is left for a model."""
        return self.gpu.memory_gb * 1e9 - FRAMEWORK_BYTES


def rented(
    names: Sequence[str],
    catalogue: HardwareCatalogue,
    prices: Mapping[str, float] | None = None,
    limits: Mapping[str, int] | None = None,
    network_gbit_per_s: float | None = None,
) -> list[Rented]:
    """Return the hardware that names stand for.

    Parameters
    ----------
    names
        GPUs such as h100 and a100-80, or machines of the price list such as g6.xlarge.
    catalogue
        The price list. A GPU has the price and the network of the cheapest machine per GPU that has it.
    prices, limits
        USD an hour of one GPU, and how many there are, by name; they win.
    network_gbit_per_s
        Network of one GPU, in place of the price list's.

    Raises
    ------
    OptionError
        If a name is neither a known GPU nor a machine of the list, stands twice, or a figure is not possible.
    """
    cleaned = [name.strip().lower() for name in names if name.strip()]
    if not cleaned:
        raise OptionError(f"hardware: names none; known GPUs are {', '.join(known_gpus())}")
    twice = {name for name in cleaned if cleaned.count(name) > 1}
    if twice:
        raise OptionError(f"hardware: {', '.join(sorted(twice))} stands twice; each may stand once")
    prices, limits = _by_name(prices), _by_name(limits)
    for option, given in (("price", prices), ("limit", limits)):
        unknown = [name for name in given if name not in cleaned]
        if unknown:
            allowed = ", ".join(cleaned)
            raise OptionError(f"{option} {unknown[0]!r:.60}: is not in the hardware; there are {allowed}")
    _checked(prices, limits, network_gbit_per_s)
    return [_one(name, catalogue, prices.get(name), limits.get(name), network_gbit_per_s) for name in cleaned]


def _by_name(given: Mapping[str, ValueT] | None) -> dict[str, ValueT]:
    """Return figures by the names of hardware as they are compared: without blanks, in lower case."""
    return {name.strip().lower(): value for name, value in (given or {}).items()}


def _checked(prices: Mapping[str, float], limits: Mapping[str, int], network: float | None) -> None:
    """Refuse figures that are not possible."""
    for name, price in prices.items():
        if not 0 <= price <= MOST_USD:
            raise OptionError(f"price of {name} {price:g}: must be from 0 to {MOST_USD:,.0f} USD an hour")
    for name, limit in limits.items():
        if limit < 1:
            raise OptionError(f"limit of {name} {limit}: must be at least 1")
    if network is not None and not 0 < network <= MOST_GBIT_PER_S:
        raise OptionError(
            f"network {network:g}: must be greater than 0, at most {MOST_GBIT_PER_S:,.0f} Gbit/s"
        )


def _one(
    name: str, catalogue: HardwareCatalogue, price: float | None, limit: int | None, network: float | None
) -> Rented:
    machine = next((one for one in catalogue.types if one.name.lower() == name), None)
    having = [machine] if machine is not None else []
    if machine is not None and machine.gpus and machine.gpu_model:
        gpu = _gpu_of(machine)
        if gpu is None:
            raise OptionError(f"hardware {name!r}: nothing is known of its GPU {machine.gpu_model!r}")
    else:
        gpu = gpu_named(name)
        having = [one for one in catalogue.types if (own := _gpu_of(one)) and own.name == gpu.name]
        machine = min(having, key=HardwareType.unit_price_usd_per_hour, default=None)
    given_price, given_network = price, network
    said = []
    if price is not None:
        said.append(f"The price of {name}, {price:g} USD an hour and GPU, was given.")
    elif machine is not None:
        price = machine.unit_price_usd_per_hour()
        said.append(f"{name} costs {price:.6g} USD an hour and GPU as {machine.name} in {catalogue.name}.")
    if network is None and machine is not None and machine.network_gbit_per_s:
        network = machine.network_gbit_per_s / machine.gpus
        said.append(f"A GPU of {machine.name} has {network:g} Gbit/s of the network.")
    if network is None:
        network = NETWORK_GBIT_PER_S
        said.append(f"The network of {name} is taken to have {network:g} Gbit/s for each GPU.")
    servers = [_server(one, given_price, given_network) for one in having]
    if not servers:
        servers = [Server(f"a server of {SERVER}", SERVER, price, network, 1)]
        said.append(f"{SERVER} {name} are taken to stand in a server, rented one by one.")
    return Rented(name, gpu, price, network, limit, tuple(said), tuple(servers))


def _server(machine: HardwareType, price: float | None, network: float | None) -> Server:
    """Return a machine of the price list; a price and a network of a GPU that were given win."""
    own = (machine.network_gbit_per_s or NETWORK_GBIT_PER_S * machine.gpus) / machine.gpus
    return Server(
        machine.name,
        machine.gpus,
        machine.unit_price_usd_per_hour() if price is None else price,
        own if network is None else network,
        machine.gpus if price is None else 1,
    )


def _gpu_of(machine: HardwareType) -> Gpu | None:
    """Return the GPU of a machine, by its model and memory; None where it is not known."""
    if not machine.gpus or not machine.gpu_model:
        return None
    gpus, model = known_gpus(), machine.gpu_model.lower()
    sized = f"{model}-{machine.gpu_memory_gib:.0f}" if machine.gpu_memory_gib else model
    return gpus.get(sized) or gpus.get(ALIASES.get(model, model))


SLOWER, FASTER = 100.0, 20.0
"""Beyond so many times what the data sheet says, half of the times are of another unit or another machine."""


def measured_on(
    hardware: Sequence[Rented], given: Mapping[str, str | Path]
) -> dict[str, Sequence[Measurement]]:
    """Return the measurements of each name.

    Raises
    ------
    OptionError
        If a name is not in the hardware.
    InstanceError
        If a file is wrong, or its times cannot be seconds of that GPU.
    """
    gpus = {one.name: one.gpu for one in hardware}
    for name in given:
        if name not in gpus:
            known = ", ".join(gpus)
            raise OptionError(f"measurements of {name!r:.60}: not in the hardware; there are {known}")
    return {name: _plausible(gpus[name], file) for name, file in given.items()}


def _plausible(gpu: Gpu, file: str | Path) -> Sequence[Measurement]:
    rows = read_measurements(file)
    said = DataSheetTimes(gpu).predict([row.operator for row in rows])
    ratio = median(row.seconds / one.seconds for row, one in zip(rows, said, strict=True))
    if ratio > SLOWER:
        what = f"half of its times are {ratio:,.0f} times what the data sheet of {gpu.name} says, or more"
        raise fail(str(file), f"{what}; seconds are needed: are they milliseconds, or of another machine?")
    if ratio < 1 / FASTER:
        what = f"half of its times are 1/{1 / ratio:,.0f} of what the data sheet of {gpu.name} says, or less"
        raise fail(str(file), f"{what}; seconds of one call on that GPU are needed")
    return rows


FoundT = TypeVar("FoundT")
HOUR_S = 3600.0


@dataclass(frozen=True)
class LayerForecast:
    """A layer on one GPU: its share of the step of forward and backward pass for the batch.

    Parameters
    ----------
    forward_s
        Seconds of the forward pass, which are a part of the step.
    memory_bytes
        Parameters, gradients, optimiser and activations.
    output_bytes, weight_bytes
        Of the activations that the next layer receives, and of the gradients.
    activation_bytes
        Of what waits for the backward pass.
    """

    layer: Layer
    estimate: Estimate
    forward_s: float
    memory_bytes: float
    output_bytes: float
    weight_bytes: float
    activation_bytes: float


@dataclass(frozen=True)
class Forecast:
    """A model on one GPU, or on each GPU of a group that shares its layers.

    Parameters
    ----------
    setting
        Batch, sequence, precision and the size of the group.
    step
        Forward and backward pass of the batch, with the interval of whole steps.
    model, times
        Of which it is the forecast, and the times that it is made of.
    """

    rented: Rented
    setting: Setting
    step: Estimate
    layers: tuple[LayerForecast, ...]
    memory_bytes: float
    model: ModelDescription = field(repr=False)
    times: OperatorTimes = field(repr=False, compare=False)

    @property
    def batch(self) -> int:
        """Samples at a time."""
        return self.setting.batch

    @property
    def fits(self) -> bool:
        """Whether one GPU has memory for the whole model and the batch."""
        return self.memory_bytes <= self.rented.memory_bytes

    @property
    def samples_per_s(self) -> float:
        """Samples that one GPU trains in a second."""
        return self.batch / self.step.seconds

    def gpu_hours(self, samples: float) -> Estimate:
        """Return the GPU-hours (in the field `seconds`) of so many samples, without communication."""
        return self.step.times(samples / self.batch / HOUR_S)

    def cost_usd(self, samples: float) -> Estimate | None:
        """Return the USD of so many samples (in `seconds`); None without a price."""
        price = self.rented.price_usd_per_hour
        return None if price is None else self.gpu_hours(samples).times(price)

    @cached_property
    def launch_bound(self) -> bool:
        """Whether the host takes longer to launch the kernels of a batch than the GPU to run them."""
        return self._waits(self.batch)

    @cached_property
    def busy_batch(self) -> int | None:
        """Least batch with which the GPU takes longer; None if it does already, or does with none."""
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
        """Ends of the interval of a step, as factors."""
        return self.step.low / self.step.seconds, self.step.high / self.step.seconds


def forecast(
    model: ModelDescription,
    hardware: Sequence[Rented],
    setting: Setting,
    measurements: Mapping[str, Sequence[Measurement]] | None = None,
    optimiser: str = "adam",
) -> list[Forecast]:
    """Return what each sort of hardware would take.

    Parameters
    ----------
    setting
        Batch of one GPU, sequence, precision; training.
    measurements
        Name of hardware → what was timed on its GPU.

    Raises
    ------
    OptionError
        If the model cannot be run so, or a GPU lacks the precision.
    """
    given = measurements or {}
    layers = model.layers(setting)
    memory = _once(layers, lambda layer: device_memory([layer], setting, optimiser).total)
    whole = device_memory(layers, setting, optimiser).total
    step_operators = model.operators(setting)
    found = []
    for one in hardware:
        times = times_on(one.gpu, given.get(one.name))
        step = times.total(step_operators)
        alone = _once(layers, _step_of(times, setting.training))
        forward = _once(layers, _forward_of(times))
        # Launches of one layer hide behind the work of another: layers share the time of the whole step.
        scale = step.seconds / sum(part.seconds for part in alone)
        rows = [
            LayerForecast(
                layer,
                part.times(scale),
                min(ahead, part.seconds) * scale,
                held,
                layer.output * width(setting),
                layer.parameters * width(setting),
                layer.activations * width(setting),
            )
            for layer, part, ahead, held in zip(layers, alone, forward, memory, strict=True)
        ]
        found.append(Forecast(one, setting, step, tuple(rows), whole, model, times))
    return found


def _step_of(times: OperatorTimes, training: bool) -> Callable[[Layer], Estimate]:
    return lambda layer: times.total(layer.passes(training))


def _forward_of(times: OperatorTimes) -> Callable[[Layer], float]:
    return lambda layer: times.total(layer.forward).seconds


def _once(layers: Sequence[Layer], make: Callable[[Layer], FoundT]) -> list[FoundT]:
    """Return what is made of each layer; equal ones, such as the blocks of a transformer, are asked once."""
    known: dict[tuple[Operator, ...], FoundT] = {}
    return [
        known[layer.operators] if layer.operators in known else known.setdefault(layer.operators, make(layer))
        for layer in layers
    ]


def width(setting: Setting) -> int:
    """Return the bytes of an element."""
    return PRECISION_BYTES[setting.precision]
