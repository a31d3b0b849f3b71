"""What staging registers among the instances."""

from __future__ import annotations

from clusterplan.instances.staging.kind import STAGING


def test_the_tiny_instance_is_one_of_the_model() -> None:
    """Three layers on two types, as `doctor` and warm-up solve it."""
    tiny = STAGING.tiny()
    assert isinstance(tiny, STAGING.model)
    assert (len(tiny.layers), len(tiny.types)) == (3, 2)


def test_lists_are_fields_of_the_model() -> None:
    """Each may come from a file of its own."""
    assert set(STAGING.lists) <= set(STAGING.model.model_fields)
