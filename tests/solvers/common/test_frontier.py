"""What every frontier has, whatever it trades."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError

from clusterplan.solvers.common.result import AnyFrontier

GIVEN: dict[str, Any] = {
    "instance": "i",
    "kind": "k",
    "instance_sha256": "0" * 64,
    "status": "complete",
    "error": 0.01,
    "points": ((1.0, 2.0), (2.0, 1.0)),
}


class Trade(AnyFrontier):
    """A frontier of pairs."""

    points: tuple[tuple[float, float], ...] = ()

    titles = ("a", "b")

    @staticmethod
    def _card_row(point: tuple[float, float]) -> tuple[str, ...]:
        """Return the pair."""
        return f"{point[0]:g}", f"{point[1]:g}"

    def to_frame(self) -> pd.DataFrame:
        """Return the pairs."""
        return pd.DataFrame(self.points, columns=["a", "b"])


def test_json_and_back_is_the_same() -> None:
    frontier = Trade(**GIVEN)
    assert Trade.model_validate_json(frontier.to_json()) == frontier
    assert "\n" not in frontier.to_json()
    assert frontier.to_frame()["a"].tolist() == [1.0, 2.0]


def test_a_notebook_shows_every_point_and_the_error() -> None:
    card = Trade(**GIVEN, certified_error=0.005)._repr_html_()
    assert "frontier of 2 points, complete; certified error 0.5 %" in card
    assert card.count("<tr") == 3


@pytest.mark.parametrize("change", [{"error": 1}, {"error": -0.1}, {"status": "optimal"}, {"runtime_s": -1}])
def test_values_that_are_not_allowed_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Trade(**{**GIVEN, **change})


def test_a_frontier_has_to_say_what_its_table_is() -> None:
    with pytest.raises(TypeError, match="abstract"):
        AnyFrontier(**GIVEN)
