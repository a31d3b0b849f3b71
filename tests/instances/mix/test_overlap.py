"""Groups of jobs that interleave: their periods are those of linear programmes, and as published."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from sample_documents import refused
from scipy.optimize import linprog

from clusterplan.instances.documents import parse_instance
from clusterplan.instances.mix.instance import MixInstance
from clusterplan.instances.mix.kind import Mix
from clusterplan.instances.mix.overlap import periods

DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "kind": "mix",
    "name": "groups",
    "share_up_to": 4,
    "types": [
        {"name": "sim", "count": 3, "resource_s": {"storage+cpu": 0.446, "gpu": 0.008}},
        {"name": "gpt", "count": 1, "resource_s": {"storage+cpu": 0.001, "gpu": 0.41}, "step_s": 0.43},
        {"name": "wide", "count": 9, "devices": 2, "resource_s": {"storage+cpu": 0, "gpu": 1}},
    ],
    "hardware": [{"name": "old", "limit": 2}, {"name": "new", "limit": 2}],
}


def least_period(seconds: np.ndarray[Any, Any], phases: list[int]) -> float:
    """Return the least period by linear programmes over the ends of phases, one for each choice of starts."""
    count = sum(phases)
    first = np.cumsum([0, *phases[:-1]])

    def later(start: int, end: int) -> list[float]:
        """Return the row of f_start − f_end, over f_0 to f_{P−1} and T."""
        row = [0.0] * (count + 1)
        for phase, sign in ((start, 1), (end, -1)):
            row[phase % count] += sign
            row[count] += sign * (phase // count)
        return row

    periods_s = []
    for starts in permutations(range(count), len(seconds)):
        rows, most = [], []
        for start, times in zip(starts, seconds, strict=True):
            step = min((each - start - 1) % count + 1 for each in starts)
            for at, length, time_s in zip(first + start, phases, times, strict=True):
                rows.append(later(at, at + length))
                most.append(-time_s)
                orders = [(at + length, at + step)] if step > length else [(at, at + step)]
                orders += [(at + length, at + length + step)]
                rows += [later(*order) for order in orders]
                most += [0] * len(orders)
        found = linprog([0] * count + [1], rows, most, bounds=[(None, None)] * count + [(0, None)])
        periods_s.append(found.fun)
    return float(min(periods_s))


@pytest.mark.parametrize("phases", [[1], [1, 1], [1, 1, 1], [2, 1], [2, 1, 1], [1, 2, 1], [2, 2], [3, 1]])
def test_a_period_is_the_shortest_of_all_that_fit_the_stages(phases: list[int]) -> None:
    """Whatever the order of the resources of which only the sum is known, and for every number of jobs."""
    rng = np.random.default_rng(sum(phases))
    for members in range(1, sum(phases) + 1):
        seconds = rng.choice([0, 1, 1, 2, 5, rng.uniform(0, 9)], (3, members, len(phases)))
        found = periods(seconds, phases)
        assert found == pytest.approx([least_period(group, phases) for group in seconds])


def test_the_published_formula() -> None:
    """Of two jobs with a GPU and a CPU: the longer of what runs at once, twice; or with a gap between."""
    assert periods(np.array([[[3.0, 5.0], [4.0, 2.0]]]), [1, 1]) == [8]
    assert periods(np.array([[[446, 8, 0], [0.6, 410, 0]]]), [2, 1, 1]) == pytest.approx([454])
    assert periods(np.array([[[0.5, 166, 133]] * 2]), [2, 1, 1]) == pytest.approx([332.5])


def test_groups_of_a_document() -> None:
    """Of equally many devices, not more of a type than there are; alone a job makes all its progress."""
    instance = parse_instance(DOCUMENT)
    assert isinstance(instance, MixInstance)
    old = {one.name.removesuffix(" on old"): one for one in instance.configurations if one.hardware == "old"}
    assert len(instance.configurations) == 2 * len(old)
    assert set(old) == {
        *("sim", "2 × sim", "3 × sim", "gpt", "sim + gpt", "2 × sim + gpt"),
        *("wide on 2 old", "2 × wide on 2 old", "3 × wide on 2 old"),
    }
    assert old["gpt"].progress == {"gpt": 1}
    assert old["sim + gpt"].progress == {"sim": 1, "gpt": pytest.approx(0.43 / 0.454)}
    assert old["3 × wide on 2 old"].progress == {"wide": pytest.approx(1 / 3)}
    assert old["3 × wide on 2 old"].devices == 2
    slower = parse_instance({**DOCUMENT, "overhead": {2: 1.5}})
    assert isinstance(slower, MixInstance)
    assert slower.configurations[6].progress == {"sim": pytest.approx(1 / 1.5)}


def test_given_configurations_stay() -> None:
    """Groups are made where none are given, for the builder too; and a saved instance keeps its own."""
    instance = parse_instance(DOCUMENT)
    assert parse_instance(instance.document()) == instance
    assert MixInstance(**{key: value for key, value in DOCUMENT.items() if key != "kind"}) == instance
    built = (
        Mix("built", share_up_to=2)
        .add_jobs("a", 2, resource_s={"gpu": 1, "cpu": 2})
        .add_hardware("g", limit=1)
    )
    assert [one.name for one in built.build().configurations] == ["a on g", "2 × a on g"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["types"][1].pop("resource_s"), "doc: types[1].resource_s: has no seconds"),
        (
            lambda d: d["types"][1].update(resource_s={"gpu": 1}),
            "types[1].resource_s: has other resources than",
        ),
        (lambda d: d["types"][1].update(resource_s={"gpu": 0}), "types[1].resource_s: has no seconds"),
        (
            lambda d: d.update(types=[{"name": "a", "count": 1, "resource_s": {"+" * 6: 1}}]),
            "more than 6 resources",
        ),
        (lambda d: d.update(share_up_to=5), "doc: share_up_to: is 5, but must be at most 4"),
        (lambda d: d.pop("share_up_to"), "doc: configurations: is missing; say what may run together"),
        (lambda d: d.update(types=3), "doc: types: is 3, which is not a list"),
        (
            lambda d: d.update(
                types=[
                    {"name": f"t{i}", "count": 4, "resource_s": dict.fromkeys("abcd", 1)} for i in range(60)
                ]
            ),
            "doc: share_up_to: makes more than 100,000 groups",
        ),
    ],
)
def test_what_no_groups_can_be_made_of(change: Callable[[dict[str, Any]], Any], says: str) -> None:
    """Is one fault, with its place."""
    document = copy.deepcopy(DOCUMENT)
    document["types"] = document["types"][:2]
    change(document)
    with refused(says):
        parse_instance(document, "doc")
