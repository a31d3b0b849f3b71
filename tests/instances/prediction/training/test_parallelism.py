"""Among how many GPUs a training is divided."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.training.parallelism import Parallelism


def test_words_and_product() -> None:
    way = Parallelism(2, 4, 8, zero_stage=1, recompute=True)
    assert way.gpus == 64
    assert str(way) == "tensor 2 × pipeline 4 × data 8, ZeRO 1, recomputed"
    assert str(Parallelism()) == "alone"


@pytest.mark.parametrize("wrong", [{"tensor": 0}, {"data": 10**7}, {"pipeline": -1}, {"zero_stage": 4}])
def test_what_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="must be"):
        Parallelism(**wrong)
