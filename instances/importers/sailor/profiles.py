"""The files of Sailor: times by GPU type, microbatch and tensor-parallel degree, and sizes of layers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...common.errors import refuse_faults
from ...common.faults import validated
from ...common.fields import ManyNamed, Model, Name, NonNegative, Part
from ...common.printable import shortened
from ...files.reading import fail, read_mapping
from .units import DEGREE, Unit

BATCH = re.compile(r"[1-9][0-9]{0,8}")
Times = tuple[float, float, float]
"""Seconds of forward, backward and update."""


class _Times(Model):
    """Seconds of forward, backward and update, by layer."""

    layers: ManyNamed[Name, tuple[NonNegative, NonNegative, NonNegative]]


class Bytes(Part):
    """Sizes of one layer for one sample, in each of the GPUs that share it."""

    params_bytes: NonNegative
    act_input_bytes: NonNegative
    act_output_bytes: NonNegative
    act_mem_bytes: NonNegative


class _Sizes(Model):
    layers: ManyNamed[Name, Bytes]


class Profiles:
    """The profiles of one model: a folder for each GPU type; a file is read when it is first asked for."""

    def __init__(self, model_dir: Path) -> None:
        self.model_dir = model_dir
        source = str(model_dir)
        try:
            self.gpus = sorted(path.parent.name for path in model_dir.glob("*/profile.json"))
        except (OSError, ValueError) as error:
            raise fail(source, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if not self.gpus:
            what = "has no GPU/profile.json; give the folder of one model, such as profiles/OPT-350"
            raise fail(source, what)
        self._read: dict[str, dict[str, Any]] = {}

    def path(self, gpu: str) -> Path:
        """Return the file of a GPU type."""
        return self.model_dir / gpu / "profile.json"

    def of(self, gpu: str) -> dict[str, Any]:
        """Return what the file of a GPU type holds."""
        if gpu not in self._read:
            data, path = read_mapping(self.path(gpu)), str(self.path(gpu))
            if any(isinstance(entry, dict) and "nodes" in entry for entry in data.values()):
                raise fail(path, "is in Piper's layout (nodes), which is not read; take Sailor's profiles")
            self._read[gpu] = data
        return self._read[gpu]

    def degrees(self, gpu: str) -> list[int]:
        """Return the tensor-parallel degrees at which a GPU type was measured."""
        found = [degree for one in self.of(gpu).values() if isinstance(one, dict) for degree in one]
        return sorted({int(degree) for degree in found if DEGREE.fullmatch(degree)})

    def microbatches(self, unit: Unit) -> list[int]:
        """Return the microbatches that were measured on a unit."""
        return sorted(
            int(batch)
            for batch, degrees in self.of(unit.gpu).items()
            # What is no mapping is a fault, which is found when its times are read.
            if BATCH.fullmatch(batch) and (not isinstance(degrees, dict) or str(unit.degree) in degrees)
        )

    def layers(self, unit: Unit, microbatch: int) -> int | None:
        """Return how many layers were measured; None where the file has no list of them."""
        degrees = self.of(unit.gpu)[str(microbatch)]
        layers = degrees.get(str(unit.degree)) if isinstance(degrees, dict) else None
        return len(layers) if isinstance(layers, dict) else None

    def times(self, unit: Unit, microbatch: int, layers: Iterable[str]) -> dict[str, Times]:
        """Return the seconds of each layer on a unit."""
        source, where = str(self.path(unit.gpu)), f"{microbatch}.{unit.degree}"
        found = _layers(self.of(unit.gpu), source, str(microbatch), "microbatch", unit.degree)
        times = validated(_Times, {"layers": found}, f"{source}: {where}").layers
        expected = list(layers)
        if set(times) != set(expected):
            what = f"its layers are not 0 to {len(expected) - 1}, as the sizes of the layers have them"
            more = f"; it has {len(times)} and is of another model: leave {unit.gpu} out"
            raise fail(source, what + (more if len(times) != len(expected) else ""), where)
        untimed = [key for key, (forward, backward, _) in times.items() if forward + backward <= 0]
        zero = "forward and backward take 0 s; a measured time is above 0"
        refuse_faults(source, ((f"{where}.{key}", zero) for key in untimed))
        return times


def find_info(model_dir: Path) -> Path | None:
    """Return the file of sizes, in a folder above that of the model; None where there is none."""
    found = (folder / "llm_info.json" for folder in model_dir.absolute().parents)
    return next((path for path in found if path.is_file()), None)


class Info:
    """The sizes of the layers of one model, for each tensor-parallel degree."""

    def __init__(self, path: Path, model: str) -> None:
        self.path, self.model = path, model
        self._data = read_mapping(path)

    def has(self, degree: int) -> bool:
        """Return whether there are sizes for a degree; a model without a list of them is a fault."""
        model = self._data.get(self.model)
        return not isinstance(model, dict) or str(degree) in model

    def layers(self, degree: int) -> int | None:
        """Return how many layers have sizes for a degree; None where there is no list of them."""
        model = self._data.get(self.model)
        layers = model.get(str(degree)) if isinstance(model, dict) else None
        return len(layers) if isinstance(layers, dict) else None

    def sizes(self, degree: int) -> dict[str, Bytes]:
        """Return the sizes of the layers on each of so many GPUs, in their order."""
        source, where = str(self.path), f"{self.model}.{degree}"
        layers = _layers(self._data, source, self.model, "model", degree)
        order = [str(index) for index in range(len(layers))]
        if not layers or set(layers) != set(order):
            raise fail(source, "its layers are not numbered 0, 1, 2, … without a gap", where)
        sizes = validated(_Sizes, {"layers": layers}, f"{source}: {where}").layers
        return {key: sizes[key] for key in order}


def _layers(data: Mapping[str, Any], source: str, key: str, what: str, degree: int) -> dict[str, Any]:
    """Return the layers that stand in a file under a model or microbatch and a degree."""
    degrees = _entry(data, key, source, "", what)
    return _entry(degrees, str(degree), source, key, "tensor-parallel degree")


def _entry(data: Any, key: str, source: str, path: str, what: str) -> dict[str, Any]:
    """Return the mapping under a key, or say which keys there are."""
    if not isinstance(data, dict) or key not in data:
        there = ", ".join(map(shortened, list(data)[:20])) if isinstance(data, dict) else ""
        raise fail(source, f"has no {what} {key!r}; there are: {there or 'none'}", path)
    found = data[key]
    if not isinstance(found, dict):
        raise fail(source, "is not a mapping", f"{path}.{key}" if path else key)
    return found
