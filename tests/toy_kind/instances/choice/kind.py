"""What choice consists of on this floor."""

from ..common.kind import InstanceKind
from .instance import ChoiceInstance, Item


def _tiny() -> ChoiceInstance:
    items = (Item(name="dear", price_usd=3), Item(name="cheap", price_usd=1))
    return ChoiceInstance(name="tiny", items=items)


CHOICE = InstanceKind(model=ChoiceInstance, lists=("items",), tiny=_tiny)
