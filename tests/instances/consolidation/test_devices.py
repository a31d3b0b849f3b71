"""Single devices in documents: what is read, what is refused, and what jobs are worth.

Which devices hold which tasks, against every way to put them there.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from fuzz.device_truth import Ask, State, States, fits, layout_of, taken

import clusterplan
from clusterplan.instances.common.errors import InstanceError, TooLargeError
from clusterplan.instances.common.hardware import GEOMETRIES
from clusterplan.instances.consolidation import devices as packing
from clusterplan.instances.consolidation.devices import WHOLE, Device, DeviceDemand, DeviceSlot, pack
from clusterplan.instances.consolidation.instance import ConsolidationInstance

DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "kind": "consolidation",
    "name": "devices",
    "servers": [
        {
            "name": "a",
            "count": 2,
            "capacity": {"cpu": 64},
            "devices": {"gpu": {"count": 4, "geometry": "a100-40"}},
        }
    ],
    "jobs": [
        {"name": "whole", "tasks": 1, "task_demand": {"cpu": 4}, "devices": {"gpu": 2}},
        {"name": "shares", "tasks": 3, "task_demand": {"cpu": 4}, "share": {"gpu": 460}},
        {"name": "part", "tasks": 1, "task_demand": {}, "profile": {"gpu": "2g.10gb"}, "value": 0.3},
    ],
}


def _read(change: Callable[[dict[str, Any]], object] = len) -> ConsolidationInstance:
    document = copy.deepcopy(DOCUMENT)
    change(document)
    found = clusterplan.parse_instance(document)
    assert isinstance(found, ConsolidationInstance)
    return found


def test_worth_counts_devices_and_shares() -> None:
    """Exactly: three shares of 460 thousandths are 1.38, which 3 · 0.46 is not in doubles."""
    assert [job.worth for job in _read().jobs] == [2.0, 1.38, 0.3]


def test_a_saved_instance_is_the_same_one() -> None:
    """As JSON; and one without devices has no new keys."""
    instance = _read()
    again = clusterplan.parse_instance(json.loads(json.dumps(instance.document())))
    assert again == instance
    plain = {"name": "n", "tasks": 1, "task_demand": {"cpu": 1}}
    without = _read(lambda d: (d["servers"][0].pop("devices"), d.update(jobs=[plain])))
    assert not without.has_devices
    keys = {key for row in (*without.document()["servers"], *without.document()["jobs"]) for key in row}
    assert keys.isdisjoint({"devices", "share", "profile", "current_devices"})


def test_states_are_what_others_leave() -> None:
    """Taken devices, shares and partitions; or so many of the first devices are free."""

    def taken(document: dict[str, Any]) -> None:
        parts = [
            {"device": 2, "profile": "3g.20gb", "slot": 4},
            {"device": 2, "profile": "1g.5gb", "slot": 0},
        ]
        shares = [{"device": 1, "share": 300}, {"device": 1, "share": 200}]
        document["servers"][0]["devices"]["gpu"]["taken"] = [{"device": 0}, *shares, *parts]

    states = _read(taken).expanded_servers[0].device_states["gpu"]
    assert states == (Device("whole"), Device("shared", 500), Device("parted", 0b11110001), Device())
    free = _read(lambda d: d["servers"][0].update(free={"cpu": 3, "gpu": 1})).servers[0]
    assert [state.mode for state in free.device_states["gpu"]] == ["free", "whole", "whole", "whole"]
    assert free.available == {"cpu": 3.0}
    other = _read(lambda d: d["servers"][0].update(free={"cpu": 3})).servers[0]
    assert {state.mode for state in other.device_states["gpu"]} == {"whole"}


def test_hardware_gives_no_capacity_for_what_are_devices() -> None:
    """The catalogue's GPUs are not a resource where the row has devices."""
    machine = {"name": "m", "price_usd_per_hour": 1, "vcpus": 8, "memory_gib": 64, "gpus": 4}
    catalogue = {"name": "c", "source": "s", "date": "2024-01-01", "types": [machine]}

    def named(document: dict[str, Any]) -> None:
        document["catalogue"] = catalogue
        document["servers"][0].pop("capacity")
        document["servers"][0]["hardware"] = "m"

    assert _read(named).servers[0].capacity == {"cpu": 8.0, "memory_gib": 64.0}
    with pytest.raises(InstanceError, match=r"servers\[0\].capacity: is missing"):
        _read(lambda document: (named(document), document["servers"][0].pop("hardware")))


def _server(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["servers"][0][key].update(value)


def _gpu(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["servers"][0]["devices"]["gpu"].update(fields)


def _job(index: int, **fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["jobs"][index].update(fields)


REFUSED: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (
        _server("capacity", {"gpu": 4}),
        "servers[0].devices.gpu: is a resource in the capacity of",
    ),
    (_gpu(geometry="a100"), "devices.gpu.geometry: is 'a100'; allowed: a30-24, a100-40, a100-80, h100-80"),
    (_gpu(count=0), "servers[0].devices.gpu.count: is 0, but must be at least 1"),
    (_gpu(taken=[{"device": 9}]), "taken[0].device: is 9; there are 4, from 0 on"),
    (_gpu(taken=[{"device": 0}, {"device": 0}]), "taken[1]: device 0 is not free"),
    (_gpu(taken=[{"device": 0}, {"device": 0, "share": 9}]), "taken[1]: device 0 has no room for it"),
    (_gpu(taken=[{"device": 0, "profile": "2g.10gb", "slot": 1}]), "no device here has '2g.10gb' at slot 1"),
    (_gpu(taken=[{"device": 0, "slot": 1}]), "taken[0].slot: goes with profile: give both, or none"),
    (lambda d: d["servers"][0].update(free={"cpu": 1, "gpu": 2.5}), "of 4 devices a whole number is free"),
    (lambda d: d["servers"][0].update(free={"cpu": 1, "gpu": 5}), "free.gpu: is 5; of 4 devices"),
    (
        lambda d: (_gpu(taken=[{"device": 0}])(d), d["servers"][0].update(free={"gpu": 1})),
        "free.gpu: is set beside what is taken of these devices",
    ),
    (_job(0, share={"gpu": 30}), "jobs[0].share.gpu: is asked for twice"),
    (_job(1, share={"gpu": 1000}), "jobs[1].share.gpu: is 1000, but must be less than 1000"),
    (_job(1, share={"gpu": 0.5}), "jobs[1].share.gpu"),
    (
        _job(1, share={"npu": 100}),
        "jobs[1].share.npu: unknown device 'npu'; the devices of the",
    ),
    (
        _job(2, profile={"gpu": "9g"}),
        "jobs[2].profile.gpu: no server has the profile '9g'; there are:",
    ),
    (lambda d: d["jobs"][2].pop("value"), "jobs[2].value: is missing; what a partition is worth"),
    (_job(0, groups=[]), "jobs[0].devices: is set beside groups"),
    (
        _job(0, current={"a-0": 1}, current_devices={"a-0": [{"gpu": [0]}]}),
        "jobs[0].current_devices.a-0[0].gpu: needs 2 different devices",
    ),
    (
        _job(0, current_devices={"a-0": [{"gpu": [0, 1]}]}),
        "current_devices.a-0: has 1 tasks, but by current there are 0",
    ),
    (
        _job(1, current={"a-0": 1}, current_devices={"a-0": [{"gpu": {"device": 0, "slot": 0}}]}),
        "current_devices.a-0[0].gpu: needs a list of devices",
    ),
    (
        _job(2, current={"a-0": 1}, current_devices={"a-0": [{"gpu": [0]}]}),
        "current_devices.a-0[0].gpu: needs a device and a slot",
    ),
    (_job(0, current={"a-0": 1}, current_devices={"a-0": [{}]}), "[0].gpu: is missing; the task asks for it"),
    (
        _job(0, current={"a-0": 1}, current_devices={"a-0": [{"gpu": [0, 1], "x": [0]}]}),
        "current_devices.a-0[0].x: is not asked for",
    ),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_what_is_wrong_is_refused_in_words(change: Callable[[dict[str, Any]], object], words: str) -> None:
    """With the place in the document."""
    with pytest.raises(InstanceError) as error:
        _read(change)
    assert words in str(error.value)


def _state(device: Device) -> State:
    """Return the state of a device as the campaign's truth has it."""
    slots = tuple(slot for slot in range(8) if device.used >> slot & 1)
    return {"shared": ("shared", device.used), "parted": ("parted", slots)}.get(
        device.mode, (device.mode, ())
    )


def _ask(ask: DeviceDemand) -> Ask:
    """Return what a task asks for as the campaign's truth has it."""
    if ask.profile:
        return "profile", ask.profile
    return ("devices", ask.whole) if ask.whole else ("share", ask.share)


@pytest.mark.parametrize("seed", range(150))
def test_it_finds_devices_exactly_where_there_are_some(seed: int) -> None:
    """A few devices in any state, a few tasks of any sort; what is found is allowed."""
    choose = random.Random(seed)
    name = choose.choice([None, "a30-24", "a100-40"])
    states = [Device(), Device(), Device("whole"), Device("shared", choose.choice((300, 460, 900)))]
    if name is not None:
        states.append(Device("parted", choose.choice((0b1, 0b11, 0b100))))
    devices = [choose.choice(states) for _ in range(choose.randint(1, 3))]
    sorts = [
        DeviceDemand(whole=1),
        DeviceDemand(whole=2),
        *(DeviceDemand(share=s) for s in (250, 334, 460, 540, 700)),
    ]
    sorts += [DeviceDemand(profile=profile) for profile in GEOMETRIES[name].profiles] if name else []
    asks = [choose.choice(sorts) for _ in range(choose.randint(1, 4))]
    found = pack(devices, None if name is None else GEOMETRIES[name], asks)
    states: States | None = tuple(map(_state, devices))
    layout = layout_of({"geometry": name})
    assert (found is not None) == fits(states, layout, list(map(_ask, asks)))
    for ask, held in zip(asks, found or (), strict=False):
        assert states is not None
        states = taken(states, layout, _ask(ask), held.model_dump() if isinstance(held, DeviceSlot) else held)
    assert states is not None


def test_first_fit_decreasing_would_need_one_device_more() -> None:
    """Shares of which no greedy order by size fills two devices."""
    shares = [500, 400, 300, 300, 250, 250]
    assert sum(shares) == 2 * WHOLE
    found = pack([Device(), Device()], None, [DeviceDemand(share=share) for share in shares])
    assert found is not None
    used = [sum(s for s, held in zip(shares, found, strict=True) if held == (d,)) for d in range(2)]
    assert used == [WHOLE, WHOLE]


def test_a_search_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not claim that there is no way."""
    monkeypatch.setattr(packing, "MAX_NODES", 3)
    with pytest.raises(TooLargeError, match="takes too long"):
        pack(
            [Device(), Device()],
            None,
            [DeviceDemand(share=share) for share in (500, 400, 300, 300, 250, 250)],
        )
    with pytest.raises(TooLargeError, match="takes too long"):
        pack([Device()], GEOMETRIES["a100-40"], [DeviceDemand(profile="1g.5gb")] * 4)
