"""Parts of GPUs as importers write them: thousandths, geometries, and who holds what."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from clusterplan.instances.consolidation.devices import WHOLE, DeviceDemand, Devices
from clusterplan.instances.importers.clusters.device_sharing import (
    Gpus,
    Holding,
    UnclearDemandError,
    check_available,
    check_count,
    common_demand,
    device_assumptions,
    fewest_devices,
    fields_of,
    geometry_of,
    known_devices_fit,
    list_with_reasons,
    taken,
    thousandths,
    worth,
)


def multisets(parts: tuple[int, ...], most: int) -> Iterator[tuple[int, ...]]:
    """Yield every multiset of parts that exceeds a sum by its last part at most."""
    for length in range(1, most // min(parts) + 2):
        yield from itertools.combinations_with_replacement(parts, length)


@pytest.mark.parametrize(
    ("parts", "size", "exact"),
    [((5,), 15, True), ((1, 2, 3), 7, True), ((4, 6), 16, True), ((3, 7), 11, True), ((1,), 80, False)],
)
def test_thousandths_against_every_multiset(parts: tuple[int, ...], size: int, exact: bool) -> None:
    """What fits in thousandths fits on the device; and the other way round where they are rounded down."""
    shares = thousandths(parts, size)
    for chosen in multisets(parts, size) if exact else (parts * 81, parts * 77, parts * 76):
        fits = sum(chosen) <= size
        counted = sum(shares[part] for part in chosen) <= WHOLE
        assert counted <= fits
        if exact:
            assert counted == fits


def test_thousandths_of_large_and_small_sizes() -> None:
    """Mebibytes are rounded up; parts below a thousandth are one; no part is none."""
    assert thousandths([8192, 10_000], 81_920) == {8192: 100, 10_000: 122}
    assert thousandths([100_100], 1_000_003) == {100_100: 101}
    assert thousandths([1], 2000) == {1: 1}
    assert thousandths([], 8) == {}


@pytest.mark.parametrize(
    ("model", "profiles", "name"),
    [
        ("NVIDIA-A100-SXM4-40GB", ["1g.5gb"], "a100-40"),
        ("NVIDIA-A100-SXM4-80GB", ["1g.10gb"], "a100-80"),
        ("NVIDIA-H100-80GB-HBM3", [], "h100-80"),
        ("NVIDIA-A30", ["2g.12gb"], "a30-24"),
        ("a100", ["3g.20gb"], "a100-40"),
        ("", ["1g.5gb", "2g.10gb"], "a100-40"),
        # An A100 of 40 GB has it in two slots, one of 80 GB in one.
        ("a100", ["1g.10gb"], None),
        ("", ["1g.20gb"], "a100-80"),
        ("NVIDIA-A100-SXM4-40GB", ["3g.40gb"], None),
        ("NVIDIA-H200", ["1g.18gb"], None),
    ],
)
def test_geometry_of_a_model(model: str, profiles: list[str], name: str | None) -> None:
    """By model, memory and profiles; none where they do not decide."""
    assert geometry_of(model, profiles) == name


def test_what_others_hold_leaves_room_for_the_planned() -> None:
    """Packed by themselves the others would share one device, and the planned ones not fit."""
    others, planned = [Holding(DeviceDemand(share=300))] * 2, [Holding(DeviceDemand(share=700))] * 2
    rows = taken(Gpus(2), others, planned)
    assert rows is not None
    assert sorted(row["device"] for row in rows) == [0, 1]
    assert taken(Gpus(1), others, planned) is None


def test_taken_in_all_forms() -> None:
    """A document holds them."""
    gpus = Gpus(4, "a100-40")
    others = [
        Holding(ask)
        for ask in (DeviceDemand(whole=2), DeviceDemand(share=10), DeviceDemand(profile="3g.20gb"))
    ]
    found = gpus.document(others, [])
    assert found is not None
    devices = Devices.model_validate(found["gpu"])
    assert sorted(state.mode for state in devices.states) == ["parted", "shared", "whole", "whole"]
    assert Gpus().document([], []) is None
    # Rather all than nothing, where there is no room.
    full = Gpus(1).document([Holding(DeviceDemand(whole=2))], [])
    assert full is not None
    assert full["gpu"]["taken"] == [{"device": 0}]


def test_devices_that_are_known() -> None:
    """Others are there, unless that leaves no room, for then what is said is of another time."""
    said = [Holding(DeviceDemand(whole=1), (0,)), Holding(DeviceDemand(share=600), (2,))]
    assert known_devices_fit(Gpus(3), [*said, Holding(DeviceDemand(share=600))])
    rows = taken(Gpus(3), said, [Holding(DeviceDemand(share=600))])
    assert rows == [{"device": 0}, {"device": 2, "share": 600}]
    for wrong in (
        Holding(DeviceDemand(share=1), (0,)),
        Holding(DeviceDemand(share=600), (2,)),
        Holding(DeviceDemand(share=1), (3,)),
    ):
        assert not known_devices_fit(Gpus(3), [*said, wrong])
        assert taken(Gpus(3), [*said, wrong], []) is not None


def test_fewest_devices() -> None:
    """Seven small partitions fill one; the large ones of two slots have three places on each."""
    assert fewest_devices("a100-40", {"1g.5gb": 7}) == 1
    assert fewest_devices("a100-40", {"1g.5gb": 8}) == 2
    assert fewest_devices("a100-40", {"2g.10gb": 7}) == 3
    assert fewest_devices("a100-40", {}) == 0
    for many in (65, 10**15):
        with pytest.raises(UnclearDemandError, match="more partitions than 64 devices"):
            fewest_devices("a30-24", {"4g.24gb": many})


def test_fields_and_worth() -> None:
    """Each form of an ask, how many GPUs it is, and the devices where those of all tasks are known."""
    assert fields_of(None, {}) == {}
    assert fields_of(DeviceDemand(whole=2), {}) == {"devices": {"gpu": 2}}
    assert fields_of(DeviceDemand(profile="p"), {"a": [()]}) == {"profile": {"gpu": "p"}}
    assert fields_of(DeviceDemand(share=5), {"a": [(1,), (0,)], "b": [(1,), ()]}) == {
        "share": {"gpu": 5},
        "current_devices": {"a": [{"gpu": [1]}, {"gpu": [0]}]},
    }
    assert (worth(DeviceDemand(whole=2), []), worth(DeviceDemand(share=5), [])) == (2, 0.005)
    # The larger of two slots of eight and one of eight.
    assert worth(DeviceDemand(profile="1g.10gb"), ["a100-40", "a100-80"]) == 0.25


def test_what_is_not_clear() -> None:
    """Asks that differ, none at all, and too many devices."""
    assert common_demand([DeviceDemand(1), DeviceDemand(1)]) == DeviceDemand(1)
    for asks in ([], [DeviceDemand(1), DeviceDemand(2)]):
        with pytest.raises(UnclearDemandError):
            common_demand(asks)
    check_count(64)
    with pytest.raises(UnclearDemandError, match="has 65 GPUs"):
        check_count(65)
    check_available([Gpus(), Gpus(1, "a100-40")], "1g.5gb")
    for gpus, profile in (
        ([Gpus()], ""),
        ([Gpus(1), Gpus(0, "a100-40")], "1g.5gb"),
        ([Gpus(1, "a30-24")], "x"),
    ):
        with pytest.raises(UnclearDemandError, match=r"of which no node has any|devices of no node have"):
            check_available(gpus, profile)
    assert list_with_reasons({"a\x07": "b\nc"}) == ["a\\x07 (b c)"]


def test_sentences() -> None:
    """Of rounding and partitions only where there are."""
    assert len(list(device_assumptions("pod", False, False))) == 1
    assert len(list(device_assumptions("pod", True, True))) == 3
