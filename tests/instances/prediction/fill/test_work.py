"""How much is trained, and by when."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.fill.work import Work


def test_a_deadline_is_a_floor() -> None:
    assert Work(7200, 2, within_h=2).floor_samples_per_s == pytest.approx(2.0)
    assert Work().floor_samples_per_s is None


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"within_h": -1}, {"parallel_share": 1.1}])
def test_what_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="must be"):
        Work(**wrong)
