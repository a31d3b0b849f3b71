"""Plans of very many entries in columns, whose entries are made when they are accessed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from ...instances.common.column_table import RowSequence
from ...instances.common.fields import Fields, Model

EntryT = TypeVar("EntryT", bound=Model)


class ColumnPlan(RowSequence[EntryT]):
    """A plan in columns; as a sequence it is like the tuple of its entries, in a tenth of the memory.

    Attributes
    ----------
    entry
        Type of the entries.
    """

    entry: ClassVar[type[Model]]

    @abstractmethod
    def plain(self, rows: slice = slice(None)) -> list[Fields]:
        """Return entries as plain data, with their fields in order."""

    def made(self, rows: slice) -> tuple[EntryT, ...]:
        """Return some of the entries."""
        made: Any = tuple(self.entry.model_construct(**fields) for fields in self.plain(rows))
        return made  # type: ignore[no-any-return]  # of the type that the class names

    def __iter__(self) -> Iterator[EntryT]:
        return (entry for rows in row_blocks(len(self)) for entry in self[rows])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # as of every class with an equality of its own


ROWS_AT_ONCE = 10_000


def row_blocks(count: int) -> Iterator[slice]:
    """Yield consecutive blocks of so many rows, so that plain data of all are never there at once."""
    return (slice(first, first + ROWS_AT_ONCE) for first in range(0, count, ROWS_AT_ONCE))


def plain_entries(plan: Sequence[Any], rows: slice = slice(None)) -> list[Any]:
    """Return the entries of a plan, or some of them, as plain data."""
    if isinstance(plan, ColumnPlan):
        return plan.plain(rows)
    return [entry.model_dump(mode="json") if isinstance(entry, Model) else entry for entry in plan[rows]]
