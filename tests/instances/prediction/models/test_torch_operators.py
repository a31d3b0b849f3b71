"""Calls of PyTorch become operators by their shapes alone; PyTorch itself is not needed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import pytest

from clusterplan.instances.prediction.models.torch_operators import (
    ELEMENTWISE,
    FREE,
    POOLS,
    PRODUCTS,
    ROWS,
    Sizes,
    operator_of,
)
from clusterplan.instances.prediction.operators import SHAPES

PICTURE = Sizes((1, 6, 8, 8))
MATRIX = Sizes((5, 7))


@pytest.mark.parametrize(
    ("call", "args", "output", "expected"),
    [
        ("addmm", [Sizes((3,)), Sizes((5, 7)), Sizes((7, 3))], Sizes((5, 3)), ("linear", (5, 7, 3))),
        ("bmm", [Sizes((2, 5, 7)), Sizes((2, 7, 3))], Sizes((2, 5, 3)), ("bmm", (2, 5, 7, 3))),
        ("embedding", [Sizes((9, 4)), Sizes((1, 5))], Sizes((1, 5, 4)), ("embedding", (5, 4, 9))),
        ("add", [MATRIX, MATRIX], MATRIX, ("add", (5, 7))),
        ("add", [MATRIX, Sizes((7,))], MATRIX, ("scale", (5, 7))),
        ("mul", [MATRIX, 3.0], MATRIX, ("scale", (5, 7))),
        ("relu", [PICTURE], PICTURE, ("relu", (64, 6))),
        ("mean", [PICTURE, [-1, -2]], Sizes((1, 6)), ("pool", (1, 6, 8, 8, 8, 8, 0))),
        ("mean", [MATRIX, [-1]], Sizes((5, 1)), ("sum", (7, 5))),
        (
            "_embedding_bag",
            [Sizes((9, 4)), Sizes((5,)), Sizes((2,))],
            Sizes((2, 4)),
            ("embedding", (5, 4, 9)),
        ),
        ("max_pool2d_with_indices", [PICTURE, [2, 4]], Sizes((1, 6, 4, 2)), ("sum", (8, 48))),
        ("adaptive_max_pool2d", [PICTURE, [4, 4]], Sizes((1, 6, 4, 4)), ("pool", (1, 6, 8, 8, 2, 2, 0))),
        ("_adaptive_avg_pool2d", [PICTURE, [3, 3]], Sizes((1, 6, 3, 3)), ("sum", (7, 54))),
        ("var_mean", [MATRIX, [-1]], Sizes((5, 1)), ("sum", (7, 5))),
        ("avg_pool2d", [PICTURE, [2, 2]], Sizes((1, 6, 4, 4)), ("pool", (1, 6, 8, 8, 2, 2, 0))),
    ],
)
def test_calls_become_operators(
    call: str, args: Sequence[object], output: Sizes, expected: tuple[str, tuple[int, ...]]
) -> None:
    found = operator_of(call, args, output, parameters=4)
    assert found is not None
    assert (found.kind, found.shape, found.parameters) == (*expected, 4)


def _convolution(**given: object) -> list[object]:
    fields: dict[str, object] = {
        "input": PICTURE, "weight": Sizes((4, 6, 3, 3)), "bias": None, "stride": [1, 1], "padding": [1, 1],
        "dilation": [1, 1], "transposed": False, "output_padding": [0, 0], "groups": 1,
    }  # fmt: skip
    return list({**fields, **given}.values())


def test_convolutions_return_as_much_as_pytorchs() -> None:
    plain = operator_of("convolution", _convolution(), Sizes((1, 4, 8, 8)))
    assert plain is not None
    assert plain.outputs == 4 * 64
    spread = operator_of("convolution", _convolution(dilation=[2, 2], padding=[2, 2]), Sizes((1, 4, 8, 8)))
    assert spread == plain
    row = _convolution(input=Sizes((1, 6, 9)), weight=Sizes((4, 6, 3)), stride=[2], padding=[1], dilation=[1])
    found = operator_of("convolution", row, Sizes((1, 4, 5)))
    assert found is not None
    assert (found.outputs, found.flops) == (20, 2 * 20 * 18)


@pytest.mark.parametrize(
    ("more", "output"),
    [
        ({"dilation": [3, 3], "padding": [0, 0]}, Sizes((1, 4, 2, 2))),
        ({"weight": Sizes((4, 6, 4, 4)), "dilation": [2, 2], "padding": [3, 3]}, Sizes((1, 4, 8, 8))),
        ({"stride": [1, 2]}, Sizes((1, 4, 8, 4))),
    ],
)
def test_holes_and_uneven_strides_return_as_much(more: dict[str, object], output: Sizes) -> None:
    found = operator_of("convolution", _convolution(**more), output)
    assert found is not None
    kernel = _convolution(**more)[1]
    assert isinstance(kernel, Sizes)
    assert found.outputs == prod(output)
    assert found.flops == 2 * prod(output) * prod(kernel[1:])


def test_a_transposed_convolution_is_one_from_its_end() -> None:
    """From 8 × 8 to 16 × 16 pixels: as many products, and what it returns waits for the backward pass."""
    args = _convolution(weight=Sizes((6, 4, 4, 4)), stride=[2, 2], transposed=True)
    found = operator_of("convolution", args, Sizes((1, 4, 16, 16)), parameters=7)
    assert found is not None
    assert (found["channels"], found["filters"], found.output_size) == (4, 6, (8, 8))
    assert found.flops == 2 * prod(PICTURE) * 4 * 16
    assert (found.activations, found.parameters) == (4 * 256, 7)


@pytest.mark.parametrize(
    ("call", "args"),
    [
        ("convolution", _convolution(transposed=True, stride=[1, 2])),
        ("convolution", _convolution(input=Sizes((1, 6, 8, 8, 8)))),
        ("fft_r2c", [MATRIX]),
    ],
)
def test_what_is_not_known_gives_nothing(call: str, args: Sequence[object]) -> None:
    assert operator_of(call, args, PICTURE) is None


def test_calls_stand_in_one_table_and_are_kinds_of_operators() -> None:
    tables = (ELEMENTWISE, ROWS, PRODUCTS, POOLS, FREE)
    assert sum(map(len, tables)) == len({call for table in tables for call in table})
    assert {*ELEMENTWISE.values(), *ROWS.values()} <= set(SHAPES)
