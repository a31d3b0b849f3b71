"""Operators: their operations, bytes and backward passes, and shapes that cannot be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.operators import Operator, flops, linear

SIZE = st.integers(1, 5000)


def test_a_matrix_product_has_two_operations_for_each_pair() -> None:
    operator = linear(8, 3, 5)
    assert operator.flops == 2 * 8 * 3 * 5
    assert operator.bytes == 4 * (8 * 3 + 3 * 5 + 8 * 5)
    assert operator.parameters == 3 * 5 + 5


def test_half_precision_halves_the_bytes() -> None:
    one, other = (Operator("bmm", (4, 8, 16, 8), precision=name) for name in ("fp32", "bf16"))
    assert one.bytes == 2 * other.bytes
    assert one.flops == other.flops


@given(SIZE, SIZE, SIZE)
def test_gradients_of_a_product_cost_twice_the_product(rows: int, inputs: int, outputs: int) -> None:
    operator = linear(rows, inputs, outputs, bias=False)
    assert flops(operator.backward()) == 2 * operator.flops
    product = Operator("bmm", (3, rows, inputs, outputs))
    assert flops(product.backward()) == 2 * product.flops


def test_a_bias_has_a_gradient_too() -> None:
    assert [part.kind for part in linear(8, 3, 5).backward()] == ["linear", "linear", "sum"]


def test_a_convolution_is_as_resnets_first() -> None:
    stem = Operator("conv", (1, 3, 64, 7, 7, 224, 224, 2, 3, 3, 1))
    assert stem.output_size == (112, 112)
    assert stem.flops == 2 * 112 * 112 * 64 * 3 * 49


@pytest.mark.parametrize(
    ("kind", "shape", "says"),
    [
        ("lstm", (1, 2), "operator 'lstm': unknown; there are linear"),
        ("linear", (1, 2), "linear: has 2 sizes; it needs 3: rows, inputs, outputs"),
        ("linear", (1, 0, 2), "linear: inputs is 0; it must be from 1"),
        ("conv", (1, 3, 8, 9, 9, 4, 4, 1, 0, 0, 1), "the kernel is larger than the padded picture"),
        ("conv", (1, 3, 8, 3, 3, 9, 9, 1, 0, 0, 2), "must be multiples of groups"),
    ],
)
def test_what_cannot_be_is_one_line(kind: str, shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(OptionError) as error:
        Operator(kind, shape)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_precision_and_count_are_checked() -> None:
    with pytest.raises(OptionError, match="precision 'fp7': unknown"):
        Operator("add", (1, 2), precision="fp7")
    with pytest.raises(OptionError, match="count is 0"):
        Operator("add", (1, 2), count=0)
