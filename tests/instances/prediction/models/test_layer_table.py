"""Tables of layers: shapes with x or ×, several operators in a layer, and every fault with its place."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.prediction.models.description import Setting
from clusterplan.instances.prediction.models.layer_table import model_of_rows


def test_rows_of_one_name_are_one_layer() -> None:
    rows = [
        ("1", {"layer": "a", "kind": "linear", "shape": "1×2×3", "count": "2"}),
        ("2", {"layer": "a", "kind": "relu", "shape": [1, 3], "saved": 0}),
    ]
    (layer,) = model_of_rows(rows, "mine", "here").layers(Setting())
    assert [op.count for op in layer.operators] == [2, 1]
    assert layer.activations == 6


def test_every_fault_is_told() -> None:
    rows = [("layers[0]", "text"), ("layers[1]", {"kind": "relu"}), ("layers[2]", {"layer": "a"})]
    with pytest.raises(InstanceError) as error:
        model_of_rows(rows, "mine", "here")
    assert str(error.value).splitlines() == [
        "here: layers[0]: is no mapping; the fields are layer, kind, shape, count, parameters, saved",
        "here: layers[1]: has no layer and no shape",
        "here: layers[2]: has no kind and no shape",
    ]
    with pytest.raises(InstanceError, match="has 0 layers"):
        model_of_rows([], "mine", "here")
