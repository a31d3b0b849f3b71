"""Registration of consolidation instances: data model, builder, large tables in files, and a tiny example.

Among 100,000 servers or jobs hundreds have the same demand. Rows are grouped into equivalence classes
that differ only in a name or value: one row of each class is validated as in small tables, and the others
are copies of its object. Fields without rules that tie them to other fields may differ within a class, and
each of their cells is validated separately.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ..common.arrays import Ints
from ..common.errors import MAX_FAULTS
from ..common.fields import Fields, Model, Name, NonNegative
from ..common.kind import InstanceKind, ServerBuilder, Tables
from ..files.columns import Columns
from ..files.reading import MAX_OBJECT_CELLS
from ..files.tables import NO_COLUMN, can_be_columns
from .generate import generate_consolidation
from .instance import ConsolidationInstance, Server
from .job import PlacementJob

ModelT = TypeVar("ModelT", bound=Model)

TABLES: dict[str, tuple[type[Model], Fields]] = {
    "servers": (Server, {"name": Name, "rack": Name}),
    "jobs": (PlacementJob, {"name": Name, "value": NonNegative}),
}
"""Model of the rows of each table, and the fields that may differ within an equivalence class."""
LEAST_CLASS_SIZE = 2
"""Average size of the equivalence classes from which on they are used."""
CHUNK = 1_000
"""Rows that are read in one batch."""
MAX_CURRENT = 1_000
"""Limit of the servers on which jobs of a table run now, because each is a column."""


def with_tables(data: Fields) -> Fields:
    """Return a document with its large tables read: as objects, invalid rows as mappings."""
    resolved = dict(data)
    for key, (model, own) in TABLES.items():
        table = data.get(key)
        if isinstance(table, Columns):
            # A row that names hardware may lack its capacity, which the catalogue has.
            if "hardware" in table.names:
                resolved[key] = table.rows()
            else:
                resolved[key] = read_by_classes(table, model, own) or _one_by_one(table, model)
    return resolved


def read_by_classes(columns: Columns, model: type[ModelT], own: Mapping[str, Any]) -> list[ModelT] | None:
    """Return the objects of all rows of a table; each equivalence class of rows is validated once.

    Parameters
    ----------
    columns
        The table.
    model
        The model of a row.
    own
        Type of each field of one cell that no rule of the model ties to another field.

    Returns
    -------
    objects
        Objects of one class share the values of all but these fields. None if the table has to be read row by
        row, because it has a fault or its rows form too many classes.
    """
    if columns.cells > MAX_OBJECT_CELLS:
        return None
    own = {name: kind for name, kind in own.items() if name in columns.names}
    sort, first = _equivalence_classes(columns, own)
    if len(first) * LEAST_CLASS_SIZE > len(columns):
        return None
    try:
        # Each different cell is checked once, however many rows have it.
        values = [_values(columns, name, kind) for name, kind in own.items()]
        patterns = [model.model_validate(row) for row in columns.rows(first)]
    except ValidationError:
        return None
    given = [[name in pattern.model_fields_set for name in own] for pattern in patterns]
    return [
        patterns[kind].model_copy(update=dict(itertools.compress(zip(own, cells, strict=True), given[kind])))
        for kind, *cells in zip(sort.tolist(), *values, strict=True)
    ]


def _equivalence_classes(columns: Columns, own: Mapping[str, Any]) -> tuple[Ints, Ints]:
    """Return the class of each row of a table by its cells but `own`, and each class's first row."""
    sort = np.zeros(len(columns), dtype=np.int64)
    for name in columns.names:
        codes = columns.given(name).astype(np.int64) if name in own else columns.distinct(name)[0] + 1
        # Classes are renumbered after each column; the product would overflow otherwise.
        _, sort = np.unique(sort * (int(codes.max()) + 1) + codes, return_inverse=True)
    first: Ints = np.unique(sort, return_index=True)[1]
    return sort, first


def _values(columns: Columns, name: str, kind: Any) -> list[Any]:
    """Return the validated values of one column of a table, None for empty cells."""
    codes, cells = columns.distinct(name)
    adapter: TypeAdapter[tuple[Any, ...]] = TypeAdapter(tuple[kind, ...])
    values: list[Any] = np.array([*adapter.validate_python(cells), None], dtype=object)[codes].tolist()
    return values


def _one_by_one(table: Columns, model: type[Model]) -> list[Any]:
    """Return the rows of a table as objects; those with faults as mappings.

    The validation of the whole document reports the faults of invalid rows; after `MAX_FAULTS` of them the
    other rows are left out.
    """
    objects: list[Any] = []
    faulty = 0
    for start in range(0, len(table), CHUNK):
        for row in table.rows(np.arange(start, min(start + CHUNK, len(table)))):
            try:
                objects.append(model.model_validate(row))
            except ValidationError:
                objects.append(row)
                faulty += 1
        if faulty >= MAX_FAULTS:
            break
    return objects


def why_no_table(instance: ConsolidationInstance) -> str | None:
    """Return why servers and jobs cannot be saved in tables; None if they can."""
    amounts: list[Mapping[str, Any]] = [server.capacity for server in instance.servers]
    amounts += [server.free for server in instance.servers if server.free is not None]
    amounts += [group.demand for job in instance.jobs for group in job.task_groups]
    if not all(amounts) or any(job.current is not None and not job.current for job in instance.jobs):
        return "a server or job has an empty mapping, which leaves no cell; write an amount of 0"
    if not can_be_columns({name for mapping in amounts for name in mapping}):
        return NO_COLUMN
    current = {name for job in instance.jobs for group in job.task_groups for name in group.current}
    if len(current) > MAX_CURRENT or not can_be_columns(current):
        return (
            f"jobs run on more than {MAX_CURRENT:,} servers now, or on one with a dot, a number alone or a "
            "blank at the ends for a name; a column for each is needed: ask for no table"
        )
    return None


def _written_tables(instance: ConsolidationInstance) -> dict[str, Any]:
    """Return servers and jobs as the tables of files."""
    import pyarrow as pa

    return {key: pa.table(_columns(getattr(instance, key))) for key in TABLES}


def _columns(rows: Iterable[Server | PlacementJob]) -> dict[str, list[Any]]:
    """Return column name → cells of all rows; None in cells with the default value."""
    dumped = (row.model_dump(mode="json", exclude_none=True, exclude_defaults=True) for row in rows)
    listed = [dict(_cells(fields)) for fields in dumped]
    names = dict.fromkeys(itertools.chain.from_iterable(listed))
    return {name: [cells.get(name) for cells in listed] for name in names}


def _cells(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, value) of each number and text inside a field."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _cells(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


CONSOLIDATION = InstanceKind(
    model=ConsolidationInstance,
    lists=("servers", "jobs"),
    tiny=lambda: generate_consolidation(2, 3, 4, seed=1),
    resolved=lambda data, *_: with_tables(data),
    tables=Tables(tuple(TABLES), why_no_table, _written_tables),
)


class Consolidation(ServerBuilder[ConsolidationInstance]):
    """Builds a consolidation instance.

    Parameters
    ----------
    fields
        Fields of `ConsolidationInstance`, such as `objectives`.
    """

    KIND = CONSOLIDATION

    def __init__(self, name: str = "consolidation", **fields: Any) -> None:
        super().__init__(name, **fields)

    def add_job(
        self,
        name: str,
        tasks: int | None = None,
        task_demand: Mapping[str, float] | None = None,
        **fields: Any,
    ) -> Self:
        """Add a job of identical tasks, with other fields of `PlacementJob` such as `value` or `groups`."""
        return self._add("jobs", {"name": name, "tasks": tasks, "task_demand": task_demand, **fields})
