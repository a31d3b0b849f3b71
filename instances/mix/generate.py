"""Generators of mix instances: requests with replicas that serve them, and jobs that share devices.

Faster models of device are dearer, but not in proportion, and each suits some types better than others; so
that the best mix seldom has one model only.
"""

from __future__ import annotations

import random
from itertools import combinations_with_replacement

from ..common.errors import refuse_options
from ..common.fields import Fields
from .instance import MAX_CONFIGURATIONS, MixInstance

WIDTHS = (1, 1, 2, 4, 8)
"""Devices of a replica, each as often as it stands here."""
SERVED = 0.8
"""Share of the types that a replica serves within its limits."""
SYNTHETIC = "synthetic: all figures are drawn at random"


def generate_mix(
    types: int = 3,
    hardware: int = 3,
    configurations: int = 20,
    load: float = 20.0,
    sharing: bool = False,
    seed: int = 0,
) -> MixInstance:
    """Return a random instance, of requests or, if `sharing`, of jobs, for which it makes all pairs."""
    if sharing:
        return generate_sharing(types, hardware, seed, round(load))
    return generate_serving(types, configurations, seed, hardware, load)


def generate_serving(
    types: int = 3, configurations: int = 20, seed: int = 1, hardware: int = 3, load: float = 20.0
) -> MixInstance:
    """Return random types of requests, and replicas of 1 to 8 devices that serve some of them.

    Parameters
    ----------
    types, configurations, hardware
        How many there are; the first configuration serves all types.
    seed
        The same seed gives the same instance.
    load
        Requests per second of all types together.

    Raises
    ------
    OptionError
        If a parameter is out of range.
    """
    _check(types, hardware, load, configurations)
    rng = random.Random(seed)
    speeds = _speeds(rng, types, hardware)
    shares = [rng.uniform(0.2, 1.0) for _ in range(types)]
    rows: list[Fields] = []
    for number in range(configurations):
        model, devices = rng.randrange(hardware), rng.choice(WIDTHS)
        kept = [each for each in range(types) if rng.random() < SERVED or not number] or [
            rng.randrange(types)
        ]
        # Wider replicas have room for larger batches, and lose time in communication.
        scale = devices ** rng.uniform(0.85, 1.1)
        rates = {f"r{each}": round(speeds[model][each] * scale * rng.uniform(0.7, 1.0), 3) for each in kept}
        called = {"name": f"replica-{number}", "hardware": f"model-{model}", "devices": devices}
        rows.append({**called, "requests_per_s": rates})
    return _instance(
        f"synthetic-serving-{types}-{configurations}-{seed}",
        rng,
        speeds,
        [
            {"name": f"r{each}", "requests_per_s": round(load * share / sum(shares), 3)}
            for each, share in enumerate(shares)
        ],
        rows,
    )


def generate_sharing(types: int = 5, hardware: int = 2, seed: int = 1, jobs: int = 20) -> MixInstance:
    """Return random types of jobs, alone and in all pairs, on three fifths as many devices as there are jobs.

    Parameters
    ----------
    types, hardware, jobs
        How many there are.
    seed
        The same seed gives the same instance.

    Raises
    ------
    OptionError
        If a parameter is out of range.
    """
    pairs = list(combinations_with_replacement(range(min(types, 1000)), 2))
    _check(types, hardware, jobs, hardware * (types + len(pairs)))
    rng = random.Random(seed)
    speeds = _speeds(rng, types, hardware)
    fastest = [max(each[number] for each in speeds) for number in range(types)]
    needs = [rng.uniform(0.2, 0.9) for _ in range(types)]  # share of a device that a job keeps busy
    rows: list[Fields] = []
    for model in range(hardware):
        for group in (*((one,) for one in range(types)), *pairs):
            shared = min(1.0, 1.0 / sum(needs[one] for one in group)) * rng.uniform(0.85, 1.0) ** (
                len(group) - 1
            )
            progress = {f"job-{one}": round(speeds[model][one] / fastest[one] * shared, 3) for one in group}
            members = {f"job-{one}": group.count(one) for one in group}
            rows.append({"hardware": f"model-{model}", "jobs": members, "progress": progress})
    counts = [jobs // types + (number < jobs % types) for number in range(types)]
    given: list[Fields] = [{"name": f"job-{each}", "count": count} for each, count in enumerate(counts)]
    limit = max(1, round(0.6 * jobs / hardware))
    return _instance(f"synthetic-sharing-{types}-{hardware}-{seed}", rng, speeds, given, rows, limit)


def _check(types: int, hardware: int, load: float, configurations: int) -> None:
    most = f"must be from 1 to {MAX_CONFIGURATIONS:,}"
    refuse_options(
        (not 1 <= types <= 1000, f"types is {types}, but must be from 1 to 1,000"),
        (not 1 <= hardware <= 1000, f"hardware is {hardware}, but must be from 1 to 1,000"),
        (
            not 1 <= configurations <= MAX_CONFIGURATIONS,
            f"there are {configurations} configurations; they {most}",
        ),
        (not 0 < load <= 1e6, f"load is {load:g}, but must be above 0 and at most 1,000,000"),
    )


def _speeds(rng: random.Random, types: int, hardware: int) -> list[list[float]]:
    """Return the speed of each model of device for each type, in requests or steps per second."""
    base = [rng.uniform(0.4, 4.0) for _ in range(types)]
    return [[each * (1 + model) * rng.uniform(0.7, 1.3) for each in base] for model in range(hardware)]


def _instance(
    name: str,
    rng: random.Random,
    speeds: list[list[float]],
    types: list[Fields],
    configurations: list[Fields],
    limit: int | None = None,
) -> MixInstance:
    hardware = [
        {
            "name": f"model-{number}",
            "price_usd_per_hour": round((1 + number) ** rng.uniform(0.9, 1.3), 2),
            "limit": limit,
        }
        for number in range(len(speeds))
    ]
    return MixInstance.model_validate(
        {
            "name": name,
            "source": SYNTHETIC,
            "assumptions": ["Speeds, prices and numbers are synthetic."],
            "types": types,
            "hardware": hardware,
            "configurations": configurations,
        }
    )
