"""What one unit is: a GPU, or several GPUs that share every layer by tensor parallelism."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...common.errors import refuse_faults
from ...common.fields import Complaint, unknown_names

TENSOR_PARALLEL = re.compile(r"(.+)-tp([1-9][0-9]{0,3})")
DEGREE = re.compile(r"[1-9][0-9]{0,3}")
ALL = "all"
"""Stands for the types, or the tensor-parallel degrees, that were measured."""


@dataclass(frozen=True)
class Unit:
    """A type of the instance: `degree` GPUs that share every layer.

    Attributes
    ----------
    named
        Whether it was asked for by name; else it is left out where the source lacks it.
    """

    gpu: str
    degree: int = 1
    named: bool = True

    @property
    def name(self) -> str:
        """Its name in the instance, such as A100-40 or A100-40-tp4."""
        return self.gpu if self.degree == 1 else f"{self.gpu}-tp{self.degree}"


def units_of(
    types: Sequence[str],
    degrees: Sequence[str] | None,
    gpus: Sequence[str],
    measured: Callable[[str], Iterable[int]],
) -> list[Unit]:
    """Return the units that names stand for.

    Parameters
    ----------
    types
        GPU types, types with a degree, or `all` alone.
    degrees
        Tensor-parallel degrees of GPU types without one, or `all`; None: a single GPU.
    gpus, measured
        The GPU types that were measured, and at which degrees one was.

    Raises
    ------
    InstanceError
        If a GPU type was not measured.
    """
    every = tuple(types) == (ALL,)
    units, unknown = [], []
    for name in gpus if every else types:
        with_degree = None if name in gpus else TENSOR_PARALLEL.fullmatch(name)
        if with_degree is not None and with_degree[1] in gpus:
            units.append(Unit(with_degree[1], int(with_degree[2])))
        elif name not in gpus:
            unknown.append(name)
        elif degrees is None:
            units.append(Unit(name, named=not every))
        else:
            own = measured(name) if ALL in degrees else sorted({int(degree) for degree in degrees})
            units += [Unit(name, degree, named=False) for degree in own]
    refuse_faults("options", unknown_names(unknown, gpus, "types", "GPU type", "measured types"))
    return units


@dataclass(frozen=True)
class Limits:
    """How many units there are of each type.

    A limit of a GPU type counts GPUs, and bounds each of its types that has no limit of its own; a limit of a
    type with several GPUs counts its units.
    """

    given: Mapping[str, int]
    units: Sequence[Unit]

    def counts_units(self, unit: Unit) -> bool:
        """Return whether a type with several GPUs has a limit of its own."""
        return unit.degree > 1 and unit.name in self.given

    def of(self, unit: Unit) -> int | None:
        """Return how many units there are of a type; None: any number."""
        if self.counts_units(unit):
            return self.given[unit.name]
        return self.given[unit.gpu] // unit.degree if unit.gpu in self.given else None

    def complaints(self) -> Iterator[Complaint]:
        """Yield limits that allow no unit."""
        for unit in self.units:
            if self.of(unit) == 0:
                count = self.given[unit.gpu]
                what = f"{count} GPUs are too few for {unit.name}, whose units have {unit.degree}"
                yield f"limit.{unit.gpu}", f"{what}; raise it, or choose other types"

    @property
    def shared(self) -> dict[str, list[Unit]]:
        """Limits in GPUs that several types have: GPU type → these types."""
        found: dict[str, list[Unit]] = {}
        for unit in self.units:
            if unit.gpu in self.given and not self.counts_units(unit):
                found.setdefault(unit.gpu, []).append(unit)
        return {gpu: units for gpu, units in found.items() if len(units) > 1}

    @property
    def bind_together(self) -> bool:
        """Whether all types share one limit; their GPUs have one price, so that a budget bounds them."""
        return [len(self.units)] == [len(units) for units in self.shared.values()]

    def hourly_budget_usd(self, prices_usd_per_hour: Mapping[str, float]) -> float | None:
        """Return the price of all GPUs that there are, where types share some; None without limits."""
        if not self.shared or any(self.of(unit) is None for unit in self.units):
            return None
        counted = {unit.gpu: self.given[unit.gpu] for unit in self.units if not self.counts_units(unit)}
        total = math.fsum(count * prices_usd_per_hour[gpu] for gpu, count in counted.items())
        own = (unit for unit in self.units if self.counts_units(unit))
        total += math.fsum(self.given[u.name] * u.degree * prices_usd_per_hour[u.gpu] for u in own)
        return total or None

    def sentences(self, budget_usd_per_hour: float | None) -> Iterator[str]:
        """Say what a limit in GPUs means where several types share it."""
        for gpu, units in self.shared.items():
            each = ", ".join(f"{self.of(unit)} of {unit.name}" for unit in units)
            if self.bind_together and budget_usd_per_hour is not None:
                yield (
                    f"The {self.given[gpu]} {gpu} are shared by all types: the hourly budget is what they "
                    f"cost. Alone, a type has at most {each}."
                )
            else:
                yield (
                    f"The limit of {self.given[gpu]} {gpu} binds each of its types, not all together "
                    f"({each}); a plan that mixes them may take more GPUs. Choose one of them, or give each "
                    f"a limit, such as {units[-1].name}=1."
                )
        if budget_usd_per_hour is not None:
            yield f"The hourly budget, {budget_usd_per_hour:.10g} USD, is the price of all GPUs there are."
