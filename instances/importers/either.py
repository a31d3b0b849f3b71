"""One command for files of which several kinds of instance can be made, each by an importer of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import create_model
from pydantic.fields import FieldInfo

from ..common.base import Instance
from ..common.errors import OptionError
from .importer import Importer, ImportOptions, Option, option_of


def either(about: str, importers: Mapping[str, Importer[Any, Any]]) -> Importer[Any, Instance]:
    """Return an importer with the options of several, of which `kind` chooses one; by default the first.

    Options that all of them require come first, then `kind`, then the others, which are not given unless
    somebody does; which of them are needed depends on the kind.

    Parameters
    ----------
    about
        The help of the command.
    importers
        By kind of instance.

    Raises
    ------
    OptionError
        The importer, if an option is missing that the kind needs, or one is given that belongs to another.
    """
    by_kind = {kind: importer.options.in_order() for kind, importer in importers.items()}
    names = list(dict.fromkeys(name for fields in by_kind.values() for name in fields))
    always = [
        name
        for name in names
        if all(name in fields and fields[name].is_required() for fields in by_kind.values())
    ]
    first = next(iter(importers))
    kinds = Literal[tuple(importers)]  # type: ignore[valid-type]  # known only here
    chosen = Option(f"What to plan: {' or '.join(importers)}.")
    fields: dict[str, Any] = {name: _of_all(name, by_kind) for name in always}
    fields["kind"] = (Annotated[kinds, chosen], first)
    fields |= {name: _of_some(name, by_kind) for name in names if name not in always}
    model = create_model("EitherOptions", __base__=ImportOptions, __doc__=about, **fields)

    def make(options: ImportOptions) -> Instance:
        given = {name: value for name in fields if (value := getattr(options, name)) is not None}
        kind = given.pop("kind")
        _check(kind, given, by_kind)
        return cast("Instance", importers[kind](**given))

    make.__annotations__["options"] = model
    make.__doc__ = f"Return the {' or '.join(importers)} instance of these files."
    return Importer(make)


def _of_all(name: str, by_kind: Mapping[str, Mapping[str, FieldInfo]]) -> tuple[Any, Any]:
    """Return the type of a field that every kind requires."""
    field = next(iter(by_kind.values()))[name]
    return _annotated(field, option_of(field)), ...


def _of_some(name: str, by_kind: Mapping[str, Mapping[str, FieldInfo]]) -> tuple[Any, None]:
    """Return the type of a field that may be left out, and None, which says that it is."""
    having = {kind: fields[name] for kind, fields in by_kind.items() if name in fields}
    field = next(iter(having.values()))
    option = option_of(field)
    only = "" if len(having) == len(by_kind) else f"With --kind {' or '.join(having)}: "
    default = "" if field.is_required() or "[default:" in option.help else _default(field.default)
    said = option.help[:1].lower() + option.help[1:] if only and option.help[1:2].islower() else option.help
    kind = _annotated(field, replace(option, help=f"{only}{said}{default}"))
    return kind if type(None) in get_args(field.annotation) else kind | None, None


def _default(value: Any) -> str:
    return "" if value in (None, (), {}) or isinstance(value, bool) else f" [default: {value}]"


def _annotated(field: FieldInfo, option: Option) -> Any:
    """Return the type of a field with its marks, and with another option."""
    marks = [mark for mark in field.metadata if not isinstance(mark, Option)]
    return Annotated[(field.annotation, *marks, option)]


def _check(kind: str, given: Mapping[str, Any], by_kind: Mapping[str, Mapping[str, FieldInfo]]) -> None:
    """Refuse options of other kinds, and kinds without what they need."""
    own = by_kind[kind]
    for name in given:
        if name not in own:
            others = " or ".join(other for other, fields in by_kind.items() if name in fields)
            raise OptionError(f"{_flag(name, by_kind)} goes with --kind {others} only")
    always = {name for name in own if all(name in f and f[name].is_required() for f in by_kind.values())}
    needed = [name for name, field in own.items() if field.is_required() and name not in always]
    for name in needed:
        if name not in given:
            words = ", ".join(_flag(each, by_kind) for each in needed)
            raise OptionError(f"{_flag(name, by_kind)} is missing; --kind {kind} needs {words}")


def _flag(name: str, by_kind: Mapping[str, Mapping[str, FieldInfo]]) -> str:
    """Return how an option is typed."""
    field = next(fields[name] for fields in by_kind.values() if name in fields)
    return option_of(field).option.split("/")[0] or f"--{name.replace('_', '-')}"
