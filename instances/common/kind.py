"""Records of the kinds of problem for instances: data model, tables; and the base class of builders.

A builder makes an instance call by call; errors are raised when it is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, cast

from ..files.columns import frame_rows
from ..references import Folder
from .base import Instance
from .faults import validated
from .fields import Fields


class Tables(NamedTuple):
    """How the long lists of an instance are saved in tables beside its document.

    Attributes
    ----------
    lists
        The keys of these lists in the document.
    why_not
        Returns why tables cannot hold them; None if they can.
    made
        Returns the table of each list, of pyarrow.
    """

    lists: tuple[str, ...]
    why_not: Callable[[Any], str | None]
    made: Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True)
class InstanceKind:
    """The data model of one kind of problem, and how its documents are read and written.

    Attributes
    ----------
    model
        The class of its instances.
    lists
        The lists of its document for which a path may be given.
    tiny
        Returns an instance that brute force solves at once.
    resolved
        Turns a document whose lists have been read into an instance, or into plain data for the validation.
    tables
        How lists are saved in tables; None: they are saved in the document only, and read as rows.
    """

    model: type[Instance]
    lists: tuple[str, ...]
    tiny: Callable[[], Instance]
    resolved: Callable[[Fields, str, Folder], Instance | Fields] = lambda data, *_: data
    tables: Tables | None = None


KindT = TypeVar("KindT")


@dataclass(frozen=True, eq=False)
class KindRegistry(Mapping[str, KindT]):
    """The records of one floor by the name of the kind, each imported when it is first asked for.

    Attributes
    ----------
    floor
        Package of the floor; the record is in the module `<kind>.kind` under the name in capital letters.
    names
        Names of the kinds.
    """

    floor: str
    names: tuple[str, ...]

    def __getitem__(self, name: str) -> KindT:
        if name not in self.names:
            raise KeyError(name)
        record: KindT = getattr(import_module(f"{self.floor}.{name}.kind"), name.upper())
        return record

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


InstanceT = TypeVar("InstanceT", bound=Instance)
Rows = Any
"""A list of mappings as a document has them, or a pandas table with the columns of CSV files."""


class Builder(Generic[InstanceT]):
    """Base of builders, which collect the document of an instance call by call.

    Attributes
    ----------
    KIND
        The kind of the instance.
    """

    KIND: ClassVar[InstanceKind]

    def __init__(self, name: str, **fields: Any) -> None:
        self._name = name
        self._fields = {"name": name, **given(fields)}
        self._lists: dict[str, list[Any]] = {key: [] for key in self.KIND.lists}

    def _add(self, key: str, row: Mapping[str, Any]) -> Self:
        self._lists[key].append(given(row))
        return self

    def _add_all(self, key: str, rows: Rows) -> Self:
        self._lists[key] += self._rows(key, rows)
        return self

    def _rows(self, key: str, rows: Rows) -> Sequence[Any]:
        return cast(Sequence[Any], frame_rows(rows, f"{self._name}: {key}"))

    def build(self) -> InstanceT:
        """Return the instance; the builder can be used further.

        Raises
        ------
        InstanceError
            If anything is wrong; one fault each.
        """
        fields = self.KIND.model.model_fields
        lists = {key: list(rows) for key, rows in self._lists.items() if rows or fields[key].is_required()}
        described = self.KIND.resolved({**self._fields, **lists}, self._name, Folder(Path()))
        if not isinstance(described, Instance):
            described = validated(self.KIND.model, described, self._name)
        return cast(InstanceT, described)


class ServerBuilder(Builder[InstanceT]):
    """Base of builders of instances with servers and jobs."""

    def add_server(
        self,
        name: str,
        capacity: Mapping[str, float] | None = None,
        *,
        count: int | None = None,
        **fields: Any,
    ) -> Self:
        """Add a server, or `count` identical ones, with other fields of a server such as `gpu_model`."""
        return self._add("servers", {"name": name, "capacity": capacity, "count": count, **fields})

    def add_servers(self, rows: Rows) -> Self:
        """Add servers given as in a document."""
        return self._add_all("servers", rows)

    def add_jobs(self, rows: Rows) -> Self:
        """Add jobs given as in a document."""
        return self._add_all("jobs", rows)


def given(fields: Mapping[str, Any]) -> Fields:
    """Return the fields that are given; mappings are copied, for the caller may change them later."""
    return {
        key: dict(value) if isinstance(value, Mapping) else value
        for key, value in fields.items()
        if value is not None
    }
