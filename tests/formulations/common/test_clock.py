"""Clocks for a part of the time that is left."""

from __future__ import annotations

from clusterplan.formulations.common.clock import Clock


def test_shares_of_the_time_that_is_left() -> None:
    """A part of it, or so many seconds; without a limit a share has none either."""
    hour, endless = Clock(3600.0), Clock()
    share = hour.share(0.25).limit_s
    assert share is not None
    assert 890 < share <= 900
    assert endless.share(0.25).limit_s is None
    assert hour.at_most(5.0).limit_s == endless.at_most(5.0).limit_s == 5.0
    assert Clock(0.0).at_most(5.0).limit_s == 0.0
