"""The base of all frontiers: points, and the error that is proven of them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...formulations.common.objective import Diagnosis
from ...instances.common.base import card, percent
from ...instances.common.fields import Many, ManyNamed, Model
from .options import SolveOptions
from .result import Limit

if TYPE_CHECKING:
    import pandas as pd


class AnyFrontier(Model):
    """What a search for a frontier found; JSON and back without loss.

    Attributes
    ----------
    status
        `complete`: the error is proven; `partial`: a limit stopped the search; `infeasible`: no plan at all.
    error, certified_error
        ε that was asked for, and the one that our own check derives without trusting a solver; None if it
        derives none.
    points
        From the best in one aim to the best in the other.
    slow, dear
        Fields of a point: what rises along the points, and what falls.
    called, titles
        What the points are, and the titles of the table that a notebook shows.
    """

    slow: ClassVar[str]
    dear: ClassVar[str]
    called: ClassVar[str] = "points"
    titles: ClassVar[tuple[str, ...]]

    instance: str
    kind: str
    instance_sha256: str
    status: Literal["complete", "partial", "infeasible"]
    limit: Limit = "none"
    error: Annotated[float, Field(ge=0, lt=1)]
    certified_error: float | None = None
    points: Many[Any] = ()
    runtime_s: Annotated[float, Field(ge=0)] = 0.0
    options: SolveOptions = SolveOptions()
    versions: ManyNamed[str, str] = {}
    diagnosis: Diagnosis | None = None

    def to_json(self) -> str:
        """Return the frontier as one line of JSON."""
        return self.model_dump_json()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        proven = percent(self.certified_error)
        lines = [f"frontier of {len(self.points)} {self.called}, {self.status}; certified error {proven}"]
        return card(self.instance, lines, self.titles, [self._card_row(point) for point in self.points])

    @staticmethod
    @abstractmethod
    def _card_row(point: Any) -> tuple[str, ...]:
        """Return the cells of a point below `titles`."""

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """Return one row for each point."""
