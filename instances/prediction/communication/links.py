"""Links between devices: a message of X bytes takes α + β·X seconds (Hockney 1994)."""

from __future__ import annotations

from dataclasses import dataclass

from ...common.errors import OptionError

BITS = 8
GIGA = 1e9
LINK_ENDS = (1.0, 2.0)
"""Data sheets promise what links reach at best; what was measured took up to twice as long."""


@dataclass(frozen=True)
class Link:
    """A link, by its latency α and its inverse bandwidth β.

    Parameters
    ----------
    latency_s
        α, seconds that a message takes however short it is.
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
    def of_bandwidth(cls, gbyte_per_s: float, latency_s: float = 0.0) -> Link:
        """Return the link of a bandwidth in 1e9 bytes per second.

        Raises
        ------
        OptionError
            If the bandwidth is not positive.
        """
        if not gbyte_per_s > 0:
            raise OptionError(f"link: bandwidth is {gbyte_per_s} GB/s; it must be greater than 0")
        return cls(latency_s, 1.0 / (gbyte_per_s * GIGA))

    @classmethod
    def of_network(cls, gbit_per_s: float, latency_s: float = 0.0) -> Link:
        """Return the link of a bandwidth in 1e9 bits per second, as networks are sold."""
        return cls.of_bandwidth(gbit_per_s / BITS, latency_s)

    @property
    def gbit_per_s(self) -> float:
        """Bandwidth in 1e9 bits per second; infinite where β is 0."""
        return BITS / (self.seconds_per_byte * GIGA) if self.seconds_per_byte else float("inf")

    def message_s(self, size: float) -> float:
        """Return the seconds of one message: α + β·X, such as activations between stages of a pipeline."""
        return self.latency_s + self.seconds_per_byte * size
