"""Rented hardware: a GPU with its price, its network and how many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ...common.errors import OptionError
from ...common.hardware import HardwareCatalogue, HardwareType
from ..communication.links import Link
from ..hardware import ALIASES, Gpu, gpu_named, known_gpus

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
