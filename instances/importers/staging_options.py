"""Options that several importers of staging instances have."""

from __future__ import annotations

from typing import Annotated

from ..common.fields import Name, Positive, PositiveCount, Share
from .importer import Option

UnitLimits = Annotated[dict[Name, PositiveCount], Option("Units of each type, such as A100-40=8,GH-96=4.")]
Floor = Annotated[Positive | None, Option("Floor in samples/s.")]
ParallelShare = Annotated[Share, Option("Share of the compute time that units divide.")]
Samples = Annotated[Positive, Option("Samples to train.")]
Epochs = Annotated[Positive, Option("How many times over.")]
Link = Annotated[
    Positive | None,
    Option("Speed of the links; 0: no communication.", least=0, read=lambda gbit_per_s: gbit_per_s or None),
]
