"""Tuning of the branch and bound over the stage time (`search.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchSettings:
    """Tuning of the search.

    Attributes
    ----------
    segments_at_once, most_at_once
        Segments times intervals, and intervals, that are worked on together.
    halved_above_ratio
        Intervals whose ends have a greater ratio are halved before they are split at breakpoints.
    quartered_above
        Intervals whose bound misses the cutoff by more than this times the logarithm of the ratio of their
        ends, relatively, are split into four parts: half of one would miss it too.
    never_split_below_ratio
        Ratio of the ends below which an interval is not split: it is hardly wider than rounding.
    most_kept_share, few_segments
        Segments are dropped only where no more than this part remains, and never where there are so few.
    shortage
        The value by which priced units must exceed all limits to prove that they do not suffice.
    core_at_any_width, core_below_ratio
        Columns of a core that is solved in an interval of any width; ratio of the ends below which all are.
    first_columns, first_core_s
        Columns of the cores in which a first plan is looked for, the last with all; seconds for each but
        that.
    rough_gap
        Relative distance to its bound at which a plan will do where any matters.
    beams
        Labels of a layer that are looked at before all are, in one try after another.
    core_s
        Seconds for a core.
    looked_at_once
        Segments among which the slowest is looked for at a time.
    """

    segments_at_once: int = 1 << 21
    most_at_once: int = 4
    halved_above_ratio: float = 1.5
    quartered_above: float = 0.4
    never_split_below_ratio: float = 1 + 1e-13
    most_kept_share: float = 0.7
    few_segments: int = 2000
    shortage: float = 1e-6
    core_at_any_width: int = 400
    core_below_ratio: float = 1.02
    first_columns: tuple[int | None, ...] = (1000, 4000, 16_000, None)
    first_core_s: float = 10.0
    rough_gap: float = 0.02
    beams: tuple[int, ...] = (200, 2000)
    core_s: float = 6.0
    looked_at_once: int = 1 << 16


SETTINGS = SearchSettings()
