"""Fields of a ``config.json``: the first name that is there, and faults in the words of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ...common.errors import InstanceError
from ...common.faults import validated
from ...common.fields import Model

ModelT = TypeVar("ModelT", bound=Model)
Names = Mapping[str, tuple[str, ...]]
"""Field → what files call it."""
SAYS_HEAD = ("LMHead", "ForCausalLM", "ForMaskedLM", "ForPreTraining", "ForConditionalGeneration", "MTModel")
"""Parts of the names of architectures that give a probability of every word."""


def picked(data: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Return the fields that a file has; null counts as absent."""
    found = {}
    for field, called in names.items():
        given = next((data[name] for name in called if data.get(name) is not None), None)
        if given is not None:
            found[field] = given
    return found


def checked(model: type[ModelT], fields: Mapping[str, Any], names: Names, source: str) -> ModelT:
    """Return a model of the fields.

    Raises
    ------
    InstanceError
        If one is missing or impossible; faults call it what files call it.
    """
    try:
        return validated(model, dict(fields), source)
    except InstanceError as error:
        faults = [
            replace(fault, path=" or ".join(names.get(fault.path, (fault.path,)))) for fault in error.faults
        ]
        raise InstanceError(faults) from None
