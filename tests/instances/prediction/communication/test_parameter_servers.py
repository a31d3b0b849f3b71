"""Parameter servers: the slower side sets the pace."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.communication.links import Link
from clusterplan.instances.prediction.communication.parameter_servers import sharded_s

LINK = Link(1.0, 10.0)


def test_by_hand() -> None:
    # 2 servers with 4 bytes each receive 6 x 4 bytes; with 6 servers a worker's own 8 bytes count.
    assert sharded_s(LINK, 2, 6, 8.0) == 2 * (1 + 240)
    assert sharded_s(LINK, 6, 6, 8.0) == sharded_s(LINK, 60, 6, 8.0) == 2 * (1 + 80)


def test_nobody_to_talk_to() -> None:
    with pytest.raises(OptionError, match="at least 1"):
        sharded_s(LINK, 0, 1, 8.0)
