"""Runs of distributed training."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.steps.runs import Runs

ROW = {
    **{"batch": 64, "microbatch": 2, "hidden": 1024, "heads": 16, "layers": 24, "sequence": 1024},
    **{"tensor": 2, "data": 4, "pipeline": 2},
}


def test_microbatches_and_choice() -> None:
    runs = Runs.of([ROW, ROW | {"data": 8}])
    assert runs.microbatches.tolist() == [8, 4]
    assert runs.only(runs.data == 8).data.tolist() == [8]
    assert runs.features().shape == (2, 8)


@pytest.mark.parametrize(
    ("change", "what"), [({"tensor": 0}, "tensor must be 1"), ({"batch": 60}, "multiple")]
)
def test_runs_that_cannot_be(change: dict[str, int], what: str) -> None:
    with pytest.raises(OptionError, match=what):
        Runs.of([ROW | change])
