"""The campaign's own truth about single devices, on what can be worked out by hand, and its documents."""

from __future__ import annotations

import copy
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from device_instances import gpus, job, sharing
from fuzz import lanes
from fuzz.consolidation_documents import document
from fuzz.consolidation_truth import ConsolidationTruth, groups_of
from fuzz.device_truth import BUILT_IN, FREE, Layout, asks_of, fits, states_of, taken

from clusterplan.instances.common.hardware import GEOMETRIES
from clusterplan.instances.documents import parse_instance

A100 = BUILT_IN["a100-40"]


def _document(**fields: Any) -> dict[str, Any]:
    return {"schema_version": 1, "kind": "consolidation", "name": "n", "objectives": ["value"], **fields}


@pytest.mark.parametrize(
    ("asks", "devices", "expected"),
    [
        ([("share", 600)] * 3, 2, False),
        ([("share", 600), ("share", 400)] * 2, 2, True),
        ([("devices", 1), ("share", 1)], 1, False),
        ([("devices", 2)], 2, True),
        ([("profile", "3g.20gb")] * 3, 1, False),
        ([("profile", "3g.20gb"), ("profile", "4g.20gb")], 1, True),
        ([("profile", "1g.5gb")] * 7, 1, True),
        ([("profile", "1g.5gb")] * 8, 1, False),
        ([("profile", "2g.10gb")] * 3 + [("profile", "1g.5gb")], 1, True),
        ([("profile", "1g.5gb"), ("share", 100)], 1, False),
    ],
)
def test_what_devices_hold(asks: list[tuple[str, Any]], devices: int, expected: bool) -> None:
    """A device is whole, shared or partitioned; three of two slots leave room for one more in the fourth."""
    assert fits((FREE,) * devices, A100, asks) == expected


def test_the_tables_are_those_of_the_package() -> None:
    """Written down again here, so that an error of either shows."""
    for name, layout in BUILT_IN.items():
        profiles = GEOMETRIES[name].profiles.items()
        assert {(p, of.size, of.starts) for p, of in profiles} == set(layout.profiles)


def test_what_others_hold() -> None:
    """In all forms; and devices that `free` does not count are held whole."""
    others = [{"device": 0}, {"device": 1, "share": 300}, {"device": 2, "profile": "3g.20gb", "slot": 4}]
    devices = {"gpu": {"count": 4, "geometry": "a100-40", "taken": others}}
    states = states_of({"devices": devices}, "gpu")
    assert states == (("whole", ()), ("shared", 300), ("parted", (4, 5, 6, 7)), FREE)
    assert taken(states, A100, ("profile", "3g.20gb"), {"device": 2, "slot": 4}) is None
    assert taken(states, A100, ("profile", "3g.20gb"), {"device": 2, "slot": 1}) is None
    assert taken(states, A100, ("share", 800), [1]) is None
    assert taken(states, A100, ("devices", 2), [1, 3]) is None
    assert states_of({"free": {"gpu": 1}, "devices": {"gpu": {"count": 2}}}, "gpu")[1] == ("whole", ())
    assert taken(states, Layout(()), ("devices", 1), [4]) is None


def test_optima_worked_out_by_hand() -> None:
    """Two devices hold two shares of 600; for a whole device one of two that run has to move."""
    server = gpus("n", 2)
    jobs = [sharing(name, 600, value=1) for name in "abc"]
    assert ConsolidationTruth(_document(servers=[server], jobs=jobs)).best() == 2
    running = [
        sharing(name, 400, value=1, current={"n": 1}, current_devices={"n": [{"gpu": [device]}]})
        for device, name in enumerate("ab")
    ]
    whole = job("c", 1, {"cpu": 0}, devices={"gpu": 1}, value=1)
    data = _document(servers=[server], jobs=[*running, whole], objectives=["value", "migrations"])
    for device_moves, moved in ((None, 0), (False, 0), (True, 1)):
        truth = ConsolidationTruth({**data, "device_moves": device_moves})
        assert truth.values(min(costs for costs, _ in truth.plans)) == [3, moved]


def _running(**fields: Any) -> dict[str, Any]:
    """Return a share that runs on the first of two devices, beside a job that asks for both."""
    server = gpus("n", 2, taken=[{"device": 1}])
    runs = sharing("a", 400, value=1, current={"n": 1}, current_devices={"n": [{"gpu": [0]}]}, **fields)
    return _document(servers=[server], jobs=[runs], restart_cost_h=0.5, device_moves=True)


def test_who_keeps_its_devices_pays_nothing_and_who_stays_keeps_them() -> None:
    """With the first device taken, a job moves to the second for half of its value; one that stays cannot."""
    data = _running()
    assert ConsolidationTruth(data).best() == 1
    taken_by_others = {"gpu": {"count": 2, "taken": [{"device": 0}]}}
    data["servers"][0]["devices"] = taken_by_others
    assert ConsolidationTruth(data).best() == Fraction(1, 2)
    assert ConsolidationTruth({**data, "max_moves": 0}).best() is None
    assert ConsolidationTruth({**data, "device_moves": False, "max_moves": 0}).best() == 1
    assert not ConsolidationTruth({**data, "pinned": ["*"]}).feasible


def _planned() -> tuple[ConsolidationTruth, list[dict[str, Any]]]:
    """Return a truth and its best plan: a share, a partition and a whole device on three devices."""
    jobs = [
        sharing("s", 400, value=1),
        job("p", 1, {"cpu": 0}, profile={"gpu": "2g.10gb"}, value=1),
        job("w", 1, {"cpu": 0}, devices={"gpu": 1}, value=1),
    ]
    held = ({"gpu": [0]}, {"gpu": {"device": 1, "slot": 2}}, {"gpu": [2]})
    plan = [
        {"job": row["name"], "placed": True, "servers": {"n": 1}, "devices": {"tasks": {"n": [task]}}}
        for row, task in zip(jobs, held, strict=True)
    ]
    return ConsolidationTruth(_document(servers=[gpus("n", 3, geometry="a100-40")], jobs=jobs)), plan


@pytest.mark.parametrize(
    ("entry", "devices"),
    [
        (0, None),
        (0, {"tasks": {"n": [{"gpu": [2]}]}}),
        (0, {"tasks": {"n": [{"gpu": [3]}]}}),
        (0, {"tasks": {"n": [{"gpu": [0, 1]}]}}),
        (0, {"tasks": {"n": [{"gpu": {"device": 0, "slot": 0}}]}}),
        (0, {"tasks": {"n": [{"gpu": [0]}, {"gpu": [0]}]}}),
        (0, {"tasks": {"n": [{"gpu": [0], "nic": [0]}]}}),
        (0, {"tasks": {"n": [{"gpu": [0]}], "m": [{"gpu": [0]}]}}),
        (0, {"tasks": {"n": [{"gpu": [0]}]}, "other": {"n": [{"gpu": [0]}]}}),
        (1, {"tasks": {"n": [{"gpu": {"device": 1, "slot": 1}}]}}),
        (1, {"tasks": {"n": [{"gpu": {"device": 0, "slot": 2}}]}}),
        (1, {"tasks": {"n": [{"gpu": [1]}]}}),
        (2, {"tasks": {"n": [{"gpu": [0]}]}}),
        (2, {"tasks": {"n": [{"gpu": [2, 2]}]}}),
    ],
)
def test_plans_on_wrong_devices_are_refuted(entry: int, devices: Any) -> None:
    """The right plan is not."""
    truth, plan = _planned()
    assert truth.judge(plan) == ((-3,), [])
    wrong = copy.deepcopy(plan)
    wrong[entry]["devices"] = devices
    assert truth.judge(wrong)[1] != []


def test_documents_of_every_form_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, shares, partitions, two names, what others hold, what tasks hold now, and moves that count."""
    monkeypatch.setattr("fuzz.consolidation_documents.ON_DEVICES", 1.0)
    seen: Counter[str] = Counter()
    for number in range(150):
        data = document(random.Random(number))
        parse_instance(data)
        seen["moves"] += bool(data.get("device_moves"))
        for server in data["servers"]:
            devices = server.get("devices") or {}
            seen["two names"] += len(devices) > 1
            seen["others"] += any(had.get("taken") for had in devices.values())
            seen["free"] += "gpu" in (server.get("free") or {})
        for group in (group for row in data["jobs"] for group in groups_of(row)):
            seen.update(form for form, _ in asks_of(group).values())
            seen["now"] += bool(group.get("current_devices"))
    kinds = {"devices", "share", "profile", "two names", "others", "free", "now", "moves"}
    assert all(seen[name] >= 10 for name in kinds), seen


def test_turns_on_devices_find_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results and certificates of instances with devices are forged as well."""
    monkeypatch.setattr("fuzz.consolidation_documents.ON_DEVICES", 1.0)
    counts = lanes.faultless("consolidation", "devices", 12)
    assert counts["consolidation solved by exact"] > 8
    assert counts["certificates forged"] > 3
