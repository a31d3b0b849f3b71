"""The surface: commands with their options, public names with their signatures, JSON Schemas.

Types are told without their modules, so that a class may move; what plug-ins import keeps its path.
"""

from __future__ import annotations

import builtins
import enum
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from importlib import import_module
from typing import Annotated, Any, ForwardRef, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel

import clusterplan
from clusterplan.formulations.common.formulation import Formulation
from clusterplan.formulations.registry import KINDS
from clusterplan.planner import exit_codes
from clusterplan.planner.cli.instances import generate
from clusterplan.planner.cli.main import app
from clusterplan.solvers.registry import builtin_solvers

from .store import Case, Outcome

PLUG_IN = {
    "clusterplan.solvers.base": ("Clock", "Feature", "MethodOption", "Outcome", "Solver"),
    "clusterplan.solvers.run": ("solve_with",),
    "clusterplan.solvers.scheduling.own_policy": ("policy_solver",),
    "clusterplan.solvers.scheduling.policies.contract": ("Policy", "KeyPolicy", "RemainingTimePolicy"),
    "clusterplan.solvers.scheduling.policy": ("ByKey", "Policy", "RoundPolicy"),
    "clusterplan.solvers.scheduling.view": ("Knowledge", "View", "ForbiddenKnowledgeError"),
    "clusterplan.solvers.common.base": ("Clock", "MethodOption", "Outcome", "Solver"),
    "clusterplan.formulations.common.clock": ("check_time",),
    "clusterplan.formulations.common.formulation": ("Formulation",),
    "clusterplan.formulations.common.objective": ("Objective", "Violation"),
}
"""Module → names that the documentation shows to those who write solvers of their own."""
MARKS = ("help", "metavar", "min", "max", "count", "hidden", "show_default")
"""What the annotation of a parameter of a command says beside its type; found in every version of Typer."""
SPECIAL = ("__call__", "__contains__", "__enter__", "__getitem__", "__iter__", "__len__", "_repr_html_")
MODULES = re.compile(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")


def cases() -> list[Case]:
    """Return the cases."""
    found: dict[str, Callable[[], Outcome]] = {"solvers": _solvers, "exit codes": _exit_codes}
    for words, command in _commands(typer.main.get_command(app), ("command",)):
        found[" ".join(words)] = partial(_command, command)
    for name in clusterplan.__all__:
        found[f"name clusterplan.{name}"] = partial(_name, "clusterplan", name)
    for module, names in PLUG_IN.items():
        found |= {f"plug-in {module}.{name}": partial(_name, module, name) for name in names}
    for kind, parts in KINDS.items():
        found[f"plug-in formulation of {kind}"] = partial(_formulation, parts.formulation)
    found |= {f"schema {name}": partial(generate.schema_of, name) for name in generate.document_names()}
    return [Case(name, outcome, quick=True) for name, outcome in found.items()]


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a command and all below it, each with its words."""
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands(below, (*words, name))


def _command(command: Any) -> Outcome:
    """Return the words of a command, and its arguments and options."""
    callback = command.callback
    typed = inspect.signature(callback, eval_str=True).parameters if callback else {}
    parameters = {
        each.opts[0]: _parameter(each, typed[each.name]) for each in command.params if each.name in typed
    }  # without those that Typer adds
    return {
        "help": [line for text in (command.help, command.epilog) for line in (text or "").split("\n")],
        "arguments": {name: each for name, each in parameters.items() if not name.startswith("-")},
        "options": {name: each for name, each in parameters.items() if name.startswith("-")},
        "order": list(parameters),
        "commands": list(getattr(command, "commands", ())),
    }


def _parameter(parameter: Any, typed: inspect.Parameter) -> Outcome:
    """Return what a parameter of a command takes; types and limits are those that Typer is told."""
    (mark,) = (each for each in get_args(typed.annotation) if hasattr(each, "param_decls"))
    default = None if typed.default is inspect.Parameter.empty else typed.default
    found = {name: getattr(mark, name, None) for name in MARKS}
    found |= {name: getattr(parameter, name, None) for name in ("required", "multiple", "nargs", "is_flag")}
    found |= {"type": _type(typed.annotation), "default": default}
    found["names"] = [*parameter.opts, *parameter.secondary_opts]
    return {name: value for name, value in found.items() if value is not None and value is not False}


def _name(module: str, name: str) -> Outcome:
    """Return what a name stands for."""
    thing = getattr(import_module(module), name)
    if isinstance(thing, type):
        return _class(thing)
    if callable(thing) and not get_origin(thing):
        return {"sort": "function", "signature": _signature(thing)}
    return {"sort": "type", "is": _type(thing)}


def _formulation(thing: type) -> Outcome:
    """Return what every formulation has, and what the guides use beside that."""
    shared = {"plan_of", "configurations", *dir(Formulation)}
    return {name: words for name, words in _class(thing)["members"].items() if name in shared}


def _class(thing: type) -> Outcome:
    """Return the base classes that users know, the fields, and the public methods and properties."""
    if issubclass(thing, enum.Enum):
        return {"sort": "enumeration", "members": {each.name: each.value for each in thing}}
    own = [base for base in reversed(thing.__mro__) if base.__module__.startswith("clusterplan.")]
    known = {*clusterplan.__all__, *(name for name in vars(builtins) if name != "object")}
    members = _members(own)
    found = {
        "sort": "class",
        "bases": [base.__name__ for base in thing.__mro__[1:] if base.__name__ in known],
        "members": members,
        "attributes": {
            name: _value(getattr(thing, name, "no default"))
            for base in own
            for name in [*inspect.get_annotations(base), *vars(base)]
            if not name.startswith("_") and name not in members
        },
    }
    if issubclass(thing, BaseModel):
        fields = thing.model_fields.items()
        found["attributes"] = {
            name: _type(field.annotation)
            + ("" if field.is_required() else f" = {_value(field.get_default(call_default_factory=True))}")
            for name, field in fields
        }
    elif any("__init__" in vars(base) for base in own):
        found["signature"] = _signature(thing)
    return found


def _members(own: list[type]) -> dict[str, str]:
    """Return the public methods and properties of classes, with their signatures."""
    found: dict[str, str] = {}
    for name, member in (pair for base in own for pair in vars(base).items()):
        if (name.startswith("_") and name not in SPECIAL) or name == "model_post_init":
            continue
        if isinstance(member, property | cached_property):
            function = member.fget if isinstance(member, property) else member.func
            found[name] = f"property {_signature(function)}"
        elif isinstance(member, classmethod | staticmethod):
            found[name] = f"{type(member).__name__} {_signature(member.__func__)}"
        elif inspect.isfunction(member):
            found[name] = _signature(member)
    return found


class _Text(str):
    """Stands for an annotation or a default, and is printed as it is."""

    __slots__ = ()
    __repr__ = str.__str__


class _Name(type):
    """The type of classes of which only the name is known."""

    def __getattr__(cls, name: str) -> Any:
        return _Name(name, (), {})

    def __getitem__(cls, items: Any) -> Any:
        return types.GenericAlias(cls, items)


class _Unknown(dict[str, Any]):
    """Names that a module imports for type checkers alone."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        super().__init__()
        self.known = {**vars(builtins), **known}

    def __missing__(self, name: str) -> Any:
        return self.known[name] if name in self.known else _Name(name, (), {})


def _signature(thing: Any) -> str:
    """Return a signature without modules."""
    made = inspect.unwrap(thing.__init__ if hasattr(thing, "__mro__") else thing)
    unknown = _Unknown(getattr(made, "__globals__", {}))
    signature, empty = inspect.signature(thing, eval_str=True, locals=unknown), inspect.Signature.empty
    parameters = [
        each.replace(
            annotation=empty if each.annotation is empty else _Text(_type(each.annotation)),
            default=empty if each.default is empty else _Text(_value(each.default)),
        )
        for each in signature.parameters.values()
    ]
    returned = signature.return_annotation
    returned = empty if returned is empty else _Text(_type(returned))
    return str(signature.replace(parameters=parameters, return_annotation=returned))


def _type(kind: Any) -> str:
    """Return a type in the words of an annotation, without modules and without marks."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is None or kind is type(None):
        return "None"
    if isinstance(kind, list):
        return f"[{', '.join(map(_type, kind))}]"
    if origin is Annotated:
        return _type(parts[0])
    if origin in (Union, types.UnionType):
        return " | ".join(map(_type, parts))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, parts))}]"
    if _type(origin) == "ndarray":
        return f"NDArray[{_type(parts[-1])}]"
    if origin is not None:
        return f"{_type(origin)}[{', '.join(map(_type, parts))}]"
    if isinstance(kind, ForwardRef):
        return kind.__forward_arg__
    return str(getattr(kind, "__name__", None) or ("..." if kind is ... else MODULES.sub("", str(kind))))


def _value(value: Any) -> str:
    """Return a default as text that is the same in every process."""
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(repr, value)))}}}"
    text = repr(value)
    return f"a {type(value).__name__}" if " at 0x" in text else MODULES.sub("", text)


def _solvers() -> Outcome:
    """Return every solver of this package, whether or not it can be used here."""
    return {
        f"{solver.name} for {' '.join(solver.kinds)}": {
            "proves": solver.proves,
            "features": sorted(solver.features),
            "help": solver.what,
            "options": {
                key: {"default": option.default, "allowed": option.allowed, "help": option.what}
                for key, option in solver.method_options.items()
            },
        }
        for solver in builtin_solvers()
    }


def _exit_codes() -> Outcome:
    """Return the exit codes by what they mean, and in the order from harmless to grave."""
    codes = {name.lower(): code for name, code in vars(exit_codes).items() if type(code) is int}
    return {"codes": codes, "order": list(exit_codes.SEVERITY)}
