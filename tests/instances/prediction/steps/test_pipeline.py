"""Pipelines: the bubble, against a schedule that is played through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.steps.pipeline import bubble_share, pipeline_s


@given(st.lists(st.just(0.0) | st.floats(1e-9, 100), min_size=1, max_size=6), st.integers(1, 8))
def test_microbatches_that_pass_one_after_the_other(stages: list[float], microbatches: int) -> None:
    done = [0.0] * len(stages)
    for _ in range(microbatches):
        before = 0.0
        for index, seconds in enumerate(stages):
            done[index] = before = max(before, done[index]) + seconds
    assert pipeline_s(stages, microbatches) == pytest.approx(done[-1])


def test_the_bubble_of_equal_stages() -> None:
    assert bubble_share(1, 5) == 0.0
    assert bubble_share(4, 8) == pytest.approx(3 / 11)


@pytest.mark.parametrize(("stages", "microbatches"), [([], 1), ([1.0], 0), ([-1.0], 1)])
def test_pipelines_that_cannot_be(stages: list[float], microbatches: int) -> None:
    with pytest.raises(OptionError, match="1 or more of each"):
        pipeline_s(stages, microbatches)
