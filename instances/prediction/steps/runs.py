"""Runs: distributed training steps of Transformers, in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ...common.arrays import Flags, Floats
from ...common.errors import OptionError


@dataclass(frozen=True)
class Runs:
    """Configurations of training, one entry a run; all arrays have one shape.

    Parameters
    ----------
    batch, microbatch
        Samples of a step, and those that a pipeline of one replica takes at a time.
    hidden, heads, layers, sequence
        Of the Transformer.
    tensor, data, pipeline
        Degrees of parallelism (Megatron-LM); their product is the number of GPUs.

    Raises
    ------
    OptionError
        If a figure is below 1, or the batch is no whole number of microbatches on each replica.
    """

    batch: Floats
    microbatch: Floats
    hidden: Floats
    heads: Floats
    layers: Floats
    sequence: Floats
    tensor: Floats
    data: Floats
    pipeline: Floats

    def __post_init__(self) -> None:
        for field in fields(self):
            if not (getattr(self, field.name) >= 1).all():
                raise OptionError(f"runs: {field.name} must be 1 or more")
        if (self.batch % (self.data * self.microbatch)).any():
            raise OptionError("runs: the batch must be a multiple of data parallelism times microbatch")

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Runs:
        """Return runs from rows that have these fields."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.array([float(row[name]) for row in rows]) for name in names})

    def __len__(self) -> int:
        return len(self.batch)

    def only(self, chosen: Flags) -> Runs:
        """Return the runs that are chosen."""
        return Runs(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    @property
    def microbatches(self) -> Floats:
        """Microbatches of each pipeline in a step."""
        return self.batch / (self.data * self.microbatch)

    def features(self) -> Floats:
        """Return what tells runs apart, in octaves; shape (runs, 8)."""
        columns = (
            *(self.microbatch, self.hidden, self.sequence, self.tensor, self.pipeline),
            *(self.microbatches, self.data, self.layers / self.pipeline),
        )
        return np.log2(np.stack(columns, axis=1))
