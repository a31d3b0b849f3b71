"""The form of a certificate: what is written, read and refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from clusterplan.formulations.allocation.certificate import certificate, certificate_fault, read_prices


def test_a_cutoff_lies_just_below_the_bound() -> None:
    """So that the plan itself is not below it; None claims that there is no plan."""
    written = certificate(("cpu", "gpu"), np.array([1.5, 0.0]), 100.0)
    assert written["prices"] == {"cpu": 1.5, "gpu": 0.0}
    assert 100 * (1 - 1e-9) < written["cutoff"] < 100
    assert certificate(("cpu",), np.zeros(1), None)["cutoff"] is None


def test_prices_that_are_no_prices_are_written_as_such() -> None:
    """Negative ones and NaN as 0, infinite ones as the largest allowed."""
    written = certificate(("a", "b", "c"), np.array([-1.0, math.nan, math.inf]), 1.0)
    assert read_prices(written) == {"a": 0, "b": 0, "c": 1e100}


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"prices": {"cpu": 1.0}, "cutoff": 2.0}, None),
        ({"prices": {"gpu": 1.0}}, "prices.gpu: there is no such resource"),
        ({"prices": {"cpu": -1.0}}, "prices.cpu: "),
        ({"cutoff": 2.0}, "prices: "),
        ({"prices": {}, "cutoff": math.inf}, "cutoff: "),
        ([], ": "),
    ],
)
def test_a_fault_names_its_place(data: Any, fault: str | None) -> None:
    """And a right form has none."""
    found = certificate_fault(("cpu",), data)
    assert found is None if fault is None else found is not None and found.startswith(fault)
