"""Generator of mix instances: requests with replicas that serve them, or jobs that share devices in pairs.

Faster models of device are dearer, and each suits some types better than others, so that the best mix seldom
has one model only.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement

from ..common.errors import OptionError
from ..common.faults import validated
from ..common.fields import Fields
from .instance import MixInstance

WIDTHS = (1, 1, 2, 4, 8)
"""Devices of a replica, each as often as it stands here."""
SERVED = 0.8
"""Share of the types that a replica serves within its limits."""
Speeds = Mapping[str, Mapping[str, float]]
"""Model of device → type → requests or steps per second."""


def generate_mix(
    types: int = 3,
    hardware: int = 3,
    configurations: int = 20,
    load: float = 20.0,
    sharing: bool = False,
    seed: int = 0,
) -> MixInstance:
    """Return a random instance of requests, with replicas of 1 to 8 devices; or of jobs, with all pairs.

    Parameters
    ----------
    types, hardware, configurations
        How many there are; the first replica serves all types.
    load
        Requests per second of all types together; or jobs, for three fifths as many devices.
    sharing
        Whether the types are of jobs.
    seed
        The same seed gives the same instance.

    Raises
    ------
    OptionError
        If a parameter is out of range.
    """
    if not (1 <= types <= 100 and 1 <= hardware <= 16 and configurations >= 1 and 0 < load <= 1e6):
        limits = "100 types, 16 models of hardware, and a load of 1,000,000, each above 0"
        raise OptionError(f"an instance has at most {limits}; and at least one configuration")
    rng = random.Random(seed)
    shares = {f"type-{number}": rng.uniform(0.2, 1.0) for number in range(types)}
    base = {name: rng.uniform(0.4, 4.0) for name in shares}
    speeds = {
        f"model-{number}": {name: base[name] * (1 + number) * rng.uniform(0.7, 1.3) for name in shares}
        for number in range(hardware)
    }
    amounts = {name: load * share / sum(shares.values()) for name, share in shares.items()}
    limit = max(1, round(0.6 * load / hardware)) if sharing else None
    document = {
        "name": f"synthetic-{'sharing' if sharing else 'serving'}-{types}-{hardware}-{seed}",
        "source": "SYNTHETIC",
        "assumptions": ["Speeds, prices and numbers are synthetic."],
        "types": [
            {"name": name, "count": round(amount)} if sharing else {"name": name, "requests_per_s": amount}
            for name, amount in amounts.items()
        ],
        "hardware": [
            {"name": name, "price_usd_per_hour": (1 + n) ** rng.uniform(0.9, 1.3), "limit": limit}
            for n, name in enumerate(speeds)
        ],
        "configurations": list(_groups(rng, speeds) if sharing else _replicas(rng, speeds, configurations)),
    }
    return validated(MixInstance, document, "synthetic")


def _replicas(rng: random.Random, speeds: Speeds, count: int) -> Iterator[Fields]:
    for number in range(count):
        model, devices = rng.choice(list(speeds)), rng.choice(WIDTHS)
        # Wider replicas have room for larger batches, and lose time in communication.
        scale = devices ** rng.uniform(0.85, 1.1)
        kept = [name for name in speeds[model] if not number or rng.random() < SERVED]
        rates = {name: speeds[model][name] * scale * rng.uniform(0.7, 1.0) for name in kept or speeds[model]}
        yield {"name": f"replica-{number}", "hardware": model, "devices": devices, "requests_per_s": rates}


def _groups(rng: random.Random, speeds: Speeds) -> Iterator[Fields]:
    """Yield each job alone, and each pair."""
    for model, speed in speeds.items():
        for group in (*((name,) for name in speed), *combinations_with_replacement(speed, 2)):
            left = rng.uniform(0.5, 0.95) if len(group) > 1 else 1.0
            fastest = {name: max(each[name] for each in speeds.values()) for name in group}
            yield {
                "hardware": model,
                "jobs": {name: group.count(name) for name in group},
                "progress": {name: round(speed[name] / fastest[name] * left, 3) for name in group},
            }
