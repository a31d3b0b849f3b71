"""Hardware: data sheets of GPUs, the peaks that boards sustain, links between GPUs, and machines to rent.

A board with a low power limit, such as T4, lowers its clock in matrix products: of 65 TFLOP/s in half
precision it sustains 24 (NVIDIA's developer forum, topic 264462; Jia et al. 2019, "Dissecting the NVidia
Turing T4 GPU via Microbenchmarking"). It is assumed to sustain the same peak for each watt as the board
`Gpu.holds_like`: the PCIe board with the largest chip of about the same years (V100 for Turing,
H100 for Ada).

A message of X bytes takes α + β·X seconds on a link (Hockney 1994). An all-reduce sums X bytes of each of N
devices; additions take no time. In a ring over the slowest link it takes 2·(N−1)·α + 2·(N−1)/N·X·β (Patarasuk
& Yuan 2009), and no algorithm moves fewer than 2·(N−1)/N·X bytes through each device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from ..common.errors import OptionError
from ..common.faults import suggestion_text
from ..common.fields import Model, Name, NonNegative, Positive, Text
from ..common.hardware import HardwareCatalogue, HardwareType
from ..files.reading import parse_yaml, read_text

CATALOGUE = Path(__file__).with_name("gpus.yaml")
ALIASES: Mapping[str, str] = {
    "a100": "a100-40",
    "v100-32": "v100",
    "gh-96": "gh200",
    "rtx-pro-server-6000": "rtx-pro-6000",
}
"""Alternative names of GPUs, such as those in price lists of machines."""
PAIRS = 2.5
"""Ratio of half- to single-precision peak above which half precision must run on tensor cores."""
OF_TENSOR_CORES = ("tf32", "bf16", "fp16", "fp8")


class Gpu(Model):
    """A GPU.

    Attributes
    ----------
    peak_tflops
        Precision → 10¹² floating-point operations a second of dense matrices.
    link_gb_per_s, link
        Its fastest link to another GPU of the same server, in one direction.
    cache_mb
        Of the second-level cache, what one kernel's data can use; 0 where it is not known.
    watts
        Power of the board; without it the peaks are taken to be sustained.
    holds_like
        Name of a board of the catalogue, with chips of about the same years, that has the power for its
        peaks: this one computes as much for a watt, and no more. Without one its peaks are sustained.
    source
        Which data sheet says so.
    """

    name: Name
    peak_tflops: dict[str, Positive] = Field(min_length=1)
    bandwidth_gb_per_s: Positive
    memory_gb: Positive
    link_gb_per_s: Positive | None = None
    link: Text | None = None
    cache_mb: NonNegative = 0.0
    watts: Positive | None = None
    holds_like: Name | None = None
    source: Text

    def peak(self, precision: str) -> float:
        """Return the peak of a precision in floating-point operations per second.

        Raises
        ------
        OptionError
            If the data sheet gives none.
        """
        if precision not in self.peak_tflops:
            known = ", ".join(self.peak_tflops)
            raise OptionError(f"{self.name}: has no peak for {precision}; it has {known}")
        return self.peak_tflops[precision] * 1e12

    @property
    def has_tensor_cores(self) -> bool:
        """Whether the GPU has tensor cores, judged by the precisions and peaks of its data sheet."""
        peaks = self.peak_tflops
        only = any(precision in peaks for precision in OF_TENSOR_CORES if precision != "fp16")
        return only or ("fp16" in peaks and "fp32" in peaks and peaks["fp16"] > PAIRS * peaks["fp32"])

    @property
    def training_precision(self) -> str:
        """The usual precision for training: bf16, else fp16 on tensor cores, else single."""
        usual = ["bf16", "fp16", "fp32"] if self.has_tensor_cores else ["fp32"]
        return next(one for one in (*usual, *self.peak_tflops) if one in self.peak_tflops)

    @property
    def bytes_per_s(self) -> float:
        """Memory bandwidth in bytes per second."""
        return self.bandwidth_gb_per_s * 1e9

    @property
    def cache_bytes(self) -> float:
        """Capacity of the second-level cache for one kernel's data, in bytes."""
        return self.cache_mb * 1e6


@cache
def known_gpus() -> Mapping[str, Gpu]:
    """Return the bundled GPUs by name."""
    return {gpu.name: gpu for gpu in map(Gpu.model_validate, parse_yaml(read_text(CATALOGUE))["gpus"])}


def gpu_named(name: str) -> Gpu:
    """Return a bundled GPU.

    Raises
    ------
    OptionError
        If there is none with this name.
    """
    gpus = known_gpus()
    key = name.strip().lower()
    gpu = gpus.get(ALIASES.get(key, key))
    if gpu is None:
        raise OptionError(
            f"GPU {name!r:.60}: unknown; {suggestion_text(key, gpus)}known are {', '.join(gpus)}"
        )
    return gpu


TENSOR_CORES = 2 / 3
"""Share of their peak that tensor cores reach in practice, relative to other units.

Matrices take 1.70 times what the peak promises in vTrain's trainings on A100, in half precision, and 1.14
times what boards sustain in NeuSight's products, in single precision."""


def powered(gpu: Gpu) -> Gpu:
    """Return the GPU with its peak throughputs limited to what its power limit sustains.

    Without `holds_like` or `watts`, and for a precision that the other board does not have, they are those of
    the data sheet.
    """
    like = gpu if gpu.holds_like is None else powered(gpu_named(gpu.holds_like))
    if like == gpu or gpu.watts is None or like.watts is None:
        return gpu
    share = gpu.watts / like.watts
    peaks = {
        precision: min(peak, share * like.peak_tflops.get(precision, peak / share))
        for precision, peak in gpu.peak_tflops.items()
    }
    return gpu.model_copy(update={"peak_tflops": peaks})


def sustained(gpu: Gpu) -> Gpu:
    """Return the GPU with the peak throughputs that its power limit and tensor cores sustain."""
    most = powered(gpu)
    reached = dict.fromkeys(OF_TENSOR_CORES, TENSOR_CORES) if gpu.has_tensor_cores else {}
    peaks = {
        precision: min(peak, gpu.peak_tflops[precision] * reached.get(precision, 1.0))
        for precision, peak in most.peak_tflops.items()
    }
    return gpu.model_copy(update={"peak_tflops": peaks})


BITS = 8
GIGA = 1e9
LINK_ENDS = (1.0, 2.0)
"""Interval of measured time over the data sheet's, which gives the best case; up to twice as long."""


@dataclass(frozen=True)
class Link:
    """A network or device link, by its latency α and its inverse bandwidth β.

    Parameters
    ----------
    latency_s
        α, seconds of the shortest message.
    seconds_per_byte
        β, the inverse of the bandwidth in bytes per second, in one direction.

    Raises
    ------
    OptionError
        If a figure is negative or not finite.
    """

    latency_s: float
    seconds_per_byte: float

    def __post_init__(self) -> None:
        for name in ("latency_s", "seconds_per_byte"):
            if not 0.0 <= getattr(self, name) < 1e9:
                raise OptionError(f"link: {name} is {getattr(self, name)}; it must be from 0 to 1e9")

    @classmethod
    def of_bandwidth(cls, gbyte_per_s: float, latency_s: float) -> Link:
        """Return the link with a bandwidth in 1e9 bytes per second.

        Raises
        ------
        OptionError
            If the bandwidth is not positive.
        """
        if not gbyte_per_s > 0:
            raise OptionError(f"link: bandwidth is {gbyte_per_s} GB/s; it must be greater than 0")
        return cls(latency_s, 1.0 / (gbyte_per_s * GIGA))

    @classmethod
    def of_network(cls, gbit_per_s: float, latency_s: float) -> Link:
        """Return the link with a bandwidth in 1e9 bits per second, the unit of networks."""
        return cls.of_bandwidth(gbit_per_s / BITS, latency_s)

    def message_s(self, size: float) -> float:
        """Return the seconds of one message of `size` bytes: α + β·size."""
        return self.latency_s + self.seconds_per_byte * size


def ring_s(link: Link, devices: int, size: float) -> float:
    """Return the seconds of a ring all-reduce of `size` bytes."""
    return 2 * (devices - 1) * link.message_s(size / devices)


def hierarchical_s(inside: Link, network: Link, servers: Sequence[int], size: float) -> float:
    """Return the seconds of a hierarchical all-reduce of `size` bytes: within and between servers.

    First a ring reduce-scatter inside each server; then devices with the same part sum it over the servers,
    all rings at a time through the one link of each server; at last a ring all-gather inside each server. One
    server has no second step, servers with one device no first and third.

    Parameters
    ----------
    inside, network
        The link between devices of a server, and that of each server to the others, shared by its devices.
    servers
        Devices on each server; the largest sets the pace inside.
    size
        Bytes on each device.
    """
    # Reduce-scatter and all-gather take half of a ring all-reduce each.
    return ring_s(inside, max(servers), size) + ring_s(network, len(servers), size)


def ring_theta(link: Link, size: float, per_sample_s: float) -> tuple[float, ...]:
    """Return the coefficients θ of the speed model `ring_allreduce` for this link and gradient size.

    They equal `ring_s`: θ2·(w−1)/w is its β term, θ3·(w−1) its α term.

    Parameters
    ----------
    size
        Bytes of the gradients.
    per_sample_s
        Seconds of computation for each sample.
    """
    return (per_sample_s, 0.0, 2 * size * link.seconds_per_byte, 2 * link.latency_s)


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
