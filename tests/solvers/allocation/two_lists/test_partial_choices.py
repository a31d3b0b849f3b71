"""The enumeration of partial choices against all subsets."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from clusterplan.solvers.allocation.two_lists.partial_choices import (
    Half,
    PartialChoices,
    nearest_choices,
    sample_uses,
)


def random_half(seed: int) -> Half:
    """Return nine items of up to five jobs, which take some of three limits."""
    rng = np.random.default_rng(seed)
    reduced = np.sort(rng.integers(0, 8, 9)).astype(float)
    return Half(np.arange(100, 109), rng.integers(0, 5, 9), reduced, rng.normal(size=(9, 3)))


def all_within(half: Half, most: float) -> set[tuple[int, ...]]:
    """Return the sets of places of different jobs whose reduced costs add up to at most this."""
    sizes = range(len(half.items) + 1)
    places = itertools.chain.from_iterable(itertools.combinations(range(len(half.items)), n) for n in sizes)
    return {
        s
        for s in places
        if len(set(half.owner[list(s)])) == len(s) and math.fsum(half.reduced[list(s)]) <= most
    }


def places_of(listed: PartialChoices) -> list[tuple[int, ...]]:
    """Return the places of each partial choice, in order."""
    return [tuple(sorted(row[row >= 0].tolist())) for row in listed.chosen]


@pytest.mark.parametrize("seed", range(8))
def test_every_partial_choice_within_a_reduced_cost_is_listed_once(seed: int) -> None:
    """The list holds what enumeration finds, with sums and uses."""
    half = random_half(seed)
    listed = nearest_choices(half, 10.0, np.zeros(3), np.ones(3), 1000)
    found = places_of(listed)
    assert listed.complete
    assert len(found) == len(set(found))
    assert set(found) == all_within(half, 10.0)
    for row, chosen in enumerate(found):
        assert listed.reduced[row] == pytest.approx(half.reduced[list(chosen)].sum())
        assert listed.use[row] == pytest.approx(half.beyond[list(chosen)].sum(axis=0))


@pytest.mark.parametrize("seed", range(8))
def test_a_list_that_is_too_short_holds_the_nearest(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is no nearer to the point than what is held; a limit counts by its price."""
    half, point, prices = random_half(seed), np.array([1.0, -1.0, 0.5]), np.array([2.0, 1.0, 0.0])
    whole = nearest_choices(half, 12.0, point, prices, 1000)
    module = "clusterplan.solvers.allocation.two_lists.partial_choices"
    settings = type("Settings", (), {"longest": len(whole.reduced) // 3})
    monkeypatch.setattr(f"{module}.SETTINGS", settings)
    short = nearest_choices(half, 12.0, point, prices, 1000)
    assert not short.complete
    assert 0 < len(short.reduced) <= settings.longest
    distance = {
        chosen: float((((use - point) * prices) ** 2).sum())
        for chosen, use in zip(places_of(whole), whole.use, strict=True)
    }
    held = places_of(short)
    left_out = [far for chosen, far in distance.items() if chosen not in held]
    assert max(distance[chosen] for chosen in held) <= min(left_out) + 1e-12


def test_the_sample_tells_how_many_there_are() -> None:
    """Up to the gap where there are few; else a reduced cost up to which there are about as many as asked."""
    few = random_half(1)
    assert sample_uses(few, 5.0, 4096)[0] == 5.0
    rng = np.random.default_rng(0)
    many = Half(np.arange(300), np.arange(300), np.sort(rng.random(300)), rng.normal(size=(300, 2)))
    for size in (4096, 60_000):
        most, use = sample_uses(many, 100.0, size)
        count = len(nearest_choices(many, most, np.zeros(2), np.ones(2), 4 * size).reduced)
        assert size / 3 < count < 3 * size
        assert use.shape == (use.shape[0], 2)
        assert 2000 < len(use) <= 4096
