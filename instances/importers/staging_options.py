"""Options that several importers of staging instances have."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..common.fields import Name, Positive, PositiveCount, Share
from .importer import OnCommandLine

UnitLimits = Annotated[
    dict[Name, PositiveCount], Field(description="Units of each type, such as A100-40=8,GH-96=4.")
]
Floor = Annotated[Positive | None, Field(description="Floor in samples/s.")]
ParallelShare = Annotated[Share, Field(description="Share of the compute time that units divide.")]
Samples = Annotated[Positive, Field(description="Samples to train.")]
Epochs = Annotated[Positive, Field(description="How many times over.")]
Link = Annotated[
    Positive | None,
    Field(description="Speed of the links; 0: no communication."),
    OnCommandLine(least=0, read=lambda gbit_per_s: gbit_per_s or None),
]
