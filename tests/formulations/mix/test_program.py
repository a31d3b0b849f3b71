"""The integer programme of a mix: exact figures, limits of counts, replicas that others replace."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from clusterplan.formulations.common.objective import whole_numbers
from clusterplan.formulations.mix.program import better_in_second, program_of, with_totals
from clusterplan.instances.mix.generate import generate_mix
from clusterplan.instances.mix.kind import Mix


def test_whole_numbers_are_exact() -> None:
    """Whatever the floats, and beyond 64 bits."""
    figures = [0.1, 1e12, 2.0**-70, Fraction(1, 3)]
    wholes, unit = whole_numbers(figures)
    assert [Fraction(whole, unit) for whole in wholes] == [Fraction(each) for each in figures]


@pytest.mark.parametrize("sharing", [False, True])
def test_bounds_in_floats_and_in_whole_numbers_agree(sharing: bool) -> None:
    """At any prices, and over some of the configurations."""
    exact = program_of(generate_mix(4, 2, 30, sharing=sharing, seed=3))
    floats, rng = exact.as_floats(), np.random.default_rng(1)
    for _ in range(10):
        prices = rng.uniform(0, 3, len(exact.rows) + len(exact.demand)).round(3)
        kept = rng.random(len(exact.cost)) < 0.7
        wholes, unit = whole_numbers(prices.tolist())
        some, same = exact.of(kept), floats.of(kept)
        bound = Fraction(some.bound(wholes, 0 * some.most, some.most, unit), unit * exact.unit)
        assert same.bound(prices, 0 * same.most, same.most) == pytest.approx(float(bound), rel=1e-9)


def test_totals_are_the_devices_of_copies() -> None:
    """Every plan keeps their rows with them, and none with one more or less; of jobs there are none."""
    program = program_of(generate_mix(3, 2, 12, seed=1))
    kept = np.arange(len(program.most)) % 3 > 0
    wider = with_totals(program.of(kept)).as_floats()
    first, counts = len(program.rows), np.arange(kept.sum()) % 4
    totals = program.devices[:, kept] @ counts
    for change in (-1, 0, 1):
        y = np.append(counts, totals + change)
        rows = np.zeros(len(wider.rows))
        np.add.at(rows, wider.weights.column, wider.weights.value * y[wider.weights.configuration])
        assert (rows[first:] <= wider.limits[first:]).all() == (change == 0)
    assert wider.most[kept.sum() :].tolist() == (program.devices[:, kept] @ program.most[kept]).tolist()


@pytest.mark.parametrize(("models", "width", "totals"), [(64, 10_000, 64), (65, 1, 0), (1, 10_001, 0)])
def test_few_models_and_narrow_replicas_have_totals(models: int, width: int, totals: int) -> None:
    """Each takes rows and prices, and large coefficients lose proofs; of jobs there are none."""
    built = Mix().add_requests("a", 3)
    for number in range(models):
        built.add_hardware(f"g{number}", 1.0).add_replica(f"g{number}", {"a": 1.0}, devices=width)
    for program, count in ((program_of(built.build()), totals), (program_of(generate_mix(sharing=True)), 0)):
        wider = with_totals(program)
        assert len(wider.cost) - len(program.cost) == len(program.devices) == count
        assert len(wider.rows) - len(program.rows) == 2 * count


def test_replicas_that_others_replace_have_no_copies() -> None:
    """As fast for all types on no more devices of the model; of equal ones the first stays."""
    built = Mix().add_requests("a", 3).add_requests("b", 1).add_hardware("g", 2).add_hardware("h", 1)
    built.add_replica("g", {"a": 2, "b": 4}, name="first").add_replica("g", {"a": 2, "b": 4}, name="equal")
    built.add_replica("g", {"a": 2}, name="less").add_replica("g", {"a": 2.5}, devices=2, name="wider")
    built.add_replica("g", {"a": 1, "b": 1}, devices=2, name="slow").add_replica("h", {"a": 1}, name="other")
    assert program_of(built.build()).most.tolist() == [3, 0, 0, 2, 0, 3]


def test_counts_follow_from_limits_and_jobs() -> None:
    """Devices of the model and of all, and jobs of each type."""
    built = Mix(devices=5, least_progress=0.5).add_jobs("a", 7).add_jobs("b", 2).add_hardware("g", limit=9)
    built.add_group("g", {"a": 1.0}).add_group("g", {"a": 0.6}, jobs={"a": 3}).add_group("g", {"b": 1.0})
    built.add_group("g", {"a": 0.9}, devices=2, name="wide").add_group("g", {"a": 0.4, "b": 0.9})
    assert program_of(built.build()).most.tolist() == [5, 2, 2, 2, 0]


def test_counts_follow_from_the_budget() -> None:
    """With the tolerance of the check: three at 0.1 USD for 0.3."""
    built = Mix(budget_usd_per_hour=0.3).add_requests("a", 9).add_hardware("g", 0.1).add_hardware("free", 0)
    built.add_replica("g", {"a": 1}).add_replica("g", {"a": 3}, devices=2).add_replica("free", {"a": 1})
    assert program_of(built.build()).most.tolist() == [3, 1, 9]


def test_better_plans_in_the_second_objective() -> None:
    """One device fewer; or a larger least progress, by as little as there is."""
    serving = better_in_second(generate_mix(2, 2, 5), 7.0)
    sharing = better_in_second(generate_mix(2, 2, sharing=True), 0.5)
    assert serving.devices == 6
    assert sharing.least_progress == pytest.approx(0.5)
    assert sharing.least_progress > 0.5
