"""Building an instance call by call; what is wrong is said when it is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from ..files.frames import frame_rows
from ..files.references import Folder
from .base import Instance
from .faults import validated
from .kind import InstanceKind

InstanceT = TypeVar("InstanceT", bound=Instance)
Rows = Any
"""A list of mappings as a document has them, or a pandas table with the columns of CSV files."""


class Builder(Generic[InstanceT]):
    """The document of an instance, to which entries are added.

    Attributes
    ----------
    KIND
        What it is built as.
    """

    KIND: ClassVar[InstanceKind]

    def __init__(self, name: str, **fields: Any) -> None:
        self._name = name
        self._fields = {"name": name, **_given(fields)}
        self._lists: dict[str, list[Any]] = {key: [] for key in self.KIND.lists}

    def _add(self, key: str, row: Mapping[str, Any]) -> Self:
        self._lists[key].append(_given(row))
        return self

    def _add_all(self, key: str, rows: Rows) -> Self:
        self._lists[key] += self._rows(key, rows)
        return self

    def _rows(self, key: str, rows: Rows) -> Sequence[Any]:
        return cast(Sequence[Any], frame_rows(rows, f"{self._name}: {key}"))

    def build(self) -> InstanceT:
        """Return the instance; the builder can go on to build others.

        Raises
        ------
        InstanceError
            If anything is wrong; one fault each.
        """
        lists = {key: list(rows) for key, rows in self._lists.items()}
        described = self.KIND.resolved({**self._fields, **lists}, self._name, Folder(Path()))
        if not isinstance(described, Instance):
            described = validated(self.KIND.model, described, self._name)
        return cast(InstanceT, described)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
