"""Splits of jobs over servers: times, bounds, prices of pieces, tables of methods and check, violations."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from allocation_instances import ring
from joint_brute_force import best_options, best_plan, naive_value, optimum, options, plan_of, random_joint

from clusterplan.formulations.allocation.certificate import PriceCertificate, certificate_of
from clusterplan.formulations.allocation.check import configurations as check
from clusterplan.formulations.allocation.check.configurations import CheckedConfigurations
from clusterplan.formulations.allocation.check.splits import PlacedDerivation, cheapest_pieces, splits_of
from clusterplan.formulations.allocation.configurations import Configurations
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.formulations.allocation.placed_configurations import placed_configurations
from clusterplan.formulations.allocation.plan import JobAllocation
from clusterplan.formulations.allocation.splits import STAYS, Servers, remote_tasks
from clusterplan.formulations.common import compiled
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.errors import TooLargeError

SEEDS = 300
BLOCKS = pytest.mark.parametrize("seeds", [range(low, low + 30) for low in range(0, SEEDS, 30)], ids=str)
WITHIN = 1 + 1e-9

Pieces = dict[str, list[float]]


@cache
def made(seed: int) -> AllocationFormulation:
    """Return a random instance with its tables."""
    return AllocationFormulation(random_joint(seed))


@cache
def least(seed: int) -> float | None:
    """Return the optimum of a random instance by brute force."""
    return optimum(random_joint(seed))


def random_pieces(rng: random.Random, formulation: AllocationFormulation) -> Pieces:
    """Return prices of pieces of some resources, rising or not."""
    assert formulation.servers is not None
    return {
        name: [rng.choice([0, 1, 100 * rng.random()]) for _ in range(rng.randint(1, 5))]
        for name in formulation.servers.resources
        if rng.random() < 0.8
    }


def random_certificate(rng: random.Random, seed: int) -> dict[str, Any]:
    """Return prices of resources and pieces, and a cutoff near the optimum."""
    formulation, best = made(seed), least(seed)
    resources = formulation.checked.resources
    prices = np.array([rng.choice([0, 100 * rng.random()]) for _ in resources])
    cutoff = None if best is None else best * rng.choice([0.9, 1 - 1e-6, 1 + 1e-6, 1.1, 2])
    pieces = rng.choice([None, random_pieces(rng, formulation)])
    return certificate_of(resources, prices, rng.choice([None, cutoff]), pieces)


@BLOCKS
def test_plans_count_with_the_times_of_the_definition(seeds: range) -> None:
    """Random plans of random instances: in the objective and in each entry; the best has no violation."""
    for seed in seeds:
        formulation, rng = made(seed), random.Random(seed)
        instance = formulation.instance
        each = [options(instance, job) for job in instance.jobs]
        for _ in range(20 * all(each)):
            chosen = [rng.choice(own) for own in each]
            plan, times = plan_of(instance, chosen), [option.time_s for option in chosen]
            assert formulation.evaluate(plan)[0] == pytest.approx(naive_value(instance, times), rel=1e-12)
            stated = [entry.completion_s for entry in formulation.finish(plan)]
            assert stated == pytest.approx(times, rel=1e-12)
        best = best_plan(instance)
        assert best is None or formulation.violations(formulation.finish(best)) == []


@BLOCKS
def test_no_certificate_proves_more_than_the_optimum(seeds: range) -> None:
    """Nor does the elementary bound; a wrong claim that there is no plan is not proven."""
    for seed in seeds:
        rng, best = random.Random(seed), least(seed)
        if best is None:
            continue
        elementary = made(seed).elementary_bounds()[0]
        assert elementary is not None
        assert elementary <= best * WITHIN
        for _ in range(5):
            bound = made(seed).certified_bounds(random_certificate(rng, seed))[0]
            assert bound is not None
            assert elementary <= bound <= best * WITHIN


def mutated(rng: random.Random, certificate: dict[str, Any]) -> dict[str, Any]:
    """Return a certificate with one figure or part changed."""
    pieces = {name: list(listed) for name, listed in (certificate.get("pieces") or {}).items()}
    prices = dict(certificate["prices"])
    name = rng.choice([*prices])
    what = rng.randrange(6)
    if what == 0:
        prices[name] *= rng.choice([0, 0.5, 2, 1e6])
    elif what == 1 and pieces:
        listed = pieces[rng.choice([*pieces])]
        listed[rng.randrange(len(listed))] = rng.choice([0.0, 1e-3, 1e3, 1e100])
    elif what == 2:
        pieces[rng.choice([name, "nothing"])] = [rng.random() for _ in range(rng.randint(0, 9))]
    elif what == 3:
        pieces = {}
    elif what == 4:
        return {**certificate, "cutoff": rng.choice([None, 1e9, -1.0, (certificate["cutoff"] or 1) * 1.01])}
    else:
        return {
            **certificate,
            rng.choice(["prices", "pieces"]): rng.choice([None, [], {"gpu": -1}, {"gpu": [-1]}]),
        }
    return {**certificate, "prices": prices, "pieces": pieces}


@pytest.mark.parametrize("block", range(10))
def test_a_certificate_that_was_tampered_with_proves_nothing_false(block: int) -> None:
    """A thousand changes, one upon the other."""
    rng = random.Random(block)
    seeds = [seed for seed in range(SEEDS) if least(seed) is not None]
    for _ in range(20):
        seed = rng.choice(seeds)
        certificate, best = random_certificate(rng, seed), least(seed)
        for _ in range(5):
            changed = mutated(rng, certificate)
            bound = made(seed).certified_bounds(changed)[0]
            assert best is not None
            assert bound is not None
            assert bound <= best * WITHIN
            certificate = changed if made(seed).certificate_fault(changed) is None else certificate


def same_tables(configs: Configurations, derived: CheckedConfigurations) -> None:
    """Require that both have the same rows in the same order."""
    assert configs.start.tolist() == derived.start.tolist()
    assert configs.resources == derived.resources
    np.testing.assert_allclose(configs.time_s, derived.time_s, rtol=1e-12)
    np.testing.assert_allclose(configs.demand, derived.demand, rtol=1e-12)
    np.testing.assert_allclose(configs.limit, derived.limit, rtol=1e-12)


def tables(
    formulation: AllocationFormulation, pieces: Pieces
) -> tuple[Configurations, CheckedConfigurations]:
    """Return the tables of the methods and of the check."""
    assert formulation.servers is not None
    instance, table = formulation.instance, formulation.table
    configs = placed_configurations(instance, table, formulation.servers, pieces)
    return configs, check.checked_configurations(PlacedDerivation(instance, table, pieces), configs)


@BLOCKS
def test_the_check_derives_the_table_of_the_methods(seeds: range) -> None:
    """With and without prices of pieces, which are rounded so that no order of summands matters."""
    for seed in seeds:
        formulation = made(seed)
        pieces = random_pieces(random.Random(seed), formulation)
        exact = PriceCertificate.model_validate(certificate_of((), np.zeros(0), None, pieces)).pieces
        assert exact is not None
        same_tables(*tables(formulation, {}))
        same_tables(*tables(formulation, {name: list(listed) for name, listed in exact.items()}))


def joint(servers: list[dict[str, Any]], *variants: dict[str, Any], **fields: Any) -> AllocationFormulation:
    """Return an instance with one job for each variant; `fields` are those of its first job."""
    jobs = [{"name": f"j{i}", "remaining_steps": 1, "variants": [own]} for i, own in enumerate(variants)]
    jobs[0] |= fields
    data = {"name": "few", "servers": servers, "jobs": jobs}
    return AllocationFormulation(AllocationInstance.model_validate(data))


def gpus(*amounts: float) -> list[dict[str, Any]]:
    """Return servers a, b, … with so many GPUs each."""
    return [{"name": name, "capacity": {"gpu": each}} for name, each in zip("abcdef", amounts, strict=False)]


def sync(theta: list[float], ps: tuple[int, int], workers: tuple[int, int], **fields: Any) -> dict[str, Any]:
    """Return a variant whose parameter servers take no GPU."""
    ends = {key: {"min": low, "max": high} for key, (low, high) in (("ps", ps), ("workers", workers))}
    speed = {"model": "ps_sync", "theta": theta, "batch": 1}
    return {"name": "v", "worker_demand": {"gpu": 1}, **ends, "speed": speed, **fields}


def measured(*rows: tuple[int, int, int | None], **fields: Any) -> dict[str, Any]:
    """Return a variant with measurements at (p, w, servers), with as many steps/s as workers."""
    listed = [
        {"ps": p, "workers": w, "steps_per_s": w} | ({} if k is None else {"servers": k}) for p, w, k in rows
    ]
    return {"name": "v", "worker_demand": {"gpu": 1}, "speed": {"model": "table", "rows": listed}, **fields}


def entry(job: str = "j0", **tasks: tuple[int, int]) -> JobAllocation:
    """Return the entry of a job with (p, w) on each named server."""
    ps, workers = (sum(each) for each in zip(*tasks.values(), strict=True))
    placement = {name: {"ps": x, "workers": y} for name, (x, y) in tasks.items()}
    return JobAllocation.model_validate(
        {"job": job, "variant": "v", "ps": ps, "workers": workers, "placement": placement}
    )


def test_fewest_servers_and_equal_pieces_are_no_bound() -> None:
    """Of 2 parameter servers and 6 workers, (2, 4) and (0, 2) have T = 2, equal pieces T = 3."""
    assert remote_tasks(np.array([2, 0]), np.array([4, 2])) == 2
    assert remote_tasks(np.array([1, 1]), np.array([3, 3])) == 3
    formulation = joint(gpus(4, 4), sync([0, 0, 2, 0, 0], (2, 2), (6, 6)))
    assert formulation.configurations.time_s.tolist() == [2.0]
    assert formulation.checked.time_s.tolist() == [2.0]
    assert formulation.evaluate([entry(a=(2, 4), b=(0, 2))]) == (2.0,)
    assert formulation.evaluate([entry(a=(1, 3), b=(1, 3))]) == (3.0,)
    assert optimum(formulation.instance) == 2.0


@pytest.mark.parametrize("model", ["ring", "measured", "share 0"])
def test_where_servers_do_not_matter_one_large_server_is_as_good(model: str) -> None:
    """Tasks of one GPU: the pooled optimum is that of one server with all GPUs, and that of three."""
    rng = random.Random(7)
    for _ in range(4):
        variants = [
            {
                "ring": ring({"gpu": 1}, [rng.randint(1, 9), 1, 0, 0], 3),
                "measured": measured(*((0, w, None) for w in (1, 2, 3))),
                "share 0": sync([rng.randint(1, 9), 1, 1, 0, 0], (1, 2), (1, 3)),
            }[model]
            for _ in range(3)
        ]
        found = []
        for servers in (gpus(2, 2, 1), gpus(5)):
            formulation = joint(servers, *variants)
            instance = formulation.instance.model_copy(update={"network_share": 0.0})
            found.append(optimum(instance))
        pooled = joint(gpus(5), *variants).instance.document() | {"resources": {"gpu": 5}}
        del pooled["servers"]
        pool = AllocationFormulation(AllocationInstance.model_validate(pooled))
        configs = pool.configurations
        values = [
            sum(configs.time_s[k] for k in chosen)
            for chosen in np.ndindex(*configs.counts)
            for chosen in [configs.start[:-1] + chosen]
            if configs.demand[chosen].sum() <= 5
        ]
        assert found == pytest.approx([min(values)] * 2, rel=1e-12)


def test_prices_of_pieces_see_what_packs_badly() -> None:
    """Of four workers of 3 GPUs, three servers of 4 hold three: pooled GPUs do not show it."""
    variant = ring({"gpu": 3}, [10, 0, 0, 0])
    formulation = joint(gpus(4, 4, 4), *[variant] * 4)
    data = formulation.instance.document()
    for job in data["jobs"]:
        job |= {"optional": True, "unplaced_s": 100}
    formulation = AllocationFormulation(AllocationInstance.model_validate(data))
    assert optimum(formulation.instance) == 130
    prices = np.array([0.0])
    assert formulation.certified_bounds(certificate_of(("gpu",), prices, 130.0))[0] == 40
    priced = certificate_of(("gpu",), prices, 130.0, {"gpu": [0, 0, 90]})
    bound = formulation.certified_bounds(priced)[0]
    assert bound == pytest.approx(130, rel=1e-8)
    assert formulation.prices(priced, []) is None


def test_the_price_of_pieces_is_that_of_a_split() -> None:
    """Each T that makes the pieces cheaper has a row; a piece below a unit costs nothing."""
    variant = sync([0, 0, 1, 0, 0], (1, 1), (3, 3), ps_demand={"gpu": 0.5})
    configs, derived = tables(joint(gpus(3.5), variant), {"gpu": [1, 1, 9]})
    same_tables(configs, derived)
    # T = 0: one piece of 3.5 GPUs; T = 1: 2.5 with the parameter server, and 1; no other split is cheaper.
    assert derived.time_s.tolist() == [0.0, 1.0]
    assert derived.demand[:, -1].tolist() == [9.0, 2.0]
    assert derived.capacity.tolist() == [3.5, 9.0]


def most_by_brute_force(prices: list[float], units: int) -> float:
    """Return the highest total price of pieces in so many units."""
    sizes = [(size, prices[min(size, len(prices)) - 1]) for size in range(1, units + 1)]
    return max([price + most_by_brute_force(prices, units - size) for size, price in sizes] or [0.0])


def test_what_servers_can_earn() -> None:
    """Every packing of small servers; of very large ones pieces have no prices, as a table of units has."""
    rng = random.Random(3)
    for _ in range(40):
        prices = [rng.random() for _ in range(rng.randint(1, 4))]
        amounts = [rng.choice([0, 1, 2.5, 5, 7]) for _ in range(3)]
        formulation = joint(gpus(*amounts), measured((0, 1, None)))
        configs, derived = tables(formulation, {"gpu": prices})
        expected = sum(most_by_brute_force(prices, int(amount)) for amount in amounts)
        assert configs.capacity[-1] == pytest.approx(expected, rel=1e-12)
        assert derived.capacity[-1] == pytest.approx(expected, rel=1e-8)
    large = joint(gpus(1e12), measured((0, 1, None)))
    certificate = certificate_of(("gpu",), np.array([0.0]), None, {"gpu": [1.0, 3.0]})
    assert "more than 10,000 units" in str(large.certificate_fault(certificate))
    assert large.certified_bounds(certificate) == large.elementary_bounds()


def test_loops_of_the_check_find_the_same_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As interpreted, and as the loops of the methods do, for the splits of up to 5 and 9 tasks."""
    variant = sync([1, 1, 1, 0.1, 0.1], (1, 5), (1, 9), ps_demand={"gpu": 0.5})
    formulation, pieces = joint(gpus(4, 4, 3), variant), {"gpu": [1.0, 1.5, 3.0]}
    with compiled.interpreted():
        expected = [tables(formulation, prices)[1] for prices in ({}, pieces)]
    monkeypatch.setattr(compiled, "MAX_INTERPRETED_S", 0)
    found = [tables(formulation, prices) for prices in ({}, pieces)]
    assert compiled.is_compiled(cheapest_pieces)
    assert compiled.is_compiled(splits_of)
    for (configs, derived), interpreted in zip(found, expected, strict=True):
        same_tables(configs, derived)
        assert derived.time_s.tolist() == interpreted.time_s.tolist()
        assert derived.demand.tolist() == interpreted.demand.tolist()


def test_times_are_sums_without_cancellation() -> None:
    """Beside a million seconds that a split saves, the nanoseconds that remain are right."""
    formulation = joint(gpus(4), sync([1e-9, 0, 1e6, 0, 0], (3, 3), (3, 3)))
    plan = [entry(a=(3, 3))]
    assert formulation.evaluate(plan)[0] == pytest.approx(1e-9 / 3, rel=1e-12)
    same_tables(*tables(formulation, {}))
    assert formulation.checked.time_s.tolist() == pytest.approx([1e-9 / 3], rel=1e-12)


CURRENT = {"variant": "v", "ps": 1, "workers": 2, "placement": {"a": {"ps": 1}, "b": {"workers": 2}}}


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        ({}, True),
        ({"placement": {"a": {"ps": 1}, "b": {"workers": 2}, "c": {}}}, True),
        ({"workers": 4, "placement": {"a": {"ps": 1, "workers": 2}, "b": {"workers": 2}}}, False),
        ({"workers": 3, "placement": {"a": {"ps": 1}, "b": {"workers": 2}, "c": {"workers": 1}}}, False),
        ({"placement": {"a": {"ps": 1}, "c": {"workers": 2}}}, False),
    ],
    ids=["as it is", "idle server", "out of range", "full server", "drained server"],
)
def test_staying_is_a_configuration_where_it_is_allowed(change: dict[str, Any], stays: bool) -> None:
    """Without the restart, and only if the range allows it and its servers hold it."""
    servers = [*gpus(2, 2), {"name": "c", "capacity": {"gpu": 2}, "free": {"gpu": 0}}]
    variant = sync([0, 1, 1, 0, 0], (1, 1), (1, 3))
    formulation = joint(servers, variant, current=CURRENT | change, restart_s=50)
    configs, derived = tables(formulation, {})
    same_tables(configs, derived)
    assert configs.split is not None
    assert (STAYS in configs.split) == stays
    assert (derived.time_s < 50).any() == stays


def test_where_it_is_not_known_the_same_tasks_stay_anywhere() -> None:
    """A restart is for other numbers of tasks."""
    current = {key: CURRENT[key] for key in ("variant", "ps", "workers")}
    formulation = joint(gpus(2, 2), sync([0, 1, 1, 0, 0], (1, 1), (1, 3)), current=current, restart_s=50)
    assert formulation.checked.time_s.tolist() == [51.0, 1.0, 52.0]
    assert formulation.evaluate([entry(a=(1, 1), b=(0, 1))]) == (2.0,)


@pytest.mark.parametrize(
    ("change", "constraint", "words"),
    [
        ({"placement": {"x": {"workers": 3}}}, "server", "job 'j0' is on 'x', which is not in the instance"),
        ({"placement": {"a": {"workers": 3}}}, "gpu of server a", "takes 3, 1 more than the 2 there are"),
        ({"workers": 2}, "placement", "job 'j0' has 2 workers, but 3 on servers"),
        ({"ps": 1}, "placement", "job 'j0' has 1 ps, but 0 on servers"),
        ({"placement": {"a": {"workers": 2}, "b": {"workers": 1}, "c": {}}}, "placement", "no task"),
        ({"placement": {f: {"workers": 1} for f in "abc"}}, "configuration", "workers=3 on 3 servers"),
        ({"placement": None}, "placement", "job 'j0' has 3 workers, but 0 on servers"),
        ({"placed": False, "variant": None}, "placement", "job 'j0' is not placed, but has tasks"),
    ],
)
def test_violations_of_placements_are_named(change: dict[str, Any], constraint: str, words: str) -> None:
    """Three workers on two servers, as they were measured, are right; each change of the plan is not."""
    formulation = joint(gpus(2, 2, 2), measured((0, 3, 2)))
    right = {
        "job": "j0",
        "variant": "v",
        "workers": 3,
        "placement": {"a": {"workers": 2}, "b": {"workers": 1}},
    }
    assert formulation.violations([JobAllocation.model_validate(right)]) == []
    found = formulation.violations([JobAllocation.model_validate(right | change)])
    assert any(one.constraint == constraint and words in one.what for one in found), found


def test_a_pooled_instance_has_no_placements() -> None:
    """A plan that names servers is refused, and prices of pieces are."""
    document = joint(gpus(4), measured((0, 1, None))).instance.document() | {"resources": {"gpu": 4}}
    del document["servers"]
    pooled = AllocationFormulation(AllocationInstance.model_validate(document))
    assert [one.constraint for one in pooled.violations([entry(a=(0, 1))])] == ["placement"]
    certificate = {"prices": {"gpu": 1.0}, "pieces": {"gpu": [1.0]}}
    assert str(pooled.certificate_fault(certificate)).startswith("pieces: the instance has no servers")
    assert pooled.certified_bounds(certificate) == pooled.certified_bounds({"prices": {"gpu": 1.0}})


@pytest.mark.parametrize(
    ("variant", "fields", "words"),
    [
        (ring({"gpu": 8}, [1, 0, 0, 0]), {}, "a worker needs 8 gpu; the largest server, 'b', has 4"),
        (
            ring({"gpu": 4, "cpu": 9}, [1, 0, 0, 0]),
            {},
            "a worker needs 4 gpu, 9 cpu; no server has all of it",
        ),
        (sync([1] * 5, (1, 1), (1, 1), ps_demand={"cpu": 99}), {}, "a parameter server needs 99 cpu; the"),
        (
            measured((0, 6, 1)),
            {},
            "6 workers were measured with servers=1, one of which needs 6 gpu; the largest",
        ),
        (
            measured((0, 6, 5)),
            {},
            "6 workers were measured with servers=5; on the 3 here they do not fit like",
        ),
        (measured((0, 60, None)), {}, "needs at least 60 gpu, 52 more than the 8 there are"),
        (ring({"gpu": 1}, [8, 1, 0, 0], 2), {"deadline_s": 2}, "takes at least 5 s on these servers; its"),
        (ring({"gpu": 1}, [8, 1, 0, 0], 2), {"deadline_s": 5}, None),
    ],
)
def test_what_fits_on_no_server_is_said(
    variant: dict[str, Any], fields: dict[str, Any], words: str | None
) -> None:
    """Which task needs how much of which resource, and what the largest server has."""
    servers = [*gpus(2, 4), {"name": "c", "capacity": {"gpu": 2, "cpu": 16}}]
    diagnosis = joint(servers, variant, **fields).elementary_infeasibility()
    assert (diagnosis is None) == (words is None)
    assert diagnosis is None or (words or "") in diagnosis.reasons[0]


def test_wide_ranges_end_where_the_cluster_does() -> None:
    """Up to 100,000 tasks are allowed, of which three fit."""
    variant = sync([1, 1, 1, 0, 0], (1, 100_000), (1, 100_000), ps_demand={"gpu": 1})
    configs, derived = tables(joint(gpus(2, 1), variant), {})
    same_tables(configs, derived)
    assert list(zip(configs.ps.tolist(), configs.workers.tolist(), strict=True)) == [(1, 1), (2, 1), (1, 2)]


@pytest.mark.parametrize(
    "variant",
    [sync([1] * 5, (1, 90), (1, 90)), sync([1] * 5, (1, 200), (1, 200)), measured((1, 5000, 1))],
    ids=["large servers", "wide ranges", "measurements"],
)
def test_too_many_splits_are_refused(variant: dict[str, Any]) -> None:
    """In words, before they take the memory or hours."""
    with pytest.raises(TooLargeError, match="too many splits"):
        _ = joint(gpus(6000), variant).configurations


@pytest.mark.parametrize("pieces", [None, {"gpu": [0.01, 0.01, 0.02]}])
@pytest.mark.parametrize("wrong", [False, True])
def test_a_table_that_is_shared_is_compared(
    monkeypatch: pytest.MonkeyPatch, pieces: Pieces | None, wrong: bool
) -> None:
    """Too large a table is that of the methods; one wrong time makes a certificate prove nothing."""
    monkeypatch.setattr(check, "MAX_DERIVED", 0)
    formulation = joint(gpus(4, 4), sync([1, 1, 1, 0, 0], (1, 2), (1, 4)), measured((0, 6, 2), (0, 3, 1)))
    if wrong:
        module = "clusterplan.formulations.allocation.formulation.placed_configurations"

        def tampered(*given: Any) -> Configurations:
            configs = placed_configurations(*given)
            return replace(configs, time_s=configs.time_s * 1.01)

        monkeypatch.setattr(module, tampered)
    certificate = certificate_of(("gpu",), np.array([0.05]), None, pieces)
    bound = formulation.certified_bounds(certificate)
    said = "the certificate proves nothing" if wrong else "all those of 2 jobs, derived again and equal"
    assert said in str(formulation.shared_tables())
    assert wrong == (bound == formulation.elementary_bounds())


def test_the_optimum_by_brute_force_is_that_of_its_plan() -> None:
    """The helper's plan takes what it says, by the package."""
    solved = [seed for seed in range(SEEDS) if least(seed) is not None]
    assert len(solved) > SEEDS / 2
    for seed in solved[::10]:
        plan, chosen = best_plan(made(seed).instance), best_options(made(seed).instance)
        assert plan is not None
        assert chosen is not None
        assert made(seed).evaluate(plan)[0] == pytest.approx(least(seed), rel=1e-12)


def test_a_servers_class_names_each_server() -> None:
    """Rows with a count stand for many; equal ones are one shape."""
    row = {"name": "s", "count": 3, "capacity": {"gpu": 4}, "free": {"gpu": 2}}
    formulation = joint([row, *gpus(2)], measured((0, 1, None)))
    servers = Servers(formulation.instance, ("gpu",))
    assert servers.names == ("s-0", "s-1", "s-2", "a")
    assert servers.index["a"] == 3
    assert servers.shapes.tolist() == [[2.0]]
    assert servers.counts.tolist() == [4]
    assert math.isclose(servers.earnings({"gpu": [1.0, 3.0]}), 12.0)


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([(1, 3, 1)], []),
        ([(1, 2, 1), (1, 3, 2), (0, 3, 4)], [(1, 2), (1, 3)]),
        ([(0, 3, 1), (0, 3, 2), (0, 3, None)], [(0, 3), (0, 3)]),
        ([(2, 1, 4), (2, 1, 3)], [(2, 1)]),
    ],
)
def test_a_measurement_needs_exactly_its_number_of_servers(
    rows: list[tuple[int, int, int | None]], kept: list[tuple[int, int]]
) -> None:
    """On three servers of two GPUs each; three pieces without a parameter server are no piece with one."""
    configs, derived = tables(joint(gpus(2, 2, 2), measured(*rows)), {})
    same_tables(configs, derived)
    assert list(zip(configs.ps.tolist(), configs.workers.tolist(), strict=True)) == kept


def test_the_hash_counts_where_jobs_run() -> None:
    """The same tasks on other servers are another instance, and so are tasks on unknown ones."""
    variant = sync([0, 1, 1, 0, 0], (1, 1), (1, 3))
    placements = [CURRENT["placement"], {"b": {"ps": 1}, "a": {"workers": 2}}, None]
    instances = [joint(gpus(2, 2), variant, current=CURRENT | {"placement": p}).instance for p in placements]
    assert len({instance.sha256() for instance in instances}) == 3
    again = AllocationInstance.model_validate(instances[0].document())
    assert again.sha256() == instances[0].sha256()
