"""Forecasts: seconds, memory and cost of training a model on hardware that could be rented.

Rented hardware is a GPU with its price, its network and its number. Measurements on the hardware at hand
are read once, and refused if they cannot be seconds of that GPU.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TypeVar

from ..common.errors import OptionError
from ..common.hardware import HardwareCatalogue, HardwareType
from ..files.reading import fail
from .calibration import Estimate
from .hardware import ALIASES, Gpu, Link, gpu_named, known_gpus
from .models.description import LARGEST, Layer, ModelDescription, Setting, device_memory
from .operator_times import Measurement, OperatorTimes, read_measurements
from .operators import PRECISION_BYTES

ValueT = TypeVar("ValueT")
NETWORK_GBIT_PER_S = 100.0
"""Default network of hardware."""
LINK_LATENCY_S = 5e-5
"""α of a network between servers: time of TCP and the collective library for a message."""
INSIDE_LATENCY_S = 1e-5
"""The same inside a server: the launch of a kernel."""
PCIE_GB_PER_S = 16.0
"""Default link of GPUs whose data sheet gives none: PCIe 3.0 with 16 lanes."""


FRAMEWORK_BYTES = 1e9
"""Memory of each GPU for the framework's context, libraries and buffers: an assumption."""
MAX_USD = 1e6
MAX_GBIT_PER_S = 1e6
SERVER = 8
"""Default number of GPUs of a server."""


@dataclass(frozen=True)
class Server:
    """A machine with GPUs of one type, with price and network for each GPU.

    Parameters
    ----------
    price_usd_per_hour
        Of one GPU; None where no price is known.
    network_gbit_per_s
        Share of one GPU in the machine's network.
    sold
        GPUs that are rented together: all of the machine, or one if a price of GPUs was given.
    """

    name: str
    gpus: int
    price_usd_per_hour: float | None
    network_gbit_per_s: float
    sold: int

    @property
    def network(self) -> Link:
        """The link between one GPU and those of other machines."""
        return Link.of_network(self.network_gbit_per_s, LINK_LATENCY_S)


@dataclass(frozen=True)
class Rented:
    """A type of GPU that can be rented, with its price, network and machines.

    Parameters
    ----------
    name
        Its name in instances.
    price_usd_per_hour
        Of one GPU; None where no price is known.
    network_gbit_per_s
        Share of one GPU in its machine's network.
    limit
        Number of available GPUs; None: any number.
    notes
        Notes on the sources of price and network, a sentence each.
    servers
        The machines with this GPU.
    """

    name: str
    gpu: Gpu
    price_usd_per_hour: float | None
    network_gbit_per_s: float
    limit: int | None
    notes: tuple[str, ...]
    servers: tuple[Server, ...]

    @property
    def inside(self) -> Link:
        """The link between GPUs of one machine."""
        return Link.of_bandwidth(self.gpu.link_gb_per_s or PCIE_GB_PER_S, INSIDE_LATENCY_S)

    @property
    def network(self) -> Link:
        """The link between GPUs of different machines."""
        return Link.of_network(self.network_gbit_per_s, LINK_LATENCY_S)

    @property
    def memory_bytes(self) -> float:
        """Bytes of one GPU's memory for the model, without the memory of the framework."""
        return self.gpu.memory_gb * 1e9 - FRAMEWORK_BYTES


def rentable_hardware(
    names: Sequence[str],
    catalogue: HardwareCatalogue,
    prices: Mapping[str, float] | None = None,
    limits: Mapping[str, int] | None = None,
    network_gbit_per_s: float | None = None,
) -> list[Rented]:
    """Return the rentable GPU types that names of GPUs or of machines denote.

    Parameters
    ----------
    names
        GPUs such as h100 and a100-80, or machines of the price list such as g6.xlarge.
    catalogue
        The price list. A GPU has the price and the network of the cheapest machine per GPU that has it.
    prices, limits
        USD per hour of one GPU, and number of GPUs, by name; they override the price list.
    network_gbit_per_s
        Network of one GPU, overriding the price list.

    Raises
    ------
    OptionError
        If a name is neither a known GPU nor a machine of the list, occurs twice, or a figure is impossible.
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
    return [
        _rentable(name, catalogue, prices.get(name), limits.get(name), network_gbit_per_s) for name in cleaned
    ]


def _by_name(given: Mapping[str, ValueT] | None) -> dict[str, ValueT]:
    """Return a mapping with its keys, names of hardware, stripped and in lower case."""
    return {name.strip().lower(): value for name, value in (given or {}).items()}


def _checked(prices: Mapping[str, float], limits: Mapping[str, int], network: float | None) -> None:
    """Refuse prices, limits and a network that are out of range."""
    for name, price in prices.items():
        if not 0 <= price <= MAX_USD:
            raise OptionError(f"price of {name} {price:g}: must be from 0 to {MAX_USD:,.0f} USD an hour")
    for name, limit in limits.items():
        if limit < 1:
            raise OptionError(f"limit of {name} {limit}: must be at least 1")
    if network is not None and not 0 < network <= MAX_GBIT_PER_S:
        raise OptionError(
            f"network {network:g}: must be greater than 0, at most {MAX_GBIT_PER_S:,.0f} Gbit/s"
        )


def _rentable(
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
    notes = []
    if price is not None:
        notes.append(f"The price of {name}, {price:g} USD an hour and GPU, was given.")
    elif machine is not None:
        price = machine.unit_price_usd_per_hour()
        notes.append(f"{name} costs {price:.6g} USD an hour and GPU as {machine.name} in {catalogue.name}.")
    if network is None and machine is not None and machine.network_gbit_per_s:
        network = machine.network_gbit_per_s / machine.gpus
        notes.append(f"A GPU of {machine.name} has {network:g} Gbit/s of the network.")
    if network is None:
        network = NETWORK_GBIT_PER_S
        notes.append(f"The network of {name} is taken to have {network:g} Gbit/s for each GPU.")
    servers = [_server(one, given_price, given_network) for one in having]
    if not servers:
        servers = [Server(f"a server of {SERVER}", SERVER, price, network, 1)]
        notes.append(f"{SERVER} {name} are taken to stand in a server, rented one by one.")
    return Rented(name, gpu, price, network, limit, tuple(notes), tuple(servers))


def _server(machine: HardwareType, price: float | None, network: float | None) -> Server:
    """Return the server of a machine of the price list; a given price and network override the list."""
    own = (machine.network_gbit_per_s or NETWORK_GBIT_PER_S * machine.gpus) / machine.gpus
    return Server(
        machine.name,
        machine.gpus,
        machine.unit_price_usd_per_hour() if price is None else price,
        own if network is None else network,
        machine.gpus if price is None else 1,
    )


def _gpu_of(machine: HardwareType) -> Gpu | None:
    """Return the GPU of a machine from the price list, by its model and memory; None if it is unknown."""
    if not machine.gpus or not machine.gpu_model:
        return None
    gpus, model = known_gpus(), machine.gpu_model.lower()
    sized = f"{model}-{machine.gpu_memory_gib:.0f}" if machine.gpu_memory_gib else model
    return gpus.get(sized) or gpus.get(ALIASES.get(model, model))


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
    predicted = times.predict([row.operator for row in rows])
    ratio = median(row.seconds / one.seconds for row, one in zip(rows, predicted, strict=True))
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
