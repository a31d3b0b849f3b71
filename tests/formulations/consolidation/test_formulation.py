"""The formulation of consolidation: constraints, objectives, and the compact model."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from device_instances import device_instance, job, placement, server, three_jobs
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from random_instances import random_devices

import clusterplan
from clusterplan.formulations.consolidation.certificate import (
    MAX_PRICE,
    CertifiedGoal,
    ConsolidationCertificate,
    DeviceCertificate,
)
from clusterplan.formulations.consolidation.cluster_data import OBJECTIVE_SENSES, ClusterData
from clusterplan.formulations.consolidation.explain import DEVICES_SHORT_TEXT, Reasons, shortage_text
from clusterplan.formulations.consolidation.fewest_servers import Shapes, fewest_servers, shape_of
from clusterplan.formulations.consolidation.formulation import (
    EVALUATORS,
    ConsolidationFormulation,
    DeviceFormulation,
    formulation_of,
)
from clusterplan.formulations.consolidation.kind import CONSOLIDATION
from clusterplan.formulations.consolidation.milp import (
    CompactModel,
    DeviceRows,
    device_coefficients,
    milp_model,
    model_coefficients,
)
from clusterplan.formulations.consolidation.plan import JobPlacement, entry_of
from clusterplan.formulations.registry import KINDS, formulate
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.consolidation.devices import DeviceDemand
from clusterplan.instances.consolidation.instance import ConsolidationInstance, Release, Server
from clusterplan.instances.consolidation.job import Group

AMOUNTS = st.fixed_dictionaries({"gpu": st.integers(0, 4), "cpu": st.integers(0, 4)})


@settings(max_examples=200, deadline=None)
@given(
    capacities=st.lists(AMOUNTS, min_size=1, max_size=4),
    groups=st.lists(st.tuples(st.integers(1, 3), AMOUNTS), min_size=1, max_size=2),
)
def test_fewest_servers_is_the_smallest_set_that_holds_the_job(
    capacities: list[dict[str, int]], groups: list[tuple[int, dict[str, int]]]
) -> None:
    """The dynamic programme agrees with trying every set of servers and every way to fill it."""
    servers = [Server(name=f"n{i}", capacity=capacity) for i, capacity in enumerate(capacities)]
    made = [Group(name=f"g{i}", tasks=tasks, demand=demand) for i, (tasks, demand) in enumerate(groups)]

    def holds(chosen: tuple[Server, ...]) -> bool:
        tasks = [group.demand for group in made for _ in range(group.tasks)]
        for places in itertools.product(range(len(chosen)), repeat=len(tasks)):
            if all(
                sum(d[r] for d, place in zip(tasks, places, strict=True) if place == i) <= server.capacity[r]
                for i, server in enumerate(chosen)
                for r in ("gpu", "cpu")
            ):
                return True
        return False

    sizes = [n for n in range(1, len(servers) + 1) if any(map(holds, itertools.combinations(servers, n)))]
    assert fewest_servers(made, Shapes(shape_of(server.capacity) for server in servers)) == (
        sizes[0] if sizes else None
    )


def instance(jobs: list[dict[str, Any]], objectives: list[str], **fields: Any) -> ConsolidationInstance:
    """Return jobs on four servers of two GPUs in two racks."""
    servers = [
        {"name": "a", "count": 2, "capacity": {"gpu": 2}, "rack": "r0", "traffic_gbit_per_s": 1},
        {"name": "b", "count": 2, "capacity": {"gpu": 2}, "rack": "r1"},
    ]
    return placement(objectives, fields.pop("servers", servers), jobs, **fields)


def test_every_objective_by_hand() -> None:
    """One plan, nine values."""
    names = ["value", "spread", "servers", "racks", "stops", "migrations", "slowdown", "traffic", "imbalance"]
    made = instance(
        [
            job(
                "j",
                3,
                spread="preferred",
                traffic_gbit_per_s=0.5,
                current={"a-0": 2, "b-1": 1},
                speed_by_servers={2: 1.0, 3: 0.6},
            ),
            job("out", value=7, current={"b-0": 1}),
        ],
        names,
    )
    plan = [
        JobPlacement(job="j", servers={"a-0": 1, "a-1": 1, "b-1": 1}),
        JobPlacement(job="out", placed=False),
    ]
    formulation = ConsolidationFormulation(made)
    assert not formulation.violations(plan)
    values = dict(zip(names, formulation.evaluate(plan), strict=True))
    assert values == pytest.approx(
        {
            "value": 3,
            "spread": 1,
            "servers": 3,
            "racks": 1,
            "stops": 1,
            "migrations": 2,
            "slowdown": 3 * 0.4,
            "traffic": 1.5,
            "imbalance": 1.5,
        }
    )


def test_skew_decides_who_is_consolidated() -> None:
    """Above the threshold a job is required to be consolidated, below it is free."""
    made = instance(
        [
            {"name": n, "tasks": 2, "task_demand": {"gpu": 1}, "spread": "from_skew", "skew": skew}
            for n, skew in (("vgg", 0.7), ("resnet", 0.1))
        ],
        ["value"],
    )
    assert [made.spread_of(job) for job in made.jobs] == ["required", "free"]


def test_who_waits_and_why() -> None:
    """A job that must be consolidated waits for a whole server, one that never fits says what is short."""
    made = instance(
        [
            job("big", demand={"gpu": 3}),
            job("all", 9),
            job("tight", 2, spread="required"),
            job("other", gpu_model="h100"),
        ],
        ["value"],
        servers=[{"name": f"s{i}", "capacity": {"gpu": 2}, "free": {"gpu": 1}} for i in range(3)],
    )
    result = clusterplan.solve(made)
    assert result.status == "optimal"
    reasons = {entry.model_dump()["job"]: entry.model_dump()["reason"] for entry in result.plan or ()}
    assert "needs 3 gpu; the largest server has 2 (2 gpu)" in reasons["big"]
    assert "hold 6 of its 9 tasks" in reasons["all"]
    assert "must run on a single server" in reasons["tight"]
    assert "GPU model 'h100'" in reasons["other"]


def test_the_order_of_objectives_matters() -> None:
    """Fewest servers first places nobody; value first places everybody."""
    job = {"name": "j", "tasks": 2, "task_demand": {"gpu": 1}}
    assert clusterplan.solve(instance([job], ["servers", "value"])).objectives[1].value == 0
    assert clusterplan.solve(instance([job], ["value", "servers"])).objectives[0].value == 2


DATA = ClusterData(
    placement(
        [name for name in OBJECTIVE_SENSES if name != "free"],
        [
            {**server("a", gpu=2), "rack": "r", "traffic_gbit_per_s": 1},
            {**server("b", gpu=2), "rack": "r"},
            server("c", gpu=2),
        ],
        [
            job(
                "j",
                3,
                value=4,
                spread="preferred",
                traffic_gbit_per_s=0.5,
                current={"a": 1, "c": 1},
                speed_by_servers={1: 1, 2: 0.75},
            ),
            job("out", value=9),
        ],
    ).model_copy(update={"free": Release(count=2)})
)
PLAN = [JobPlacement(job="j", servers={"a": 2, "c": 1}), JobPlacement(job="out", placed=False)]
EXPECTED = {
    "value": 4.0,
    "spread": 0.0,
    "servers": 2.0,
    "racks": 1.0,
    "stops": 0.0,
    "migrations": 0.0,
    "slowdown": 1.0,
    "traffic": 2.0,
    "imbalance": 2.0,
    "free": 0.0,
}


def test_a_server_that_the_plan_empties_is_freed() -> None:
    """What was empty before does not count, nor more than is wanted."""
    moved = JobPlacement(job="j", servers={"b": 3})
    assert EVALUATORS["free"](DATA, [moved]) == 2
    assert EVALUATORS["free"](DATA, [JobPlacement(job="j", servers={"a": 3})]) == 1


@pytest.mark.parametrize("objective", OBJECTIVE_SENSES)
def test_an_objective_by_hand(objective: str) -> None:
    """Two servers in two racks, nothing moved, a quarter of the speed lost."""
    assert EVALUATORS[objective](DATA, PLAN) == EXPECTED[objective]


def test_gains_and_losses_cancel_exactly() -> None:
    """A tenth won and a tenth lost are nothing."""
    jobs = [job("a", speed_by_servers={1: 1.1}), job("b", speed_by_servers={1: 0.9})]
    data = ClusterData(placement(["slowdown"], [server(gpu=2)], jobs))
    plan = [JobPlacement(job=name, servers={"n": 1}) for name in "ab"]
    assert EVALUATORS["slowdown"](data, plan) == 0.0


def _instance(jobs: list[dict[str, Any]], count: int = 2, **fields: Any) -> ConsolidationInstance:
    return placement(
        None,
        [{"name": "n", "count": 2, "capacity": {"cpu": 8}, "devices": {"gpu": {"count": count}}}],
        [{"tasks": 1, "task_demand": {"cpu": 1}, **job} for job in jobs],
        **fields,
    )


def test_only_instances_with_devices_have_it() -> None:
    """Others are formulated as before."""
    assert type(formulate(device_instance(0))) is DeviceFormulation
    plain = placement(["value"], [server(gpu=1)], [job("a")])
    assert type(formulation_of(plain)) is ConsolidationFormulation


def test_classes_of_amounts_are_refused() -> None:
    """A method that knows no devices says so, rather than plan without them."""
    with pytest.raises(OptionError, match="does not place single devices"):
        _ = DeviceFormulation(device_instance(0)).classes


def test_fewest_servers_count_devices() -> None:
    """Three shares of 600 need three devices, so two servers; the relaxation forbids no such plan."""
    wanted = [
        {"name": "j", "tasks": 3, "share": {"gpu": 600}, "spread": rule} for rule in ("required", "free")
    ]
    instance = _instance([{**job, "name": f"j{n}"} for n, job in enumerate(wanted)])
    formulation = DeviceFormulation(instance)
    assert formulation.fewest(instance.jobs[0]) == 2
    assert formulation.pooled.fewest(formulation.pooled.instance.jobs[0]) == 1
    assert [job.spread for job in formulation.pooled.instance.jobs] == ["free", "free"]
    held = {"tasks": {"n-0": [{"gpu": [0]}, {"gpu": [1]}], "n-1": [{"gpu": [0]}]}}
    plan = [{"job": "j0", "servers": {"n-0": 2, "n-1": 1}, "devices": held}, {"job": "j1", "placed": False}]
    assert formulation.violations(formulation.parse_plan(plan)) == []


def test_reasons_speak_of_single_devices() -> None:
    """The sum of what is left would do for a share of 500, but no device has it."""
    instance = _instance(
        [{"name": f"j{n}", "share": {"gpu": 600}} for n in range(4)] + [{"name": "x", "share": {"gpu": 500}}]
    )
    result = clusterplan.solve(instance, solver="exact")
    assert result.plan is not None
    assert [entry.model_dump()["reason"] for entry in result.plan] == [None] * 4 + [DEVICES_SHORT_TEXT]
    never = clusterplan.solve(_instance([{"name": "x", "devices": {"gpu": 3}}]), solver="best-fit").plan
    assert never is not None
    words = "never fits: a task of 'tasks' needs 3 gpu; the largest server has 2 (8 cpu, 2 gpu)"
    assert never[0].model_dump()["reason"] == words


def test_room_that_single_devices_have_is_no_reason() -> None:
    """A method that stopped early is not excused by devices."""
    formulation = DeviceFormulation(_instance([{"name": "x", "share": {"gpu": 500}}]))
    (entry,) = formulation.finish([JobPlacement(job="x", placed=False)])
    assert str(entry.reason).startswith("left out although there is room")


def test_wrong_certificates_are_named() -> None:
    """By their form, by the number of shapes, and in what is pooled."""
    formulation = DeviceFormulation(_instance([{"name": "x", "share": {"gpu": 500}}]))
    goal = {"objective": "value", "shapes": []}
    assert formulation.certificate_fault({"devices": [goal]}) == (
        "the prices of value are of 0 shapes of servers, not 1"
    )
    assert "devices.0.shapes" in str(formulation.certificate_fault({"devices": [{"objective": "value"}]}))
    assert formulation.certificate_fault({"pooled": {"goals": 1}}) is not None
    assert formulation.certificate_fault({"devices": [{**goal, "shapes": [{}]}]}) is None
    assert formulation.certified_bounds({"devices": 3})[0] == 0.5
    assert DeviceCertificate().devices == ()


def test_plans_without_devices_keep_their_form() -> None:
    """Their JSON, and so their hash, has no new key."""
    entry = JobPlacement(job="a", servers={"n": 1})
    assert list(entry.model_dump()) == ["job", "placed", "servers", "groups", "reason", "action"]
    named = JobPlacement.model_validate(
        {"job": "a", "servers": {"n": 1}, "devices": {"tasks": {"n": [{"gpu": {"device": 1, "slot": 4}}]}}}
    )
    assert JobPlacement.model_validate_json(named.model_dump_json()) == named


def test_the_registry_knows_it() -> None:
    """With its formulation and a compact model."""
    assert KINDS["consolidation"] is CONSOLIDATION
    assert CONSOLIDATION.formulation is ConsolidationFormulation
    assert CONSOLIDATION.milp_model is not None
    assert CONSOLIDATION.milp_model(three_jobs()).objectives[0].objective.name == "value"


def test_a_certificate_of_plain_data_is_read() -> None:
    """Prices by shape and piece, multipliers by objective."""
    goal = {"objective": "servers", "prices": [[1.0, 2.0], []], "multipliers": {"value": 0.5}}
    read = ConsolidationCertificate.model_validate({"goals": [goal]})
    assert read.goals[0].prices == ((1.0, 2.0), ())
    assert read.traffic is None


@pytest.mark.parametrize("price", [-1.0, 2 * MAX_PRICE, float("nan"), "many"])
def test_prices_out_of_range_are_refused(price: object) -> None:
    """Of pieces and of earlier objectives."""
    with pytest.raises(ValidationError):
        CertifiedGoal.model_validate({"objective": "value", "prices": [[price]]})
    with pytest.raises(ValidationError):
        CertifiedGoal.model_validate({"objective": "value", "prices": [], "multipliers": {"spread": price}})


def test_objectives_that_name_servers_have_no_prices() -> None:
    """Racks and traffic are not bounded by prices of pieces."""
    for name in ("racks", "traffic"):
        with pytest.raises(ValidationError):
            CertifiedGoal.model_validate({"objective": name, "prices": []})


@pytest.mark.parametrize(
    ("tasks", "demand", "words"),
    [
        (1, {"gpu": 4}, "it needs 4 gpu on one server; the most that is free now is 3"),
        (2, {"gpu": 4}, "each of its 2 workers needs 4 gpu on one server; the most that is free now is 3"),
        (1, {"tpu": 1}, "it needs 1 tpu on one server; the most that is free now is 0"),
        (1, {"gpu": 3, "cpu": 9}, "it needs 9 cpu and 3 gpu on one server; none has all of that free now"),
    ],
)
def test_the_resource_that_no_server_has_enough_of_is_named(
    tasks: int, demand: dict[str, float], words: str
) -> None:
    left = Shapes([shape_of({"gpu": 3, "cpu": 8, "tpu": 1e-9}), shape_of({"gpu": 1, "cpu": 64})])
    assert shortage_text(Group(name="workers", tasks=tasks, demand=demand), left) == words


def test_a_job_that_waits_is_told_what_is_free_and_what_the_placed_jobs_leave() -> None:
    def job(name: str, **demand: float) -> dict[str, Any]:
        return {"name": name, "tasks": 1, "task_demand": demand}

    instance = ConsolidationInstance.model_validate(
        {
            "name": "x",
            "servers": [
                {"name": "a", "capacity": {"gpu": 8}, "free": {"gpu": 3}},
                server("b", gpu=8),
            ],
            "jobs": [job("placed", gpu=6), job("later", gpu=4), job("never", gpu=9), job("small", gpu=1)],
        }
    )
    plan = [entry_of(entry, {"tasks": {"b": 1}} if entry.name == "placed" else {}) for entry in instance.jobs]
    reasons = Reasons(ConsolidationFormulation(instance), plan)
    assert reasons.why(1) == "waits: it needs 4 gpu on one server; the most that the placed jobs leave is 3"
    assert reasons.why(2).startswith("never fits: a task of 'tasks' needs 9 gpu; the largest server has 8")
    assert reasons.why(3).startswith("left out although there is room")


def test_servers_that_lack_different_things_are_counted() -> None:
    """Most servers first; what a server has none of is told from what it has too little of."""
    capacities = [{"gpu": 8}, {"gpu": 8}, {"gpu": 2, "toleration for taint t": 1}]
    asks = {"gpu": 4, "toleration for taint t": 1}
    instance = ConsolidationInstance.model_validate(
        {
            "name": "x",
            "servers": [{"name": f"s{k}", "capacity": capacity} for k, capacity in enumerate(capacities)],
            "jobs": [job("a", demand=asks)],
        }
    )
    plan = [entry_of(entry, {}) for entry in instance.jobs]
    assert Reasons(ConsolidationFormulation(instance), plan).why(0) == (
        "never fits: no server has all that a task of 'tasks' needs; on 2 servers: no toleration for taint t "
        "(1 needed); on 1 server: too little gpu (4 needed)"
    )


def test_choices_of_servers_are_named_last_and_are_no_size_of_a_server() -> None:
    capacity = {"cpu": 8, "gpu": 8, "any node": 3}
    instance = ConsolidationInstance.model_validate(
        {
            "name": "x",
            "servers": [
                {"name": "s", "capacity": capacity, "free": {"cpu": 8, "any node": 3}},
                {"name": "t", "capacity": capacity, "free": {"gpu": 8, "any node": 3}},
            ],
            "jobs": [
                {"name": "a", "tasks": 1, "task_demand": {"gpu": 9, "any node": 1}},
                {"name": "b", "tasks": 1, "task_demand": {"cpu": 1, "gpu": 1, "any node": 1}},
            ],
            "restrictions": ["any node"],
        }
    )
    reasons = Reasons(ConsolidationFormulation(instance), [entry_of(job, {}) for job in instance.jobs])
    assert reasons.why(0).endswith("needs 9 gpu; the largest server has 8 (8 cpu, 8 gpu)")
    assert reasons.why(1).startswith("waits: it needs 1 cpu and 1 gpu and 1 any node on one server")


def test_the_size_is_known_beforehand() -> None:
    """Coefficients are counted for each group of tasks and each server that holds one of them."""
    data = ClusterData(
        placement(["value"], [server("n", gpu=1), server("m", gpu=4)], [job("a", 1, {"gpu": 2})])
    )
    assert model_coefficients(data) == 5 + 1 + 2
    assert model_coefficients(three_jobs("value")) == 3 * 2 * (5 + 1 + 2)


def test_a_plan_is_encoded_and_decoded() -> None:
    """Its start values keep every constraint, and mean the plan."""
    formulation = three_jobs("value", "servers", "spread")
    model = milp_model(formulation)
    assert [part.objective.name for part in model.objectives] == ["value", "servers", "spread"]
    plan = [
        JobPlacement(job="a", servers={"n": 3}),
        JobPlacement(job="b", servers={"m": 3}),
        JobPlacement(job="c", placed=False),
    ]
    start = model.encode(plan)
    assert [entry.servers for entry in model.decode(lambda x: start[x])] == [{"n": 3}, {"m": 3}, {}]
    for variable in model.problem.variables():
        variable.varValue = start.get(variable, 1.0)  # what is not encoded is a server in use
    assert model.problem.valid(1e-9)
    assert model.objectives[0].expression.value() == 6


def agrees_with_enumeration(instance: clusterplan.Instance, solver: str) -> None:
    """Expect the status and values of brute force."""
    best, found = (clusterplan.solve(instance, solver=name) for name in ("brute-force", solver))
    assert found.status == best.status
    assert [o.value for o in found.objectives] == pytest.approx([o.value for o in best.objectives])


@pytest.mark.parametrize("seed", range(12))
def test_its_optimum_is_that_of_enumeration(seed: int) -> None:
    """In every objective; and it starts from the plan that was found."""
    agrees_with_enumeration(device_instance(seed, jobs=3), "milp:highs")


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_written_as_values_keeps_every_row(seed: int) -> None:
    """The plan of best-fit, by the model's own rows."""
    instance = device_instance(seed)
    formulation, result = DeviceFormulation(instance), clusterplan.solve(instance, solver="best-fit")
    if result.plan is None:
        return
    model = milp_model(formulation)
    start = model.encode(formulation.parse_plan([entry.model_dump() for entry in result.plan]))
    names = {variable.name: value for variable, value in start.items()}
    for row in model.problem.constraints():
        if all(variable.name in names for variable in row):
            left = sum(c * names[v.name] for v, c in row.items()) + row.constant
            assert {-1: left <= 1e-9, 0: abs(left) <= 1e-9, 1: left >= -1e-9}[row.sense], row


@pytest.mark.parametrize("solver", ["milp:highs", "cp-sat", "exact"])
@pytest.mark.parametrize("seed", range(16))
def test_moves_between_devices_are_those_of_enumeration(solver: str, seed: int) -> None:
    """Where they count, with tasks that run on one another's devices, or on none that there is."""
    instance = random_devices(seed, device_moves=True, objectives=("migrations", "value"))
    agrees_with_enumeration(instance, solver)


def test_rows_speak_of_devices_that_others_leave() -> None:
    """A device that others hold whole has no content; a shared one only shares that fit."""
    instance = placement(
        None,
        [
            {
                "name": "n",
                "capacity": {"cpu": 8},
                "devices": {
                    "gpu": {"count": 3, "taken": [{"device": 0}, {"device": 1, "share": 700}]},
                },
            }
        ],
        [{"name": f"j{s}", "tasks": 1, "task_demand": {}, "share": {"gpu": s}} for s in (300, 400)],
    )
    formulation = DeviceFormulation(instance)
    model = CompactModel(formulation)
    model.x = {(job, "tasks", "n"): model.make("x", 1, 1) for job in ("j300", "j400")}
    rows = DeviceRows(model)
    rows.write()
    contents = {(i, ask) for _, _, i, ask, _ in rows.contents}
    assert contents == {
        (1, DeviceDemand(share=300)),
        (2, DeviceDemand(share=300)),
        (2, DeviceDemand(share=400)),
    }
    made = [variable.name[0] for variable in model.problem.variables()]
    assert sorted(made) == ["a", "a", "a", "p", "q", "x", "x"]


def test_the_size_grows_with_devices_and_what_is_asked_of_them() -> None:
    """Two devices with one share each; then with a profile of two slots that starts at three places, too."""
    server = {"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 2, "geometry": "a100-40"}}}
    jobs: list[dict[str, Any]] = [{"name": "s", "tasks": 1, "task_demand": {}, "share": {"gpu": 300}}]
    document = {"schema_version": 1, "kind": "consolidation", "name": "size", "servers": [server]}
    sizes = []
    for more in ({}, {"name": "p", "tasks": 1, "task_demand": {}, "profile": {"gpu": "2g.10gb"}, "value": 1}):
        found = clusterplan.parse_instance({**document, "jobs": [*jobs, more] if more else jobs})
        formulation = DeviceFormulation(found)
        sizes.append(device_coefficients(formulation))
        assert model_coefficients(formulation) > sizes[-1]
    assert sizes == [2 * (4 + 2), 2 * (4 + 2 + 3 * 3)]
