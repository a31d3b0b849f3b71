"""Options of importers of clusters."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from clusterplan.instances.importers.cluster_options import Running, Spread


def test_words_that_are_allowed() -> None:
    """Nothing else is."""
    assert TypeAdapter(Running).validate_python("stay") == "stay"
    assert TypeAdapter(Spread).validate_python("free") == "free"
    for kind in (Running, Spread):
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python("some")
