"""Items with prices, of which one is to be chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ..common.base import Instance
from ..common.fields import Complaint, Many, Model, Name, NonNegative, repeated

if TYPE_CHECKING:
    import pandas as pd


class Item(Model):
    """Something that can be chosen."""

    name: Name
    price_usd: NonNegative


class ChoiceInstance(Instance):
    """Which item is the cheapest?"""

    kind: Literal["choice"] = "choice"
    items: Annotated[Many[Item], Field(min_length=1)]

    def _complaints(self) -> Iterator[Complaint]:
        yield from repeated((item.name for item in self.items), "items")

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each item."""
        import pandas as pd

        return pd.DataFrame([item.model_dump() for item in self.items])
