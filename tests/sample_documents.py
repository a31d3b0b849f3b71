"""One small valid document of each kind, to be altered by tests."""

from __future__ import annotations

from typing import Any

ALLOCATION: dict[str, Any] = {
    "schema_version": 1,
    "kind": "allocation",
    "name": "a",
    "resources": {"cpu": 10, "gpu": 4},
    "jobs": [
        {
            "name": "j",
            "remaining_steps": 100,
            "variants": [
                {
                    "name": "v",
                    "worker_demand": {"cpu": 1, "gpu": 1},
                    "ps_demand": {"cpu": 1},
                    "workers": {"min": 1, "max": 3},
                    "ps": {"min": 1, "max": 2},
                    "speed": {"model": "ps_sync", "theta": [0.01, 0.1, 0.1, 0.01, 0.001], "batch": 16},
                }
            ],
        },
        {
            "name": "k",
            "remaining_steps": 100,
            "variants": [
                {
                    "name": "t",
                    "worker_demand": {"gpu": 1},
                    "speed": {
                        "model": "table",
                        "rows": [{"workers": 1, "steps_per_s": 1.5}, {"workers": 2, "steps_per_s": 2.5}],
                    },
                }
            ],
        },
    ],
}
STAGING: dict[str, Any] = {
    "schema_version": 1,
    "kind": "staging",
    "name": "s",
    "training": {"samples": 1000},
    "probe_batch": 4,
    "throughput_floor_samples_per_s": 5,
    "types": [
        {"name": "A", "price_usd_per_hour": 1, "limit": 4},
        {"name": "B", "price_usd_per_hour": 3, "limit": 4},
    ],
    "layers": [
        {"name": "l0", "compute_s": {"A": 1, "B": 0.5}, "compute_parallel": 0.9},
        {"name": "l1", "compute_s": {"A": 2, "B": 0.3}, "compute_parallel": 0.9},
    ],
}
CONSOLIDATION: dict[str, Any] = {
    "schema_version": 1,
    "kind": "consolidation",
    "name": "c",
    "servers": [{"name": "n", "count": 2, "capacity": {"gpu": 4, "cpu": 8}}],
    "jobs": [
        {"name": "j", "tasks": 2, "task_demand": {"gpu": 1}},
        {"name": "p", "groups": [{"name": "w", "tasks": 2, "demand": {"gpu": 1}}]},
    ],
}
SCHEDULING: dict[str, Any] = {
    "schema_version": 1,
    "kind": "scheduling",
    "name": "t",
    "resources": {"gpu": 3},
    "jobs": [
        {"name": "first", "tasks": 2, "demand": {"gpu": 1}, "duration_s": 2},
        {"name": "second", "tasks": 1, "demand": {"gpu": 1}, "duration_s": 8},
    ],
}
DOCUMENT = {
    "allocation": ALLOCATION,
    "staging": STAGING,
    "consolidation": CONSOLIDATION,
    "scheduling": SCHEDULING,
}
