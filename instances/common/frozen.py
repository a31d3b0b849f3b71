"""Mappings that cannot be changed, for instances that are hashed, shared between threads and compared."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from pydantic_core import core_schema

KeyT = TypeVar("KeyT")
ItemT = TypeVar("ItemT")


class FrozenDict(dict[KeyT, ItemT]):
    """A dictionary that raises on every change; `dict(frozen)` and `frozen | other` are plain copies."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("instances cannot be changed; make another one with instance.replace(...)")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has None
        return hash(frozenset(self.items()))

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> core_schema.CoreSchema:
        # Asked for where one is the default of a field, which the JSON Schema writes as a plain object.
        return core_schema.dict_schema()

    def __reduce__(self) -> tuple[Any, ...]:
        # By default pickle fills an empty one item by item.
        return type(self), (dict(self),)


def frozen(value: Any) -> Any:
    """Return a dictionary as one that cannot be changed; leave any other value as it is."""
    return FrozenDict(value) if type(value) is dict else value
