"""What a kind brings to the floor of instances, where it says nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.kind import InstanceKind
from clusterplan.instances.files.references import Folder


class Toy(Instance):
    """An instance without anything."""

    kind: Literal["toy"] = "toy"


def test_a_kind_without_tables_leaves_its_document_as_it_is() -> None:
    """What is read goes to the validation, and nothing is saved in tables."""
    kind = InstanceKind(model=Toy, lists=(), tiny=lambda: Toy(name="t"))
    data = {"kind": "toy", "name": "t"}
    assert kind.resolved(data, "doc", Folder(Path())) is data
    assert kind.tables is None
    assert kind.tiny() == Toy(name="t")
