"""Field types and the base class of every document, with immutable mappings.

Documents are untrusted: unknown keys, NaN, infinities, booleans where a number is expected and absurd
magnitudes are faults. Text of a CSV cell (`Cell`) may be parsed as a number, other text may not.
Mappings cannot be changed, because instances are hashed, compared and shared between threads.
"""

from __future__ import annotations

import itertools
import re
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NoReturn, Self, TypeVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapSerializer,
    WrapValidator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from .errors import MAX_FAULTS, shown, some

KeyT = TypeVar("KeyT")
ItemT = TypeVar("ItemT")
Fields = dict[str, Any]
"""Name → value, as plain data: a document or a part of one, or facts and options by name."""


class FrozenDict(dict[KeyT, ItemT]):
    """An immutable dictionary; `dict(frozen)` and `frozen | other` are plain copies."""

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
    """Return a dictionary as a `FrozenDict`; return any other value unchanged."""
    return FrozenDict(value) if type(value) is dict else value


LARGEST = 1e15
"""Upper limit of every quantity, so that products and sums stay well inside floating-point range."""


NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
WHOLE_NUMBER = re.compile(r"[-+]?[0-9]{1,18}")
"""Text of a CSV cell that is read as a number, or as a whole number."""
ESCAPED = re.compile(r"'(?='*[=+@-])")
"""The quote that tables written as CSV put before text that a spreadsheet would take for a formula."""
MAX_UNKNOWN_KEYS = 100
"""Unknown keys beyond which an object is refused as a whole."""
BATCH_SIZE = 10
"""Entries of a list that are validated in one batch; of a mapping ten times as many."""


class Cell(str):
    """Text of one CSV cell, which a field may read as a number or a truth value."""

    __slots__ = ()


class Model(BaseModel):
    """Base of all documents: immutable, no unknown keys, no NaN or infinity."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True, protected_namespaces=()
    )

    @model_validator(mode="before")
    @classmethod
    def _has_few_keys(cls, data: Any) -> Any:
        # An error for each of a million unknown keys would take more memory than there is.
        # Looking the fields up takes longer than the rest of a small document.
        if not isinstance(data, dict) or len(data) <= MAX_UNKNOWN_KEYS:
            return data
        many = len(data) > len(cls.model_fields) + MAX_UNKNOWN_KEYS
        if many and cls.model_config.get("extra") == "forbid":
            unknown = [key for key in itertools.islice(data, 1000) if key not in cls.model_fields]
            raise PydanticCustomError(
                "unknown_keys",
                "has {count} keys, such as {example}; allowed here: {allowed}",
                {
                    "count": f"{len(data):,}",
                    "example": shown(unknown[0]) if unknown else "…",
                    "allowed": ", ".join(cls.model_fields),
                },
            )
        return data

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy; cached properties are computed anew if a field changes."""
        if not update:
            return super().model_copy(deep=deep)
        frozen_values = map(frozen, update.values())
        copied = super().model_copy(update=dict(zip(update, frozen_values, strict=True)), deep=deep)
        copied._forget_cached()
        return copied

    def _forget_cached(self) -> None:
        """Drop the values of cached properties, which are all that is no field."""
        for name in self.__dict__.keys() - type(self).model_fields.keys():
            del self.__dict__[name]


class Part(Model):
    """Base of what is read of objects that others define: their other keys are not looked at."""

    model_config = ConfigDict(extra="ignore")


class NotValidated:
    """Placeholder for the entries of a list that were not validated; no field accepts it."""

    def __repr__(self) -> str:
        return "…"


NOT_VALIDATED = NotValidated()


def validated_in_batches(most: int | None = None) -> WrapValidator:
    """Return a validator that checks long lists and mappings in batches, up to `MAX_FAULTS` faults.

    The errors of a million entries at once would take gigabytes. A mapping becomes a `FrozenDict`.

    Parameters
    ----------
    most
        Maximum number of entries; None: any number.
    """

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        if not isinstance(value, list | tuple | dict) or len(value) <= BATCH_SIZE:
            return frozen(handler(value))
        if most is not None and len(value) > most:
            context = {"field_type": "list", "max_length": most, "actual_length": len(value)}
            raise PydanticKnownError("too_long", context)
        mapping = isinstance(value, dict)
        remaining = iter(value.items()) if isinstance(value, dict) else iter(value)
        done: list[Any] = []
        faults = 0
        container: Callable[[Any], Any] = tuple
        size = 10 * BATCH_SIZE if mapping else BATCH_SIZE
        while faults < MAX_FAULTS and (part := list(itertools.islice(remaining, size))):
            try:
                good = handler(dict(part) if mapping else part)
                container = type(good)
                done += good.items() if mapping else good
            except ValidationError as error:
                faults += error.error_count()
                done += part
        if next(remaining, None) is not None:
            done.append(("…", NOT_VALIDATED) if mapping else NOT_VALIDATED)
        if not faults:
            return frozen(container(done))
        # What is valid already is passed on as it is; the faults now come with their places in the whole.
        return handler(dict(done) if mapping else done)

    return WrapValidator(validate)


def entries(most: int, least: int | None = None) -> tuple[Any, WrapValidator]:
    """Return the annotations of a list or mapping with so many entries, which are validated in batches."""
    return Field(min_length=least, max_length=most), validated_in_batches(most)


Many = Annotated[tuple[ItemT, ...], validated_in_batches()]
ManyNamed = Annotated[dict[KeyT, ItemT], validated_in_batches()]
Listed = Annotated[Many[ItemT], BeforeValidator(lambda value: () if value is None else value)]
"""A list; null stands for an empty one."""
Given = Annotated[ItemT, BeforeValidator(lambda value: {} if value is None else value)]
"""A mapping; null stands for an empty one."""


def unfit(what: str, value: Any) -> PydanticCustomError:
    """Return the validation error of a value, which stands in the message for ``{given}``."""
    return PydanticCustomError("unfit", what, {"given": shown(value)})


def _as_float(value: Any) -> Any:
    if isinstance(value, Cell) and (NUMBER.fullmatch(value) or value.lower().strip("+-.") in ("nan", "inf")):
        return float(value.replace(".nan", "nan").replace(".inf", "inf"))
    if isinstance(value, bool | str):
        what = "is {given}, which is not a number; write a plain number"
        raise unfit(what, value)
    if isinstance(value, int) and abs(value) > LARGEST:
        raise PydanticCustomError("too_large", "is too large; at most 1e15 is allowed")
    return value


def _as_int(value: Any) -> Any:
    if isinstance(value, Cell) and WHOLE_NUMBER.fullmatch(value):
        return int(value)
    if isinstance(value, bool | str) or (isinstance(value, float) and not value.is_integer()):
        what = "is {given}, which is not a whole number; write a whole number"
        raise unfit(what, value)
    return int(value) if isinstance(value, float) else value


def _as_version(value: Any) -> Any:
    if isinstance(value, bool) or value != 1:
        raise unfit("is {given}; allowed: 1", value)
    return 1


def _as_bool(value: Any) -> Any:
    if isinstance(value, Cell) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, bool):
        return value
    what = "is {given}, neither true nor false; write true or false"
    raise unfit(what, value)


def as_text(value: Any) -> Any:
    """Return the text of a CSV cell without its escapes; return any other value unchanged."""
    return str(unescaped(value)) if isinstance(value, Cell) else value


def unescaped(text: str) -> str:
    """Return text from a CSV file without the quote that keeps spreadsheets from reading it as a formula."""
    return text[1:] if text[:1] == "'" and ESCAPED.match(text) else text


def unless(default: Any) -> AfterValidator:
    """Return a validator that turns the default into None: documents without it keep their text and hash."""
    return AfterValidator(lambda value: None if value == default else value)


def _printable(value: str) -> str:
    if not value.isprintable() or not value.strip():
        raise PydanticCustomError("printable", "is blank or holds a control character; use printable text")
    return value


def _readable(value: str) -> str:
    if not value.replace("\n", "").replace("\t", "").isprintable():
        raise PydanticCustomError(
            "readable", "holds a control character; use printable text, tabs and new lines"
        )
    return value


def _count_keys(value: Any) -> Any:
    """Convert keys that are whole numbers, or text of one, to int; refuse duplicates."""
    if not isinstance(value, Mapping):
        return value
    by_count: dict[int, Any] = {}
    for key, item in value.items():
        whole = isinstance(key, int) and not isinstance(key, bool)
        if not whole and not (isinstance(key, str) and re.fullmatch(r"[0-9]{1,9}", key)):
            raise unfit("has the key {given}; keys are whole numbers from 1", key)
        if int(key) in by_count:
            raise PydanticCustomError("count_key", f"has the key {int(key)} twice; each may stand once")
        by_count[int(key)] = item
    return by_count


Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST), BeforeValidator(_as_float)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST), BeforeValidator(_as_float)]
Positive = Annotated[float, Field(gt=0, le=LARGEST), BeforeValidator(_as_float)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_as_float)]
PositiveShare = Annotated[float, Field(gt=0, le=1), BeforeValidator(_as_float)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000), BeforeValidator(_as_int)]
PositiveCount = Annotated[int, Field(ge=1, le=1_000_000_000), BeforeValidator(_as_int)]
ServerCount = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(_as_int)]
TaskCount = Annotated[int, Field(ge=0, le=100_000), BeforeValidator(_as_int)]
PositiveTaskCount = Annotated[int, Field(ge=1, le=100_000), BeforeValidator(_as_int)]
SchemaVersion = Annotated[Literal[1], BeforeValidator(_as_version)]
ByCount = Annotated[
    dict[Annotated[int, Field(ge=1, le=1_000_000_000)], NonNegative],
    validated_in_batches(100_000),
    BeforeValidator(_count_keys),
]
"""Whole number → quantity; JSON can only write keys as text, so text is read too."""
Flag = Annotated[bool, BeforeValidator(_as_bool)]
Name = Annotated[
    str, BeforeValidator(as_text), Field(min_length=1, max_length=200), AfterValidator(_printable)
]
Sentence = Annotated[
    str, BeforeValidator(as_text), Field(min_length=1, max_length=300), AfterValidator(_printable)
]
Text = Annotated[str, BeforeValidator(as_text), Field(max_length=10_000), AfterValidator(_readable)]
CELL_VALIDATORS = frozenset({_as_float, _as_int, _as_bool, as_text, _printable})
"""Validators of single cells, which `files.columnar` applies to whole columns."""
Amounts = Annotated[dict[Name, NonNegative], *entries(1000)]
"""Resource name → amount; a resource that is not named counts as 0."""
NONE_NAMED: FrozenDict[Any, Any] = FrozenDict()
"""The default of a mapping."""


def types_of(annotation: Any) -> list[Any]:
    """Return the possible types of a field, with unions and annotations expanded."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return types_of(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [member for part in get_args(annotation) for member in types_of(part)]
    return [annotation]


def marks_of(part: Any) -> Iterator[Any]:
    """Yield the annotations of a field or type, recursively, and the plain types themselves."""
    if isinstance(part, FieldInfo):
        yield from part.metadata
        yield from marks_of(part.annotation)
    for mark in getattr(part, "__metadata__", ()):
        yield from mark.metadata if isinstance(mark, FieldInfo) else [mark]
    for member in get_args(part):
        yield from marks_of(member)
    if isinstance(part, type):
        yield part


class SchemaAlternative:
    """Marks a field for which a document may give an alternative, which the JSON Schema then includes.

    The loader replaces the alternative by the value of the field before validation.

    Parameters
    ----------
    schema
        Returns the JSON Schema of the alternative.
    """

    def __init__(self, schema: Callable[[], dict[str, Any]]) -> None:
        self._schema = schema

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema of the field, or of its alternative."""
        return {"anyOf": [dict(handler(schema)), self._schema()]}


TABLE_FILE = SchemaAlternative(
    lambda: {
        "type": "string",
        "description": "path to a YAML, JSON, CSV or Parquet file, relative to this file",
    }
)
"""Marks a list for which a document may give the path of a table file."""


def rows_or(table: type) -> tuple[Any, ...]:
    """Return the annotations of a list of at least one job, or a valid `table` of jobs, which is kept."""
    return (
        Field(min_length=1),
        validated_in_batches(),
        WrapValidator(lambda rows, handler: rows if isinstance(rows, table) else handler(rows)),
        WrapSerializer(lambda rows, handler: handler(tuple(rows))),
        TABLE_FILE,
    )


def require(
    *names: str, or_field: tuple[str, str] | None = None, filled: Mapping[str, Any] | None = None
) -> Callable[[dict[str, Any]], None]:
    """Return a hook that marks fields as required in the JSON Schema of a document.

    Parameters
    ----------
    names
        Fields that have a default in Python and are required in a file.
    or_field
        A required field, and the field that may be given in its place.
    filled
        Required fields that a file may leave out, with the value that the reader fills in.
    """

    def adjust(schema: dict[str, Any]) -> None:
        schema["required"] = list(dict.fromkeys([*names, *schema.get("required", [])]))
        if or_field is not None:
            schema["required"] = [name for name in schema["required"] if name != or_field[0]]
            schema["anyOf"] = [{"required": [name]} for name in or_field]
        for name, value in (filled or {}).items():
            schema["required"].remove(name)
            schema["properties"][name]["default"] = value

    return adjust


Complaint = tuple[str, str]
"""A path in the document, such as ``jobs[0].name``, and what is wrong there."""


def refuse(complaints: Iterable[Complaint]) -> None:
    """Raise a validation error with the first hundred complaints, if there are any."""
    remaining = iter(complaints)
    listed = list(itertools.islice(remaining, MAX_FAULTS))
    if listed:
        text = "; ".join(f"{where}: {what}" for where, what in listed).replace("{", "(").replace("}", ")")
        more = sum(1 for _ in remaining)
        raise PydanticCustomError("complaints", text, {"complaints": listed, "more": more})


class Checked(Model):
    """Base of documents with rules between their fields."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse(self._complaints())
        return self

    def _complaints(self) -> Iterable[Complaint]:
        """Return the broken rules between fields, as pairs of path and message."""
        return ()


def repeated(
    values: Iterable[Hashable],
    path: str,
    key: str = "name",
    what: str = "{value!r} is already used by {path}[{first}]; each {key} must be unique",
) -> Iterator[Complaint]:
    """Yield a complaint for each value that occurs a second time in the list at `path`.

    Parameters
    ----------
    key
        The field of an entry that has the value; empty if the entry is the value.
    what
        The message.
    """
    first: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        if value in first:
            words = {"value": value, "path": path, "first": first[value], "key": key}
            yield f"{path}[{index}].{key}".removesuffix("."), what.format(**words)
        first.setdefault(value, index)


def unknown_names(
    names: Iterable[str], known: Iterable[str], path: str, what: str, plural: str = ""
) -> Iterator[Complaint]:
    """Yield a complaint, with the list of known names, for each name that is not among them."""
    allowed = known if isinstance(known, Mapping | set | frozenset) else dict.fromkeys(known)
    text = ""
    for name in names:
        if name not in allowed:
            text = text or some(allowed, 12) or "none"
            yield f"{path}.{name}", f"unknown {what} {name!r}; the {plural or what + 's'} are: {text}"
