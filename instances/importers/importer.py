"""Base of importers: options that are declared once, and a function that makes an instance from them.

Some files can become several kinds of instance, each by its own importer; `multi_kind_importer` combines
these into one command. Rejected entries of a file are left out, counted and reported; the valid ones are
imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from inspect import Parameter, Signature
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, cast, get_args, get_type_hints

from pydantic import ValidationError, create_model
from pydantic.fields import FieldInfo

from ..common.base import Instance
from ..common.errors import Fault, Faults, OptionError, one_line, shortened, some
from ..common.faults import faults_of, validated
from ..common.fields import Model, marks_of
from .node_restrictions import NAMED, counted


class ImportOptions(Model):
    """Base of the options of an importer.

    Each field is an argument of the importer and an option of its command; an `Option` in its annotation
    has the help. The docstring of a subclass is the help of the command.

    Attributes
    ----------
    ORDER
        The fields that come first; the others follow as they are declared, those of a base class first.
    """

    ORDER: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def in_order(cls) -> dict[str, FieldInfo]:
        """Return the option fields by name, in the order of the arguments."""
        return {name: cls.model_fields[name] for name in dict.fromkeys((*cls.ORDER, *cls.model_fields))}


@dataclass(frozen=True)
class Option:
    """Help and command-line form of an option field.

    Parameters
    ----------
    help
        One sentence.
    option, argument
        Its name, such as ``--price``, or the name of a positional argument; by default an option named like
        the field.
    kind
        The type of the value on the command line.
    least
        The smallest number that is accepted.
    read
        Converts the text on the command line to the value of the field.
    """

    help: str
    option: str = ""
    argument: str = ""
    kind: Any = None
    least: float | None = None
    read: Callable[[Any], Any] | None = None


def option_of(field: FieldInfo) -> Option:
    """Return the `Option` in the annotation of a field."""
    return next(mark for mark in marks_of(field) if isinstance(mark, Option))


OptionsT = TypeVar("OptionsT", bound=ImportOptions)
InstanceT = TypeVar("InstanceT", bound=Instance)


class Importer(Generic[OptionsT, InstanceT]):
    """Decorator that turns a function of an options model into an importer with keyword arguments.

    Parameters
    ----------
    make
        The function that returns the instance for validated options.
    """

    def __init__(self, make: Callable[[OptionsT], InstanceT]) -> None:
        self.make = make
        self.options: type[OptionsT] = get_type_hints(make)["options"]
        functools.update_wrapper(self, make)
        fields = self.options.in_order().items()
        self.__signature__ = Signature(
            [
                Parameter(
                    name,
                    Parameter.POSITIONAL_OR_KEYWORD,
                    default=Parameter.empty if field.is_required() else field.default,
                )
                for name, field in fields
            ]
        )
        lines = [f"    {name}\n        {option_of(field).help}" for name, field in fields]
        self.__doc__ = f"{make.__doc__}\n\n    Parameters\n    ----------\n" + "\n".join(lines)

    def __call__(self, *args: Any, **options: Any) -> InstanceT:
        """Return the instance; None stands for the default of an option that cannot be None.

        Raises
        ------
        InstanceError
            If a file or an option is wrong; one fault a line.
        """
        given = self.__signature__.bind(*args, **options).arguments
        fields = self.options.model_fields
        # None may be a value, such as no link at all.
        values = {
            name: value
            for name, value in given.items()
            if value is not None or type(None) in get_args(fields[name].annotation)
        }
        return self.make(validated(self.options, values, "options"))


def multi_kind_importer(about: str, importers: Mapping[str, Importer[Any, Any]]) -> Importer[Any, Instance]:
    """Return an importer that unites those of several kinds of instance; option `kind` selects.

    Options that all of them require come first, then `kind`, then the others, which are None by default;
    which of them are required depends on the kind.

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
    names = dict.fromkeys(name for options in by_kind.values() for name in options)
    always = [
        name
        for name in names
        if all(name in options and options[name].is_required() for options in by_kind.values())
    ]
    first = next(iter(importers))
    kinds = Literal[tuple(importers)]  # type: ignore[valid-type]  # known only here
    chosen = Option(f"What to plan: {' or '.join(importers)}.")
    fields: dict[str, Any] = {name: (_annotated(by_kind[first][name]), ...) for name in always}
    fields["kind"] = (Annotated[kinds, chosen], first)
    fields |= {name: _of_some(name, by_kind) for name in names if name not in always}
    model = create_model("EitherOptions", __base__=ImportOptions, __doc__=about, **fields)

    def make(options: ImportOptions) -> Instance:
        given = {name: value for name, value in options if value is not None}
        kind = given.pop("kind")
        _check(kind, given, by_kind, model.model_fields)
        return cast("Instance", importers[kind](**given))

    make.__annotations__["options"] = model
    make.__doc__ = f"Return the {' or '.join(importers)} instance of these files."
    return Importer(make)


def _of_some(name: str, by_kind: Mapping[str, Mapping[str, FieldInfo]]) -> tuple[Any, None]:
    """Return type and default None of an option that only some kinds of instance have or require."""
    having = {kind: fields[name] for kind, fields in by_kind.items() if name in fields}
    field = next(iter(having.values()))
    option = option_of(field)
    only = "" if len(having) == len(by_kind) else f"With --kind {' or '.join(having)}: "
    default = "" if field.is_required() or "[default:" in option.help else _default(field.default)
    text = option.help[:1].lower() + option.help[1:] if only and option.help[1:2].islower() else option.help
    kind = _annotated(field, replace(option, help=f"{only}{text}{default}"))
    return kind if type(None) in get_args(field.annotation) else kind | None, None


def _default(value: Any) -> str:
    return "" if value in (None, (), {}) or isinstance(value, bool) else f" [default: {value}]"


def _annotated(field: FieldInfo, option: Option | None = None) -> Any:
    """Return the annotated type of an option field, with another `Option` if one is given."""
    marks = [option if option and isinstance(mark, Option) else mark for mark in field.metadata]
    return Annotated[(field.annotation, *marks)]


def _check(
    kind: str,
    given: Mapping[str, Any],
    by_kind: Mapping[str, Mapping[str, FieldInfo]],
    fields: Mapping[str, FieldInfo],
) -> None:
    """Refuse options of other kinds of instance, and missing options that this kind requires."""
    own = by_kind[kind]
    flags = {
        name: option_of(field).option.split("/")[0] or f"--{name.replace('_', '-')}"
        for name, field in fields.items()
    }
    for name in given:
        if name not in own:
            others = " or ".join(other for other, options in by_kind.items() if name in options)
            raise OptionError(f"{flags[name]} goes with --kind {others} only")
    needed = [name for name in own if own[name].is_required() and not fields[name].is_required()]
    for name in needed:
        if name not in given:
            words = ", ".join(flags[each] for each in needed)
            raise OptionError(f"{flags[name]} is missing; --kind {kind} needs {words}")


def at(data: Any, *path: str) -> Any:
    """Return what is at a path of nested mappings in unvalidated data; None if there is nothing."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


MAX_INVALID = 1_000
"""Number of invalid entries at the start of a file after which it is refused as a whole."""

ModelT = TypeVar("ModelT", bound=Model)
Entry = tuple[str, str, Any]
"""Path in the source, name, and data of an entry."""


@dataclass
class RejectedEntries:
    """The rejected entries of one list of a file.

    Parameters
    ----------
    entry
        The word for an entry, such as pod.
    data
        The data of the rejected entries.
    reasons
        Names of the first few, each with its fault.
    """

    entry: str
    data: list[Any] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def add(self, data: Any, name: str, fault: Fault) -> None:
        """Add a rejected entry, with name and fault if it is one of the first."""
        self.data.append(data)
        if not self.names_enough:
            wrong = f"{fault.path} {fault.what}".strip()
            self.reasons.append(shortened(one_line(f"{name} ({wrong})"), 200))

    @property
    def names_enough(self) -> bool:
        """Whether no further entries are named."""
        return len(self.reasons) > NAMED

    def sentences(self) -> Iterator[str]:
        """Yield a note on the number of rejected entries, with the first few names and faults."""
        if self.data:
            are = counted(len(self.data), f"{self.entry} is", f"{self.entry}s are")
            yield f"{are} invalid and left out: {some(self.reasons, NAMED)}."


def valid_entries(
    model: type[ModelT],
    entries: Iterable[Entry],
    source: str,
    left_out: RejectedEntries,
    key: Callable[[ModelT], Hashable] | None = None,
) -> Iterator[ModelT]:
    """Yield the valid entries of a list as a `model`; reject the others, and duplicates by `key`.

    Raises
    ------
    InstanceError
        If none of them, or none of the first thousand, is valid; one fault a line.
    """
    faults = Faults()
    taken = set[Hashable]()
    for path, name, data in entries:
        try:
            valid = model.model_validate(data)
        except ValidationError as error:
            # Formatting a fault takes longer than finding it; of a million only the first are named.
            if taken and left_out.names_enough:
                left_out.data.append(data)
                continue
            wrong = faults_of(error, model, source)
            left_out.add(data, name, wrong.faults[0])
            faults.add_all(wrong, path)
            if not taken and len(left_out.data) >= MAX_INVALID:
                break
        else:
            identity = len(taken) if key is None else key(valid)
            if identity in taken:
                left_out.add(data, name, Fault(source, "", "is listed twice"))
                continue
            taken.add(identity)
            yield valid
    if not taken:
        faults.refuse()
