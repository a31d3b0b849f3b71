"""Clocks for a part of the time that is left."""

from __future__ import annotations

import itertools

import pytest

from clusterplan.formulations.common.clock import CHECK_INTERVAL, Clock, until_time_limit
from clusterplan.instances.common.errors import OutOfTimeError


def test_shares_of_the_time_that_is_left() -> None:
    """A part of it, or so many seconds; without a limit a share has none either."""
    hour, endless = Clock(3600.0), Clock()
    share = hour.share(0.25).limit_s
    assert share is not None
    assert 890 < share <= 900
    assert endless.share(0.25).limit_s is None
    assert hour.at_most(5.0).limit_s == endless.at_most(5.0).limit_s == 5.0
    assert Clock(0.0).at_most(5.0).limit_s == 0.0


def test_items_are_yielded_until_the_time_is_up() -> None:
    """The clock is looked at now and then, and before the first item; outside of a clock there is no end."""
    assert list(until_time_limit(range(5))) == [0, 1, 2, 3, 4]
    with Clock(0.0).enforced(), pytest.raises(OutOfTimeError):
        next(until_time_limit([1]))
    clock = Clock(3600.0)
    with clock.enforced():
        items = until_time_limit(itertools.count())
        assert next(items) == 0
        clock.limit_s = 0.0
        with pytest.raises(OutOfTimeError):
            list(itertools.islice(items, 2 * CHECK_INTERVAL))
