"""Options of importers of staging instances."""

from __future__ import annotations

from clusterplan.instances.common.fields import marks_of
from clusterplan.instances.importers.importer import Option
from clusterplan.instances.importers.staging_options import Link


def test_a_link_of_no_speed_is_no_link() -> None:
    """The command line has 0 for it."""
    option = next(mark for mark in marks_of(Link) if isinstance(mark, Option))
    assert option.read is not None
    assert (option.read(0), option.read(25.0), option.least) == (None, 25.0, 0)
