"""Random allocations as documents, and their optimum by enumeration."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .palette import Palette
from .truth import Judgement, TooManyPlansError, Truth, limits, whole

MAX_PLANS = 4000


@dataclass(frozen=True)
class Configuration:
    """One way to run a job; `key` is (variant, ps, workers), None for staying unplaced."""

    key: tuple[str, int, int] | None
    time_s: Fraction
    takes: tuple[Fraction, ...]
    certain: bool


def step_s(speed: dict[str, Any], p: int, w: int) -> Fraction:
    """Return 1/f(p, w) of a formula."""
    t = [Fraction(x) for x in speed["theta"]]
    batch = Fraction(speed.get("batch", 0))
    if speed["model"] == "ps_sync":
        return t[0] * batch / w + t[1] + t[2] * Fraction(w, p) + t[3] * w + t[4] * p
    if speed["model"] == "ps_async":
        return (t[0] + t[1] * Fraction(w, p) + t[2] * w + t[3] * p) / w
    return t[0] * batch / w + t[1] + t[2] * Fraction(w - 1, w) + t[3] * (w - 1)


def _speeds(variant: dict[str, Any]) -> Iterator[tuple[int, int, Fraction]]:
    """Yield (ps, workers, seconds of a step) of a variant."""
    speed = variant["speed"]
    if speed["model"] == "table":
        for row in speed["rows"]:
            yield row.get("ps", 0), row["workers"], 1 / Fraction(row["steps_per_s"])
        return
    workers, ps = variant["workers"], variant.get("ps")
    for w in range(workers.get("min", 1), workers["max"] + 1):
        for p in range(ps.get("min", 1), ps["max"] + 1) if ps else [0]:
            yield p, w, step_s(speed, p, w)


def possible_configurations(
    job: dict[str, Any], rows: Sequence[dict[str, Fraction]]
) -> Iterator[Configuration]:
    """Yield the configurations of a job.

    Parameters
    ----------
    rows
        For each row of the knapsack, how much one unit of each resource counts in it.
    """
    current = job.get("current")
    now = current and (current["variant"], current.get("ps", 0), current["workers"])
    certain_s, possible_s = limits(job.get("deadline_s"), 1 << 200)
    for variant in job["variants"]:
        for p, w, step in _speeds(variant):
            key = (variant["name"], p, w)
            time = Fraction(job["remaining_steps"]) * step
            if key != now:
                time += Fraction(job.get("restart_s", 0))
            late = time * (1 << 200)
            if late > possible_s:
                continue
            takes = tuple(
                sum(
                    (
                        Fraction(amount) * count * row.get(name, 0)
                        for count, demand in (
                            (p, variant.get("ps_demand", {})),
                            (w, variant["worker_demand"]),
                        )
                        for name, amount in demand.items()
                    ),
                    Fraction(0),
                )
                for row in rows
            )
            yield Configuration(key, time, takes, late <= certain_s)
    if job.get("optional"):
        yield Configuration(None, Fraction(job["unplaced_s"]), (Fraction(0),) * len(rows), True)


def _limits_of(data: dict[str, Any]) -> list[Any]:
    """Return what there is of each resource, and the budget if there is one."""
    budget = data.get("budget_usd_per_hour")
    return [*data["resources"].values(), *([] if budget is None else [budget])]


class AllocationTruth(Truth):
    """All plans of an allocation document.

    Parameters
    ----------
    smaller
        A document with less of something, in which each configuration has to fit alone; None for this one.
    """

    def __init__(self, data: dict[str, Any], smaller: dict[str, Any] | None = None) -> None:
        super().__init__(data)
        self.makespan = data.get("objective") == "makespan"
        self.objectives = (("makespan" if self.makespan else "total_completion_time", "min"),)
        rows: list[dict[str, Fraction]] = [{name: Fraction(1)} for name in data["resources"]]
        capacity = _limits_of(data)
        if data.get("budget_usd_per_hour") is not None:
            rows.append({name: Fraction(p) for name, p in data.get("prices_usd_per_hour", {}).items()})
        self.menus = {job["name"]: list(possible_configurations(job, rows)) for job in data["jobs"]}
        if smaller is not None:
            least = [limits(limit)[0] for limit in _limits_of(smaller)]
            self.menus = {
                name: [c for c in menu if all(a <= b for a, b in zip(c.takes, least, strict=True))]
                for name, menu in self.menus.items()
            }
        if math.prod(map(len, self.menus.values())) > MAX_PLANS:
            raise TooManyPlansError
        flat = [configuration for menu in self.menus.values() for configuration in menu]
        self._times = self._scaled_times(data, flat)
        units = []
        self._takes: dict[int, list[int]] = {id(c): [] for c in flat}
        for r in range(len(rows)):
            amounts, unit = whole(c.takes[r] for c in flat)
            units.append(unit)
            for configuration, amount in zip(flat, amounts, strict=True):
                self._takes[id(configuration)].append(amount)
        self.limits = [limits(limit, unit) for limit, unit in zip(capacity, units, strict=True)]
        self.plans = []
        self._extend(list(self.menus.values()), 0, [0] * len(rows), 0, True)

    def _scaled_times(self, data: dict[str, Any], flat: list[Configuration]) -> dict[int, int]:
        weights = {
            id(c): Fraction(1 if self.makespan else job.get("weight", 1))
            for job in data["jobs"]
            for c in self.menus[job["name"]]
        }
        costs, self.unit = whole(c.time_s * weights[id(c)] for c in flat)
        return {id(c): cost for c, cost in zip(flat, costs, strict=True)}

    def _kept(self, used: Sequence[int], which: int) -> bool:
        return all(amount <= limit[which] for amount, limit in zip(used, self.limits, strict=True))

    def _joined(self, cost: int, configuration: Configuration) -> int:
        own = self._times[id(configuration)]
        return max(cost, own) if self.makespan else cost + own

    def _extend(
        self, menus: list[list[Configuration]], job: int, used: list[int], cost: int, certain: bool
    ) -> None:
        if job == len(menus):
            self.plans.append(((cost,), certain and self._kept(used, 0)))
            return
        for configuration in menus[job]:
            after = [a + b for a, b in zip(used, self._takes[id(configuration)], strict=True)]
            if self._kept(after, 1):
                own = certain and configuration.certain
                self._extend(menus, job + 1, after, self._joined(cost, configuration), own)

    def value(self, index: int, cost: int) -> Fraction:
        """Return weighted job-seconds, or seconds."""
        del index
        return Fraction(cost, self.unit)

    def judge(self, plan: Sequence[dict[str, Any]]) -> Judgement:
        """Return the cost of a plan, and what is wrong with it."""
        used, cost, wrong = [0] * len(self.limits), 0, []
        if sorted(entry["job"] for entry in plan) != sorted(self.menus):
            return None, ["the jobs of the plan are not those of the instance"]
        for entry in plan:
            placed = entry.get("placed", True)
            key = (entry.get("variant"), entry.get("ps", 0), entry.get("workers", 0)) if placed else None
            found = next((c for c in self.menus[entry["job"]] if c.key == key), None)
            if found is None:
                return None, [f"{entry['job']}: there is no configuration {key}"]
            if not placed and (entry.get("variant") or entry.get("ps") or entry.get("workers")):
                wrong.append(f"{entry['job']}: unplaced, but has tasks")
            stated = entry.get("completion_s")
            if stated is not None and abs(Fraction(stated) - found.time_s) > found.time_s / 10**9 * 2:
                wrong.append(f"{entry['job']}: takes {float(found.time_s):.17g} s, not {stated:.17g} s")
            used = [a + b for a, b in zip(used, self._takes[id(found)], strict=True)]
            cost = self._joined(cost, found)
        if not self._kept(used, 1):
            wrong.append("a capacity or the budget is exceeded")
        return (cost,), wrong


MODELS = {"ps_sync": 5, "ps_async": 4, "ring_allreduce": 4, "table": 0}


def _variant(
    rng: random.Random, palette: Palette, name: str, resources: list[str], most: int
) -> dict[str, Any]:
    model = rng.choice(list(MODELS))

    def demand(least: float) -> dict[str, float]:
        return {
            r: palette.draw(f"demand {r}") if rng.random() < 0.8 else 0
            for r in resources
            if rng.random() > least
        }

    variant: dict[str, Any] = {"name": name, "worker_demand": demand(0.1), "speed": {"model": model}}
    if model == "table":
        pairs = [(w, p) for w in range(1, 4) for p in range(rng.choice([1, 3]))]
        variant["speed"]["rows"] = [
            {"workers": w, "ps": p, "steps_per_s": palette.draw("speed")}
            for w, p in rng.sample(pairs, min(len(pairs), rng.randint(1, most)))
        ]
    else:
        theta = [palette.draw("theta") if rng.random() < 0.7 else 0 for _ in range(MODELS[model])]
        if not any(theta):
            theta[rng.randrange(len(theta))] = palette.draw("theta")
        variant["speed"]["theta"] = theta
        if model != "ps_async":
            variant["speed"]["batch"] = palette.draw("batch")
        least = rng.choice([1, 1, 2])
        variant["workers"] = {"min": least, "max": least + rng.randint(0, most - 1)}
        if model != "ring_allreduce":
            variant["ps"] = {"max": rng.randint(1, 2)}
    if model != "ring_allreduce" and rng.random() < 0.8:
        variant["ps_demand"] = demand(0.3)
    return variant


def _job(rng: random.Random, palette: Palette, index: int, resources: list[str], most: int) -> dict[str, Any]:
    names = ["a", "b"][: rng.choice([1, 1, 2])]
    job: dict[str, Any] = {
        "name": f"job-{index}",
        "remaining_steps": palette.draw("steps"),
        "variants": [_variant(rng, palette, name, resources, most) for name in names],
    }
    if rng.random() < 0.5:
        job["weight"] = rng.choice([0, 1, palette.draw("weight")])
    if rng.random() < 0.3:
        job["stage"] = rng.choice(["beginning", "running"])
    if rng.random() < 0.3:
        job["restart_s"] = palette.draw("restart")
    rows = [{r: 1} for r in resources]
    choices = list(possible_configurations(job, rows))
    if rng.random() < 0.3:
        variant, ps, workers = rng.choice(choices).key or ("a", 0, 1)
        job["current"] = {"variant": variant, "ps": ps, "workers": workers}
    times = [float(choice.time_s) for choice in choices]
    if rng.random() < 0.2:
        job["deadline_s"] = _clipped(palette.near(rng.choice(times)))
    if rng.random() < 0.3:
        chosen = rng.choice([palette.draw("unplaced"), palette.near(rng.choice(times)), 0])
        job |= {"optional": True, "unplaced_s": min(chosen, 1e15)}
    return job


def _clipped(amount: float) -> float:
    return min(max(amount, 1e-12), 1e15)


def _taken(rng: random.Random, job: dict[str, Any], resources: list[str]) -> list[float]:
    """Return what a random configuration of a job takes, added up as a user would."""
    rows = [{r: 1} for r in resources]
    choices = list(possible_configurations({**job, "deadline_s": None}, rows))
    return [float(amount) for amount in rng.choice(choices).takes]


def document(rng: random.Random) -> dict[str, Any]:
    """Return a random allocation document."""
    palette = Palette(rng)
    resources = ["gpu", "cpu", "memory_gib"][: rng.randint(1, 3)]
    count = rng.choice([1, 2, 2, 3, 3, 4])
    most = {1: 4, 2: 4, 3: 3, 4: 2}[count]
    jobs = [_job(rng, palette, index, resources, most) for index in range(count)]
    taken = [_taken(rng, job, resources) for job in jobs]
    capacity = {
        r: min(palette.near(sum(column)) if sum(column) else palette.draw(f"demand {r}"), 1e15)
        for r, column in zip(resources, zip(*taken, strict=True), strict=True)
    }
    data: dict[str, Any] = {
        "schema_version": 1,
        "kind": "allocation",
        "name": "random",
        "resources": capacity,
        "jobs": jobs,
    }
    if rng.random() < 0.6:
        data["objective"] = rng.choice(["total_completion_time", "makespan"])
    if rng.random() < 0.3:
        prices = {r: palette.draw("price") for r in resources}
        spent = sum(prices[r] * amount for row in taken for r, amount in zip(resources, row, strict=True))
        data["prices_usd_per_hour"] = prices
        if rng.random() < 0.8:
            data["budget_usd_per_hour"] = min(palette.near(spent), 1e15)
    return data
