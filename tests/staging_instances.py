"""Staging instances that are small enough to be computed by hand."""

from __future__ import annotations

from typing import Any

from clusterplan.instances.documents import parse_instance
from clusterplan.instances.staging.instance import StagingInstance


def _parsed(**fields: Any) -> StagingInstance:
    made = parse_instance({"schema_version": 1, "kind": "staging", **fields})
    assert isinstance(made, StagingInstance)
    return made


def two_layers(**fields: Any) -> StagingInstance:
    """Return two layers on two types, with a transfer of half a second between them."""
    layers = [
        {"name": "a", "compute_s": {"slow": 4, "fast": 1}, "compute_parallel": 0.5, "output_bytes": 5e8},
        {
            "name": "b",
            "compute_s": {"slow": 8, "fast": 1},
            "communication_s": {"slow": 2, "fast": 2},
            "compute_parallel": {"slow": 1, "fast": 0.8},
            "communication_parallel": 0.25,
        },
    ]
    types = [
        {"name": "slow", "price_usd_per_hour": 1, "limit": 8},
        {"name": "fast", "price_usd_per_hour": 5, "limit": 2},
    ]
    given = {"name": "two", "training": {"samples": 3600, "epochs": 2}, "probe_batch": 2}
    return _parsed(**{**given, "link_gbit_per_s": 8, "types": types, "layers": layers, **fields})


def half_serial(limit: int | None = 2, **fields: Any) -> StagingInstance:
    """Return a layer of half a second serial and half parallel, on units of 1 USD/h.

    On k units it takes (1 + 1/k)/2 s and the training costs (k + 1)/2 USD: 1 USD on one, 1.5 USD on two.
    """
    layer = {"name": "a", "compute_s": {"t": 1.0}, "compute_parallel": 0.5}
    hardware = {"name": "t", "price_usd_per_hour": 1.0, "limit": limit}
    given = {"name": "one", "training": {"samples": 3600}, "probe_batch": 1}
    return _parsed(**{**given, "types": [hardware], "layers": [layer], **fields})
