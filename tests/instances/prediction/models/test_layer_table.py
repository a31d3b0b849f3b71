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


LINEAR = {"layer": "a", "kind": "linear", "shape": [1, 2, 3]}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"paramters": 6}, "'paramters' means nothing here; the fields are layer, kind"),
        ({"layer": ["a"]}, "layer is a list; it must be a name"),
        ({"shape": [-1, 2, 3]}, "shape is '-1'; it must be made of whole numbers"),
        ({"shape": [float("nan"), 2, 3]}, "shape is 'nan'"),
        ({"shape": [True, 2, 3]}, "shape is 'True'"),
        ({"shape": [10**16, 2, 3]}, "of at most 15 digits"),
        ({"count": "many"}, "count is 'many'"),
        ({"saved": -1}, "saved is '-1'"),
    ],
)
def test_a_wrong_row_is_one_line(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(InstanceError) as error:
        model_of_rows([("row", {**LINEAR, **wrong})], "mine", "here")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_layer_does_not_begin_twice() -> None:
    rows = [(str(index), {**LINEAR, "layer": name}) for index, name in enumerate("aaba")]
    with pytest.raises(InstanceError, match="3: layer 'a' began above; its rows must follow one another"):
        model_of_rows(rows, "mine", "here")


def test_null_counts_as_left_out() -> None:
    row = {**LINEAR, "count": None, "parameters": None, "saved": ""}
    assert model_of_rows([("", row)], "mine", "here") == model_of_rows([("", LINEAR)], "mine", "here")


def test_a_table_without_parameters_says_so() -> None:
    assert "no parameters" in model_of_rows([("", LINEAR)], "mine", "here").assumptions[0]
    assert not model_of_rows([("", {**LINEAR, "parameters": 6})], "mine", "here").assumptions
