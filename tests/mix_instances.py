"""Tiny instances of mix: named jobs that share devices, and requests that replicas serve."""

from __future__ import annotations

from typing import Any

from clusterplan.instances.mix.instance import MixInstance
from clusterplan.instances.mix.kind import Mix


def sharing(**fields: Any) -> MixInstance:
    """Return five jobs of two types on four devices, of which pairs are better, and one job waits."""
    return (
        Mix("sharing", **fields)
        .add_jobs("a", 3, names=("a1", "a2", "a3"))
        .add_jobs("b", 2)
        .add_jobs("wide", 2, devices=12)
        .add_hardware("v100", limit=14)
        .add_group("v100", {"a": 0.99})
        .add_group("v100", {"a": 0.8, "b": 0.7})
        .add_group("v100", {"wide": 1.0}, devices=12)
        .build()
    )


def serving(**fields: Any) -> MixInstance:
    """Return two types of requests for replicas on two models, one of them limited."""
    return (
        Mix("serving", **fields)
        .add_requests("chat", 12)
        .add_requests("long", 2)
        .add_hardware("h100", 6.88, limit=16)
        .add_hardware("l40s", 1.9, limit=10)
        .add_replica("h100", {"chat": 6.1, "long": 1.1}, name="h100 tp2 b32", devices=2)
        .add_replica("h100", {"chat": 2.6}, name="h100 tp1 b8")
        .add_replica("l40s", {"chat": 0.7}, name="l40s tp1")
        .build()
    )
