"""Plans of a mix: how many copies of each configuration, and which requests replicas serve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from ...instances.common.fields import Name, NonNegative, PositiveCount, entries
from ..common.formulation import PlanEntry


class Copies(PlanEntry):
    """The copies of one configuration.

    Attributes
    ----------
    requests_per_s
        How many requests of each type all copies together serve in a second; None of groups of jobs.
    """

    omitted: ClassVar[str] = "requests_per_s"

    configuration: Name
    count: PositiveCount
    requests_per_s: Annotated[dict[Name, NonNegative], *entries(1000)] | None = None


Plan = Sequence[Copies]
"""The configurations that have copies."""
