"""Options of importers of staging instances."""

from __future__ import annotations

import pytest

from clusterplan.instances.importers import IMPORTERS
from clusterplan.instances.importers.importer import option_of
from clusterplan.instances.importers.staging_options import StagingOptions


def test_a_link_of_no_speed_is_no_link() -> None:
    """The command line has 0 for it."""
    option = option_of(StagingOptions.model_fields["link_gbit_per_s"])
    assert option.read is not None
    assert (option.read(0), option.read(25.0), option.least) == (None, 25.0, 0)


@pytest.mark.parametrize("name", ["sailor", "pipedream", "dnn-partitioning"])
def test_every_import_of_layers_has_them(name: str) -> None:
    """Objective and stage rule among them."""
    assert issubclass(IMPORTERS[name].options, StagingOptions)
    assert {"objective", "stage_rule"} <= set(IMPORTERS[name].options.model_fields)
