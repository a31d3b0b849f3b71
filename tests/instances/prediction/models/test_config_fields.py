"""Fields of configurations: the first name that is there, and faults in the words of the file."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.fields import Model
from clusterplan.instances.prediction.models.config_fields import checked, picked

NAMES = {"size": ("n", "size_of_it"), "other": ("o",)}


class _Two(Model):
    size: int
    other: int = 3


def test_null_counts_as_absent() -> None:
    assert picked({"n": None, "size_of_it": 4, "more": 1}, NAMES) == {"size": 4}


def test_faults_are_in_the_words_of_the_file() -> None:
    assert checked(_Two, {"size": 4}, NAMES, "x").other == 3
    with pytest.raises(InstanceError, match="x: n or size_of_it: is missing"):
        checked(_Two, {}, NAMES, "x")
