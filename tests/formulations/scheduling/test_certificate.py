"""Certificates of scheduling: there and back, and what nobody vouches for."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from clusterplan.formulations.scheduling.certificate import certificate_of, read_grid
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.price_grid import MOST_EDGES, PriceGrid
from clusterplan.instances.scheduling.generate import generate_scheduling

BAD: list[tuple[Any, str]] = [
    (None, "dictionary"),
    ([1, 2], "dictionary"),
    ("prices", "dictionary"),
    ({}, "edges_s: field required"),
    ({"edges_s": [], "prices": {}}, "edges_s"),
    ({"edges_s": [0, 1], "prices": {"gpu": [1, 0]}, "bound": 5.0}, "bound"),
    ({"edges_s": ["0"], "prices": {}}, "numbers"),
    ({"edges_s": [True], "prices": {}}, "numbers"),
    ({"edges_s": [0, float("nan")], "prices": {}}, "finite"),
    ({"edges_s": [0, float("inf")], "prices": {}}, "finite"),
    ({"edges_s": [10**400], "prices": {}}, "number"),
    ({"edges_s": [1, 0], "prices": {"gpu": [0, 0]}}, "rise"),
    ({"edges_s": [-1, 0], "prices": {}}, "greater"),
    ({"edges_s": [0, 1], "prices": {"gpu": [-1, 0]}}, "greater"),
    ({"edges_s": [0, 1], "prices": {"gpu": [float("nan"), 0]}}, "finite"),
    ({"edges_s": [0, 1], "prices": {"gpu": [1e300, 0]}}, "less"),
    ({"edges_s": [0, 1], "prices": {"gpu": [1]}}, "1 figures for 2 edges"),
    ({"edges_s": [0, 1], "prices": {"gpu": [1, 1]}}, "last edge"),
    ({"edges_s": [0, 1], "prices": {"gpu": 3}}, "prices"),
    ({"edges_s": [0, 1], "prices": {"gpu": [[1], [0]]}}, "numbers"),
    ({"edges_s": [0, 1], "prices": [1, 0]}, "numbers|dictionary"),
    ({"edges_s": [0, 1], "prices": {"tpu": [1, 0]}}, "no such resource"),
    ({"edges_s": list(range(MOST_EDGES + 1)), "prices": {}}, "at most"),
    ({"edges_s": [0, 1], "prices": {f"r{k}": [0, 0] for k in range(5_000)}}, "at most"),
]


@pytest.mark.parametrize(("data", "word"), BAD)
def test_what_cannot_be_read_is_named(data: Any, word: str) -> None:
    """And proves no more than the elementary bound."""
    import re

    formulation = SchedulingFormulation(generate_scheduling(4, 2))
    fault = formulation.certificate_fault(data)
    assert fault is not None
    assert re.search(word, fault), fault
    assert formulation.certified_bounds(data) == formulation.elementary_bounds()


def test_there_and_back_by_json() -> None:
    """Resources that are free are left out."""
    grid = PriceGrid(np.array([0.0, 1 / 3, 2.0]), np.array([[0.1, 0.0], [0.7, 0.0], [0.0, 0.0]]))
    data = json.loads(json.dumps(certificate_of(grid, ("gpu", "cpu"))))
    assert set(data["prices"]) == {"gpu"}
    again = read_grid(data, ("gpu", "cpu"))
    assert isinstance(again, PriceGrid)
    assert (again.edges_s == grid.edges_s).all()
    assert (again.price == grid.price).all()
