"""Faults of documents: validation errors of pydantic as one plain line each, and misspelt resource names.

A resource of servers that no job demands is probably misspelt if jobs demand one of nearly the same name.
No other check detects this: under its wrong name it is a valid resource that is not used.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .errors import MAX_FAULTS, Fault, Faults, InstanceError, shortened, shown
from .fields import NOT_VALIDATED, Complaint, types_of

ModelT = TypeVar("ModelT", bound=BaseModel)
ServerT = TypeVar("ServerT")

LONGEST_KEY = 60
"""Characters of a key that messages show, and that are compared with the allowed keys."""
_WORDS = {
    "missing": "is missing; it must be given",
    "string_type": "is not text; write it in quotes",
    "tuple_type": "is not a list",
    "dict_type": "is not a mapping",
    "model_type": "is not a mapping of fields",
    "model_attributes_type": "is not a mapping of fields",
    "finite_number": "is not a finite number; NaN and infinity are not allowed",
    "float_type": "is not a number; write a plain number",
    "int_type": "is not a whole number",
    "int_parsing": "is not a whole number",
}
_LIMITS = {
    "greater_than": ("gt", "must be greater than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "must be at most"),
}


def suggestion_text(name: str, names: Iterable[str]) -> str:
    """Return the question `did you mean …?` with the most similar known name, or an empty text."""
    near = difflib.get_close_matches(name[:LONGEST_KEY], names, n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def _tag(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("model")
    literal = field.annotation if field else None
    return str(get_args(literal)[0]) if get_origin(literal) is Literal else None


def _walk(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[str, list[str]]:
    """Translate the location of a pydantic validation error into a path in the document.

    Returns
    -------
    path
        The location as a user would write it; tags that pydantic adds for unions are left out.
    allowed
        Names of the fields of the last mapping on the way.
    """
    path, here = "", [model]
    allowed = list(model.model_fields)
    for step in loc:
        if step == "[key]":
            break  # the fault is in the key before it, which the path names already
        if isinstance(step, str) and step.startswith("(") and step.endswith(")"):
            continue  # a member of a union, such as "(one number)"
        structs = [m for m in here if isinstance(m, type) and issubclass(m, BaseModel)]
        tagged = [m for m in structs if _tag(m) == step]
        if isinstance(step, str) and tagged and len(structs) > 1:
            here, allowed = tagged, list(tagged[0].model_fields)
            continue
        part = f"[{step}]" if isinstance(step, int) else shortened(str(step), LONGEST_KEY)
        path += part if isinstance(step, int) or not path else f".{part}"
        if structs:
            allowed = list(dict.fromkeys(name for m in structs for name in m.model_fields))
            fields = [m.model_fields[step] for m in structs if step in m.model_fields]
            here = [part for field in fields for part in types_of(field.annotation)]
        else:
            # tuple[X, ...] names its item type first, dict[K, V] its value type last.
            items = [args[0] if Ellipsis in args else args[-1] for m in here if (args := get_args(m))]
            here = [part for item in items for part in types_of(item)]
    return path, allowed


def _what(error: ErrorDetails, path: str, allowed: list[str]) -> str:
    """Return the message of a validation error: what is wrong with the value and what is allowed."""
    kind, context, value = error["type"], error.get("ctx", {}), error.get("input")
    if kind == "extra_forbidden":
        key = path.rsplit(".", 1)[-1]
        return f"unknown key; {suggestion_text(key, allowed)}allowed here: {', '.join(allowed)}"
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        return f"is {shown(value)}, but {words} {context[name]:g}"
    if kind in ("literal_error", "union_tag_invalid"):
        choices = context.get("expected") or context.get("expected_tags")
        given = value.get("model") if isinstance(value, dict) else value
        return f"is {shown(given)}; allowed: {choices}"
    if kind == "union_tag_not_found":
        return "has no 'model'; allowed: ps_sync, ps_async, ring_allreduce, table"
    if kind in ("too_short", "too_long") and isinstance(value, str):
        kind = f"string_{kind}"
    if kind in ("too_short", "too_long"):
        least, most, length = (context.get(key) for key in ("min_length", "max_length", "actual_length"))
        bound = f"at least {least}" if least is not None else f"at most {most:,}"
        return f"has {'too many' if length is None else f'{length:,}'} entries; {bound} needed"
    if kind == "string_too_long":
        return f"has {len(value):,} characters; at most {context['max_length']:,} are allowed"
    if kind == "string_too_short":
        return "is empty text; it needs at least one character"
    if kind == "string_pattern_mismatch":
        return f"is {shown(value)}, but must match the pattern {context['pattern']}"
    if kind in _WORDS:
        return _WORDS[kind] if kind == "missing" else f"is {shown(value)}, which {_WORDS[kind]}"
    message = str(context["error"]) if kind == "value_error" else error["msg"]
    return message if message.startswith(("is ", "holds ")) else message[:1].lower() + message[1:]


def faults_of(error: ValidationError, model: type[BaseModel], source: str) -> InstanceError:
    """Return the faults of a validation error, found by pydantic or by the document's own rules."""
    details = error.errors(include_url=False)
    parents = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    faults: list[Fault] = []
    more = 0
    stopped = False
    for detail in details:
        if detail["input"] is NOT_VALIDATED:
            stopped = True
            continue
        if detail["type"] == "too_short" and detail["loc"] in parents:
            continue  # entries are missing only because they are faulty themselves
        if len(faults) >= MAX_FAULTS:
            more += 1
            continue
        path, allowed = _walk(model, detail["loc"])
        context = detail.get("ctx", {})
        if "complaints" in context:
            faults += [
                Fault(source, f"{path}.{where}" if path else where, what)
                for where, what in context["complaints"]
            ]
            more += context["more"]
        else:
            faults.append(Fault(source, path, _what(detail, path, allowed)))
    return InstanceError(faults, more, stopped)


def validated(model: type[ModelT], data: Any, source: str) -> ModelT:
    """Return the data as a validated instance of `model`.

    Raises
    ------
    InstanceError
        If anything is wrong with it; one fault each.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise faults_of(error, model, source) from None
    except RecursionError:
        raise InstanceError([Fault(source, "", "is nested too deeply")]) from None


def validated_rows(
    model: type[ModelT], rows: Iterable[tuple[int, Mapping[str, Any]]], source: str, path: str = ""
) -> Iterator[tuple[int, ModelT]]:
    """Yield each row of a table as a validated `model`, with its number; unknown columns are ignored.

    Parameters
    ----------
    rows
        Number and cells of each row.
    path
        The name of a row in error messages, where ``{}`` stands for its number; by default its line.

    Raises
    ------
    InstanceError
        At the end, or after a hundred faults, if a row is wrong.
    """
    faults, fields = Faults(), model.model_fields
    for number, cells in rows:
        used = {name: cells[name] for name in fields if name in cells}
        try:
            row = validated(model, used, source if path else f"{source}: line {number}")
        except InstanceError as error:
            faults.add_all(error, path.format(number))
            if faults.stop():
                break
        else:
            yield number, row
    faults.refuse()


CLOSE = 0.8
"""Least similarity of two words, as a ratio of difflib."""
MAX_PAIRS = 10_000
"""Pairs of names that are compared, which takes a tenth of a second."""


def similar_names(one: str, other: str) -> bool:
    """Return whether one of two names may be a misspelling of the other.

    Case, and characters between words, do not matter. About one letter of one word may differ, but not its
    first one (`cpu` is no `gpu`), and not in names with digits (a `gpu_a100` is no `gpu_h100`).
    """
    words, others = (re.findall(r"[^\W_]+", name.casefold()) for name in (one, other))
    if "".join(words) == "".join(others):
        return True
    wrong = [pair for pair in zip(words, others, strict=False) if pair[0] != pair[1]]
    if len(words) != len(others) or len(wrong) != 1 or re.search(r"\d", one + other):
        return False
    ((word, meant),) = wrong
    return word[0] == meant[0] and difflib.SequenceMatcher(None, word, meant).ratio() >= CLOSE


def misspelt_names(names: Collection[str], asked: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (unused resource, similarly named demanded resource) pairs; none for many names."""
    idle = [name for name in names if name not in asked]
    if len(idle) * len(asked) <= MAX_PAIRS:
        yield from (
            (name, meant) for name, meant in itertools.product(idle, asked) if similar_names(name, meant)
        )


def misspelt_resources(
    servers: Sequence[ServerT],
    names: Collection[str],
    asked: Collection[str],
    fields: Callable[[ServerT], Mapping[str, str]],
) -> Iterator[Complaint]:
    """Yield a complaint if a server has a resource without demand instead of a similarly named one.

    Parameters
    ----------
    names, asked
        What servers have, and what jobs demand.
    fields
        Returns what one server has, each with the field of the server that says so.
    """
    for name, meant in misspelt_names(names, asked):
        for index, own in enumerate(map(fields, servers)):
            if name in own and meant not in own:
                what = f"no job asks for {name!r}; jobs ask for {meant!r}, of which this server has none"
                end = f"did you mean {meant!r}? If not, leave {name!r} out"
                yield f"servers[{index}].{own[name]}.{name}", f"{what}; {end}"
                break
