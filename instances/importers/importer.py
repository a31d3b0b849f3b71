"""What an importer is: options that are declared once, and a function that makes an instance of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_type_hints

from pydantic.fields import FieldInfo

from ..common.base import Instance
from ..common.faults import validated
from ..common.fields import Model, marks_of


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
        """Return the fields by name, in the order of the arguments."""
        return {name: cls.model_fields[name] for name in dict.fromkeys((*cls.ORDER, *cls.model_fields))}


@dataclass(frozen=True)
class Option:
    """Says what a field is for, and how the command line has it where its name and type do not say it.

    Parameters
    ----------
    help
        One sentence.
    option, argument
        Its name, such as ``--price``, or the name of an argument that stands alone; by default an option
        with the name of the field.
    kind
        The type of what is typed.
    least
        The smallest number that is accepted.
    read
        Turns what was typed into the value of the field.
    """

    help: str
    option: str = ""
    argument: str = ""
    kind: Any = None
    least: float | None = None
    read: Callable[[Any], Any] | None = None


def option_of(field: FieldInfo) -> Option:
    """Return what a field says of its option."""
    return next(mark for mark in marks_of(field) if isinstance(mark, Option))


OptionsT = TypeVar("OptionsT", bound=ImportOptions)
InstanceT = TypeVar("InstanceT", bound=Instance)


class Importer(Generic[OptionsT, InstanceT]):
    """An importer as a function of its options; a decorator.

    Parameters
    ----------
    make
        Returns the instance for validated options.
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
        # None may be a value of its own, such as no link at all.
        values = {
            name: value
            for name, value in given.items()
            if value is not None or type(None) in get_args(fields[name].annotation)
        }
        return self.make(validated(self.options, values, "options"))
