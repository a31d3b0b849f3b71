"""Many rows of one pydantic model in columns: read from a table and checked, or taken from objects.

A column is named by the path of its field, such as `variants.speed.batch`. A list of parts has offsets under
its own path: the parts of row j are the entries `offsets[j]` to `offsets[j + 1]` of the columns below it.
Which columns there are, what their cells may hold and what an empty one stands for follows from the types of
the fields, so that no row becomes an object. A check may suspect a valid row, but never accepts one that
breaks the type of a field; the rules between fields are checked by those who know the model.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from ..common.arrays import Flags, Floats, Ints, offsets, run_of_each
from ..common.fields import CELL_VALIDATORS, Name, marks_of, types_of
from .columns import Columns
from .reading import MAX_CELLS

if TYPE_CHECKING:
    import pyarrow as pa

NONE = -1
"""Code of an empty cell of text."""


class Words(NamedTuple):
    """A column of text: for each cell the index of its word in a list."""

    codes: Ints
    words: Sequence[str]

    def texts(self) -> list[Any]:
        """Return the cells; None for an empty one."""
        texts: list[Any] = np.array([*self.words, None], dtype=object)[self.codes].tolist()
        return texts

    def codes_in(self, others: Sequence[str]) -> Ints:
        """Return the cells as indices into other words; −2 for one that is not among them."""
        places = {word: code for code, word in enumerate(others)}
        codes: Ints = np.array([*(places.get(word, -2) for word in self.words), NONE])[self.codes]
        return codes


class Field(NamedTuple):
    """What a column holds of a field of a model, or of a part that has one of several models.

    Attributes
    ----------
    kind
        `number`, `flag`, `word` (one of a few), `name`, `amounts` (by name), `part`, or `list` (of parts).
    least, most, whole
        Limits of a number or a code, and whether it is whole; of a list `most` is the greatest length.
    default
        What an empty cell stands for: a number, NaN for none, or the code of a word.
    words, models
        The allowed words; the possible models of a part.
    exists, required
        Which of the models have the field, and which require it; false for the last entry, which is no model.
    """

    kind: str
    least: float
    most: float
    whole: bool
    default: float
    words: tuple[str, ...]
    models: tuple[type[BaseModel], ...]
    exists: Flags
    required: Flags


@cache
def fields_of(models: tuple[type[BaseModel], ...]) -> dict[str, Field]:
    """Return name → field of all models together; fields that no column can hold are left out.

    A list of fixed length is a field for each of its entries, whose number is part of the name.
    """
    fields: dict[str, Field] = {}
    for place, model in enumerate(models):
        for name, info in model.model_fields.items():
            types = [kind for kind in types_of(info.annotation) if kind is not NoneType]
            entries = get_args(types[0]) if get_origin(types[0]) is tuple else ()
            fixed = {f"{name}.{k}": types_of(entry) for k, entry in enumerate(entries)}
            for key, kinds in ({name: types} if Ellipsis in entries or not fixed else fixed).items():
                field, known = _field(info, kinds, len(models)), fields.get(key)
                if field is None:
                    continue
                if known is not None:  # the masks of the models stay one object
                    field = known._replace(words=(*known.words, *field.words))
                fields[key] = field
                field.exists[place], field.required[place] = True, info.is_required()
    return fields


def _field(info: FieldInfo, types: list[Any], models: int) -> Field | None:
    """Return what a column holds of a field of one of these types; None if no column can."""
    kind, parts = _kind(types)
    marks = list(marks_of(info))
    validators = [mark.func for mark in marks if isinstance(mark, AfterValidator | BeforeValidator)]
    if kind is None or not all(each in CELL_VALIDATORS or hasattr(each, "le") for each in validators):
        return None
    limits = [*marks, *validators]
    least = [limit.ge for limit in limits if hasattr(limit, "ge")]
    # The smallest double above an open limit makes it a closed one.
    least += [np.nextafter(limit.gt, np.inf) for limit in limits if hasattr(limit, "gt")]
    most = [limit.le for limit in limits if hasattr(limit, "le")]
    longest = [limit.max_length for limit in limits if hasattr(limit, "max_length")]
    words = get_args(types[0]) if kind == "word" else ()
    default = np.nan if info.default is None else info.default
    if kind in ("word", "name"):
        # The limits are those of codes; how long a name may be is known to `are_names`.
        least, most, longest = [0], [], []
        default = words.index(default) if default in words else NONE
    return Field(
        kind,
        least=float(max(least, default=-np.inf)),
        most=float(min(most, default=max(longest, default=np.inf))),
        whole=int in marks,
        default=float(default) if isinstance(default, int | float) else 0.0,
        words=words,
        models=parts,
        exists=np.zeros(models + 1, dtype=bool),
        required=np.zeros(models + 1, dtype=bool),
    )


def _kind(types: list[Any]) -> tuple[str | None, tuple[Any, ...]]:
    """Return the kind of a field of one of these types, and the models of its parts."""
    first, arguments = types[0], get_args(types[0])
    if all(isinstance(each, type) and issubclass(each, BaseModel) for each in types):
        return "part", tuple(types)
    if len(types) > 1:
        return None, ()
    if get_origin(first) is Literal:
        return "word", ()
    if get_origin(first) is tuple:
        kind, models = _kind(types_of(arguments[0]))
        return ("list", models) if kind == "part" else (None, ())
    if get_origin(first) is dict:
        return "amounts" if [types_of(each) for each in arguments] == [[str], [float]] else None, ()
    return {float: "number", int: "number", bool: "flag", str: "name"}.get(first), ()


class TooManyCells(Exception):
    """The columns of a table would take more memory than allowed, as those of a hostile one."""


class _Place(NamedTuple):
    """Where some entries of lists stand: start of the names of their columns, rows, and their own numbers."""

    start: str
    rows: Ints | slice
    entries: Ints | slice


class _Entries(NamedTuple):
    """The rows of a table, or the entries of a list in each of them, and where their cells are.

    Attributes
    ----------
    row
        Row of each of the N entries, shape (N,), ascending.
    places
        All places of entries: the first of a list, the second, and so on.
    columns
        Rest of the name of a column → the numbers of the places that have it.
    """

    row: Ints
    places: list[_Place]
    columns: Mapping[str, list[int]]

    def joined(self, name: str, cells: Callable[[str], Any], kind: type) -> Any:
        """Return the cells of a column at all places, by entry; 0 at a place without such a column."""
        column: Any = np.zeros(0 if len(self.places) == 1 else len(self.row), dtype=kind)
        for number in self.columns.get(name, ()):
            start, rows, entries = self.places[number]
            if len(self.places) == 1:
                return cells(start + name)[rows]
            column[entries] = cells(start + name)[rows]
        return column


class ColumnarRows:
    """The rows of a table as columns of the fields of a model, and which rows may be invalid.

    Attributes
    ----------
    values
        Path of a field → its column: numbers or truth values, defaults filled in, and NaN for none; `Words`;
        whether a part is there; the offsets of a list; of amounts, name → column, NaN in empty cells.
    wrong
        Which rows may be invalid, shape (J,); includes every row in which a field breaks its type.
    unread
        Columns of the table that belong to no field, or to one that no column can hold.

    Raises
    ------
    TooManyCells
        If the columns of all entries would exceed a memory limit.
    """

    def __init__(self, columns: Columns, model: type[BaseModel], left_out: Iterable[str] = ()) -> None:
        self.values: dict[str, Any] = {}
        self.wrong: Flags = np.zeros(len(columns), dtype=bool)
        self.unread = set(columns.names)
        self._columns = columns
        self._under = _by_prefix(columns.names)
        self._left_out = frozenset(left_out)
        self._size = 0
        numbers, everything = np.arange(len(columns)), _Place("", slice(None), slice(None))
        rows = _Entries(numbers, [everything], {name: [0] for name in columns.names})
        self._entries = {"": rows}
        self._read((model,), rows, "", "")

    def __getitem__(self, path: str) -> Any:
        return self.values[path]

    def suspect(self, path: str, broken: Flags) -> None:
        """Note which entries of the list at a path, or rows if it is empty, may break a rule."""
        self._suspect(self._entries[path], broken)

    def rows_of(self, path: str) -> Ints:
        """Return the row of each entry of the list at a path."""
        return self._entries[path].row

    def given(self, columns: Iterable[str]) -> Flags:
        """Return which rows have a cell in one of these columns."""
        given = np.zeros(len(self.wrong), dtype=bool)
        for column in columns:
            given |= self._columns.given(column)
        return given

    def _suspect(self, entries: _Entries, broken: Flags) -> None:
        if broken.any():
            self.wrong[entries.row[broken]] = True

    def _read(
        self,
        models: tuple[type[BaseModel], ...],
        entries: _Entries,
        at: str,
        path: str,
        there: Flags | None = None,
    ) -> None:
        """Read the fields of the entries of a list, or of a part of each, which has one of these models.

        Parameters
        ----------
        at, path
            Start of the names of the columns at each place, and of the paths of the fields.
        there
            Which entries have the part; None: all.
        """
        model = np.zeros(len(entries.row), dtype=np.int64) if there is None else np.where(there, 0, NONE)
        readers: dict[str, Any] = {"amounts": self._amounts, "part": self._part, "list": self._list}
        for name, field in fields_of(models).items():
            if path + name in self._left_out:
                continue
            read = readers.get(field.kind, self._cells)
            self.values[path + name], given = read(entries, at + name, path + name, field)
            if len(models) > 1 and field.kind == "word":  # it says which model the part has
                model = self.values[path + name].codes
            if field.required.any():
                self._suspect(entries, field.required[model] & ~given)
            if not field.exists[:-1].all():
                self._suspect(entries, given & ~field.exists[model])

    # What is read of a field: its column, and which entries have a cell

    def _cells(self, entries: _Entries, name: str, path: str, field: Field) -> tuple[Any, Flags]:
        del path
        words: Sequence[str] = field.words
        places = {word: code for code, word in enumerate(words)}

        def codes(column: str) -> Ints:
            """Return a column of text as codes of words; −1 where a cell is no allowed text."""
            nonlocal words
            own, texts = self._columns.texts(column)
            if field.words:
                found = np.array([places.get(text, NONE) for text in texts], dtype=np.int64)
            else:
                # A single column has each of its words once.
                several = len(entries.places) > 1
                shared = [places.setdefault(text, len(places)) for text in texts] if several else ()
                words = tuple(places) if several else texts
                found = np.where(are_names(texts), shared if several else np.arange(len(texts)), NONE)
            return np.append(found, NONE)[own]  # a cell without text has the index −1, the last entry

        numbers = self._columns.whole_numbers if field.whole else self._columns.numbers
        read = {"number": numbers, "flag": self._columns.flags}.get(field.kind, codes)
        values, given = self._values(entries, name, read, field, field.default)
        return Words(values.astype(np.int64), words) if read is codes else values, given

    def _values(
        self, entries: _Entries, name: str, read: Callable[[str], Any], field: Field, default: float
    ) -> tuple[Any, Flags]:
        """Return the cells of a field as numbers or codes; those out of its limits are suspect."""
        size = len(entries.row)
        self._size += size
        if self._size > MAX_CELLS:
            raise TooManyCells
        found = entries.columns.get(name, ())
        self.unread.difference_update(entries.places[number].start + name for number in found)
        if not found:
            return np.full(size, default), np.zeros(size, dtype=bool)
        given: Flags = entries.joined(name, self._columns.given, bool)
        values = entries.joined(name, read, float)
        fine = given & (values >= field.least) & (values <= field.most)
        self._suspect(entries, given & ~fine)
        return np.where(fine, values, default), given

    def _amounts(
        self, entries: _Entries, name: str, path: str, field: Field
    ) -> tuple[dict[str, Floats], Flags]:
        del path
        amounts: dict[str, Floats] = {}
        given = np.zeros(len(entries.row), dtype=bool)
        for column in entries.columns:
            key = column.removeprefix(f"{name}.")
            # The validation of rows knows whether any other name is a fault.
            if key != column and "." not in key and not key.isdigit() and are_names([key])[0]:
                amounts[key], there = self._values(entries, column, self._columns.numbers, field, np.nan)
                given |= there
        return amounts, given

    def _part(self, entries: _Entries, name: str, path: str, field: Field) -> tuple[Flags, Flags]:
        there = np.zeros(len(entries.row), dtype=bool)
        for start, rows, numbers in entries.places:
            there[numbers] = self.given(self._under.get(start + name, ()))[rows]
        self._read(field.models, entries, f"{name}.", f"{path}.", there)
        return there, there

    def _list(self, entries: _Entries, name: str, path: str, field: Field) -> tuple[Ints, Flags]:
        starts: list[tuple[str, int]] = []
        rows, owners = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        columns: dict[str, list[int]] = {}
        everywhere, everyone = np.arange(len(self.wrong)), np.arange(len(entries.row))
        for start, at, numbers in entries.places:
            for k in itertools.count():
                prefix = f"{start}{name}.{k}"
                if prefix not in self._under:
                    break
                for column in self._under[prefix]:
                    columns.setdefault(column[len(prefix) + 1 :], []).append(len(starts))
                there = self.given(self._under[prefix])[at]
                starts.append((f"{prefix}.", k))
                rows.append(everywhere[at][there])
                owners.append(everyone[numbers][there])
        row, owner = np.concatenate(rows), np.concatenate(owners)
        # The entries of one owner are in the order of their places.
        order = np.argsort(owner, kind="stable")
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        counts = np.bincount(owner, minlength=len(entries.row))
        first = offsets(counts)
        sizes = [len(part) for part in rows[1:]]
        gap = number - first[owner] != np.repeat(np.array([k for _, k in starts], dtype=np.int64), sizes)
        self.wrong[row[gap]] = True
        self._suspect(entries, counts > field.most)
        split = zip(starts, rows[1:], np.split(number, np.cumsum(sizes))[:-1], strict=True)
        places = [_Place(start, part, numbers) for (start, _), part, numbers in split]
        self._entries[path] = _Entries(row[order], places, columns)
        self._read(field.models, self._entries[path], "", f"{path}.")
        return first, counts > 0


def repeated(first: Ints, *keys: Ints) -> Flags:
    """Return which entries of the lists with these offsets have the keys of another of the same list."""
    owner = run_of_each(first)
    order = np.lexsort((*keys, owner))
    same = np.logical_and.reduce([key[order][1:] == key[order][:-1] for key in (owner, *keys)])
    twice = np.zeros(len(owner), dtype=bool)
    twice[order[1:][same]] = True
    return twice


LONGEST_NAME: int = next(mark.max_length for mark in marks_of(Name) if hasattr(mark, "max_length"))


def are_names(texts: Sequence[str]) -> list[bool]:
    """Return for each text whether it is a valid name."""
    if "".join(texts).isprintable() and all(map(str.strip, texts)):
        return [length <= LONGEST_NAME for length in map(len, texts)]
    return [0 < len(text) <= LONGEST_NAME and text.isprintable() and bool(text.strip()) for text in texts]


def _by_prefix(names: Iterable[str]) -> dict[str, list[str]]:
    """Return each name, and each start of one before a dot → the names that are it or begin so."""
    under: dict[str, list[str]] = {}
    for name in names:
        for dot in (*re.finditer(r"\.", name), None):
            under.setdefault(name if dot is None else name[: dot.start()], []).append(name)
    return under


def columns_of(
    objects: Sequence[Any], models: tuple[type[BaseModel], ...], left_out: Iterable[str] = (), path: str = ""
) -> dict[str, Any]:
    """Return path of a field → the column of these objects, as `ColumnarRows` has it for a table.

    Parameters
    ----------
    objects
        Each is of one of the models, or None for a part that is not there.
    left_out
        Paths of fields that are not wanted.
    path
        Start of the paths of the fields.
    """
    columns: dict[str, Any] = {}
    for name, field in fields_of(models).items():
        attribute, _, entry = name.partition(".")
        at = path + name
        if at in left_out:
            continue
        cells = [getattr(each, attribute, None) for each in objects]
        if entry:
            cells = [cell[int(entry)] if cell and len(cell) > int(entry) else None for cell in cells]
        if field.kind in ("number", "flag"):
            columns[at] = np.array([field.default if cell is None else cell for cell in cells], dtype=float)
        elif field.kind in ("word", "name"):
            codes = dict(zip(field.words, itertools.count(), strict=False))
            own = [NONE if cell is None else codes.setdefault(cell, len(codes)) for cell in cells]
            columns[at] = Words(np.array(own, dtype=np.int64), tuple(codes))
        elif field.kind == "amounts":
            given = [cell or {} for cell in cells]
            columns[at] = {}
            for key in dict.fromkeys(itertools.chain.from_iterable(given)):
                columns[at][key] = np.array([cell.get(key, np.nan) for cell in given])
        else:
            if field.kind == "part":
                columns[at] = np.array([cell is not None for cell in cells])
            else:
                columns[at] = offsets(np.array([len(cell or ()) for cell in cells], dtype=np.int64))
                cells = [entry for cell in cells for entry in cell or ()]
            columns |= columns_of(cells, field.models, left_out, f"{at}.")
    return columns


def matrix(amounts: Mapping[str, Floats], names: Sequence[str], size: int) -> Floats:
    """Return the amounts of each of `size` entries by name, one column for each; 0 for an empty cell."""
    columns = np.zeros((size, len(names)))
    for k, name in enumerate(names):
        columns[:, k] = amounts.get(name, 0.0)
    columns[np.isnan(columns)] = 0.0
    return columns


class Unless(NamedTuple):
    """A column that is not written where all its cells are empty or hold the default."""

    cells: Any
    default: Any = None


class Listed(NamedTuple):
    """The columns of a list of each row, whose entries are those between two of the offsets."""

    first: Ints
    columns: Mapping[str, Any]


def written(columns: Mapping[str, Any], size: int) -> pa.Table:
    """Return the table of rows in columns: the entries of lists have columns with a number in their names.

    Parameters
    ----------
    columns
        Name → cells: an array, NaN or masked where a cell is empty; a list of texts or None; `Unless` or
        `Listed`. Columns of entries that hold no cell are left out.
    size
        The number of rows.
    """
    import pyarrow as pa

    return pa.table(dict(_written(columns, np.arange(size), np.ones(size, dtype=bool), "")))


def _written(columns: Mapping[str, Any], at: Ints, there: Flags, start: str) -> Iterator[tuple[str, Any]]:
    """Yield name and cells of each column; row j has those at `at[j]`, or none if it is not there."""
    import pyarrow as pa

    for name, column in columns.items():
        if isinstance(column, Listed):
            counts = np.where(there, np.diff(column.first)[at], 0)
            for k in range(int(counts.max())):
                entry = np.where(counts > k, column.first[at] + k, 0)
                yield from _written(column.columns, entry, counts > k, f"{start}{name}.{k}.")
            continue
        cells = column.cells if isinstance(column, Unless) else column
        cells = cells if isinstance(cells, np.ndarray) else np.array(cells, dtype=object)
        values, empty = np.ma.getdata(cells)[at], np.ma.getmaskarray(cells)[at] | ~there
        kind = pa.string() if values.dtype == object else None
        if kind is not None:
            empty |= np.array([value is None for value in values], dtype=bool)
        elif values.dtype == float:
            empty |= np.isnan(values)
        left_out = isinstance(column, Unless) and (empty | (values == column.default)).all()
        if not left_out and not (start and empty.all()):
            yield start + name, pa.array(values, type=kind, mask=empty)
