"""Servers: what a plan may use of them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from clusterplan.instances.consolidation.instance import Server

EIGHT = {"gpu": {"count": 8}}


def test_all_of_a_server_is_available_unless_it_says_what_is_free() -> None:
    assert Server(name="a", capacity={"cpu": 8, "gpu": 2}).available == {"cpu": 8, "gpu": 2}
    assert Server(name="a", capacity={"cpu": 8, "gpu": 2}, free={"cpu": 3}).available == {"cpu": 3}


def test_free_devices_are_no_resource_but_states_of_devices() -> None:
    server = Server.model_validate(
        {"name": "a", "capacity": {"cpu": 8}, "free": {"cpu": 3, "gpu": 6}, "devices": EIGHT}
    )
    assert server.available == {"cpu": 3}
    assert [device.mode for device in server.device_states["gpu"]] == ["free"] * 6 + ["whole"] * 2


@pytest.mark.parametrize(
    ("free", "complaint"),
    [
        ({"cpu": 9}, "more than the capacity 8"),
        ({"gpu": 9}, "of 8 devices a whole number is free"),
        ({"gpu": 0.5}, "of 8 devices a whole number is free"),
    ],
)
def test_more_free_than_there_is_is_refused(free: dict[str, Any], complaint: str) -> None:
    document = {"name": "a", "capacity": {"cpu": 8}, "free": free, "devices": EIGHT}
    with pytest.raises(ValidationError, match=complaint):
        Server.model_validate(document)
