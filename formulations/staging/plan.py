"""What a plan of staging consists of: stages, layers on units of one type."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ...instances.common.fields import Checked, Complaint, Count, Name, PositiveCount, in_slices
from ...instances.staging.instance import MOST_LAYERS


class Stage(Checked):
    """Layers, counted from 0, on `units` units of one type.

    Attributes
    ----------
    first_layer, last_layer
        In a chain the layers between, both included, are those of the stage.
    layers
        In a graph all layers of the stage, ascending; None where they are consecutive.
    """

    first_layer: Count
    last_layer: Count
    layers: Annotated[tuple[Count, ...] | None, Field(max_length=MOST_LAYERS), in_slices(MOST_LAYERS)] = None
    type: Name
    units: PositiveCount

    def _complaints(self) -> Iterable[Complaint]:
        if self.layers is None:
            return
        if any(a >= b for a, b in itertools.pairwise(self.layers)):
            yield "layers", "have to rise"
        elif not self.layers or (self.layers[0], self.layers[-1]) != (self.first_layer, self.last_layer):
            yield "layers", "have to go from first_layer to last_layer"

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out layers where there are none, so that plans of chains keep their form and hash."""
        data: dict[str, Any] = handler(self)
        if self.layers is None:
            data.pop("layers", None)
        return data

    @property
    def members(self) -> Sequence[int]:
        """All layers of the stage."""
        return range(self.first_layer, self.last_layer + 1) if self.layers is None else self.layers


def stage_of(layers: Sequence[int], name: str, units: int) -> Stage:
    """Return the stage of these layers, in ascending order, of a graph on units of a type."""
    return Stage(first_layer=layers[0], last_layer=layers[-1], layers=tuple(layers), type=name, units=units)


@dataclass(frozen=True)
class Column:
    """A possible stage, a column of the compact model; `type` is the index of the type."""

    first: int
    last: int
    type: int
    units: int
    time_s: float


@dataclass(frozen=True)
class Corner:
    """A point of the frontier: stage time [s per probe batch] and cost [USD]."""

    time_s: float
    cost_usd: float
