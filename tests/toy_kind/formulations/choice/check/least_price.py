"""The bound on a choice, derived from the document alone."""

from __future__ import annotations

from ....instances.choice.instance import ChoiceInstance


def least_price_usd(instance: ChoiceInstance) -> float:
    """Return the least price of an item."""
    return min(item.price_usd for item in instance.items)
