"""Tables of many rows in columns, which are sequences of objects that are made when they are accessed."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar, overload

import numpy as np

from .arrays import Floats

RowT = TypeVar("RowT")


class RowSequence(Sequence[RowT]):
    """A sequence of objects that are made when they are accessed."""

    @abstractmethod
    def made(self, rows: slice) -> tuple[RowT, ...]:
        """Return some of the rows as objects."""

    @overload
    def __getitem__(self, index: int) -> RowT: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RowT, ...]: ...
    def __getitem__(self, index: int | slice) -> RowT | tuple[RowT, ...]:
        if isinstance(index, slice):
            return self.made(index)
        row = range(len(self))[index]
        return self.made(slice(row, row + 1))[0]


@dataclass(frozen=True, eq=False)
class ColumnTable(RowSequence[RowT]):
    """Rows in columns.

    Attributes
    ----------
    AMOUNTS
        Fields with a column for each resource.
    resources
        Names of the resources.
    names
        The name of each row.
    """

    AMOUNTS: ClassVar[tuple[str, ...]]

    resources: tuple[str, ...]
    names: Sequence[str]

    @abstractmethod
    def _job(self, j: int) -> RowT:
        """Return row number j as an object."""

    def __len__(self) -> int:
        return len(self.names)

    def made(self, rows: slice) -> tuple[RowT, ...]:
        """Return some of the rows as objects."""
        return tuple(map(self._job, range(len(self))[rows]))

    def with_resources(self, resources: tuple[str, ...]) -> Self:
        """Return the table with columns for these resources, 0 for those that it does not have."""
        if resources == self.resources:
            return self
        places = [self.resources.index(name) if name in self.resources else -1 for name in resources]
        changes: dict[str, Any] = {}
        for field in self.AMOUNTS:
            amounts = getattr(self, field)
            # An unknown resource has the index −1, which is the last column.
            changes[field] = np.column_stack([amounts, np.zeros(len(amounts))])[:, places]
        return replace(self, resources=resources, **changes)

    def _named(self, amounts: Floats) -> dict[str, float]:
        """Return the amounts of one row above 0 by the names of the resources."""
        return {name: amount for name, amount in zip(self.resources, amounts.tolist(), strict=True) if amount}

    def hashed(self) -> Iterator[Any]:
        """Yield what the hash of the table is made of: arrays, texts and lists."""
        for field in fields(self):
            yield getattr(self, field.name)

    def sha256(self) -> str:
        """Return the hash of all columns of the table."""
        digest = hashlib.sha256()
        for column in self.hashed():
            if isinstance(column, np.ndarray):
                digest.update(np.ascontiguousarray(column + 0.0, dtype="<f8").tobytes())  # -0.0 is 0.0
            else:
                digest.update((column if isinstance(column, str) else json.dumps(list(column))).encode())
        return digest.hexdigest()
