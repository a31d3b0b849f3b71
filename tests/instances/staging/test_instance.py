"""Documents of staging: memory of a layer, one number or one per type."""

from __future__ import annotations

from typing import Any

import pytest
from staging_graphs import diamond
from staging_instances import two_layers

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.documents import parse_instance, to_text
from clusterplan.instances.files.reading import parse_document
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.instances.staging.instance import Layer

SECONDS = {"compute_s": {"slow": 4, "fast": 1}, "compute_parallel": 0.5}


def layers(memory: Any) -> list[dict[str, Any]]:
    """Return one layer with this memory."""
    return [{"name": "a", "memory_gib": memory, **SECONDS}]


def test_memory_is_one_number_or_one_per_type() -> None:
    """What a type holds, and the most of any."""
    one, each = (Layer(name="a", memory_gib=memory, **SECONDS) for memory in (2, {"slow": 3, "fast": 1}))
    assert (one.memory_on("slow"), one.most_memory_gib) == (2, 2)
    assert [each.memory_on(name) for name in ("slow", "fast")] == [3, 1]
    assert each.most_memory_gib == 3


def test_memory_by_type_survives_the_document() -> None:
    """And stands in the table of layers."""
    instance = two_layers(layers=layers({"slow": 3, "fast": 1}))
    assert parse_instance(parse_document(to_text(instance), "x", ".yaml")) == instance
    (row,) = instance.to_frame().to_dict("records")
    assert (row["memory_gib"], row["memory_gib_slow"], row["memory_gib_fast"]) == (3, 3, 1)
    assert "memory_gib_slow" not in two_layers(layers=layers(2)).to_frame()


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        ({"slow": 3}, "layers[0].memory_gib: has no figure for 'fast'; give one number or one per type"),
        ({"slow": 3, "fast": 1, "x": 1}, "layers[0].memory_gib.x: unknown type 'x'"),
        ({"slow": -3, "fast": 1}, "layers[0].memory_gib.slow: is -3, but must be at least 0"),
        (-1, "layers[0].memory_gib: is -1, but must be at least 0"),
    ],
)
def test_faults_of_memory(memory: Any, words: str) -> None:
    """Each type of the layer has a figure."""
    with pytest.raises(InstanceError) as caught:
        two_layers(layers=layers(memory))
    assert words in str(caught.value)


def test_a_graph_has_one_number() -> None:
    """Its methods know no other."""
    document = diamond().model_dump(mode="json", exclude_none=True)
    document["layers"][0]["memory_gib"] = {"gpu": 1}
    with pytest.raises(InstanceError, match="memory_gib: is by type; in a graph it is one number"):
        parse_instance(document)


def test_a_training_whose_cost_no_double_holds_is_refused() -> None:
    document = generate_staging(2, 2, seed=1).document()
    assert parse_instance(document | {"probe_batch": 1e-100})
    with pytest.raises(InstanceError, match=r"takes inf probe batches, .* exceed 1e\+200"):
        parse_instance(document | {"probe_batch": 5e-324})
