"""Which devices hold which tasks, against every way to put them there."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.common.geometries import GEOMETRIES, Geometry
from clusterplan.instances.consolidation import packing
from clusterplan.instances.consolidation.devices import WHOLE, Ask, Device, DeviceSlot
from clusterplan.instances.consolidation.packing import pack

A30, A100 = GEOMETRIES["a30-24"], GEOMETRIES["a100-40"]


def _possible(devices: Sequence[Device], geometry: Geometry | None, asks: Sequence[Ask]) -> bool:
    """Return whether any choice of devices and slots for every task is allowed."""
    ways: list[list[tuple[Ask, int, int]]] = []
    for ask in asks:
        here = [(ask, d, 0) for d in range(len(devices))]
        if ask.profile:
            starts = geometry.profiles[ask.profile].starts if geometry else ()
            here = [(ask, d, start) for d in range(len(devices)) for start in starts]
        ways += [here] * (ask.whole or 1)
    return any(_allowed(devices, geometry, choice) for choice in itertools.product(*ways))


def _allowed(
    devices: Sequence[Device], geometry: Geometry | None, choice: Sequence[tuple[Ask, int, int]]
) -> bool:
    state = list(devices)
    for ask, d, start in choice:
        mode, used = state[d]
        if ask.whole:
            if mode != "free":
                return False
            state[d] = Device("whole")
        elif ask.share:
            if mode not in ("free", "shared") or used + ask.share > WHOLE:
                return False
            state[d] = Device("shared", used + ask.share)
        else:
            assert geometry is not None
            mask = geometry.profiles[ask.profile].mask(start)
            if mode not in ("free", "parted") or used & mask:
                return False
            state[d] = Device("parted", used | mask)
    return True


@pytest.mark.parametrize("seed", range(150))
def test_it_finds_devices_exactly_where_there_are_some(seed: int) -> None:
    """A few devices in any state, a few tasks of any sort; what is found is allowed."""
    choose = random.Random(seed)
    geometry = choose.choice([None, A30, A100])
    states = [Device(), Device(), Device("whole"), Device("shared", choose.choice((300, 460, 900)))]
    if geometry is not None:
        states.append(Device("parted", choose.choice((0b1, 0b11, 0b100))))
    devices = [choose.choice(states) for _ in range(choose.randint(1, 3))]
    sorts = [Ask(whole=1), Ask(whole=2), *(Ask(share=s) for s in (250, 334, 460, 540, 700))]
    sorts += [Ask(profile=name) for name in geometry.profiles] if geometry else []
    asks = [choose.choice(sorts) for _ in range(choose.randint(1, 4))]
    found = pack(devices, geometry, asks)
    assert (found is not None) == _possible(devices, geometry, asks)
    if found is not None:
        parts = [
            (ask, d, held.slot if isinstance(held, DeviceSlot) else 0)
            for ask, held in zip(asks, found, strict=True)
            for d in ([held.device] if isinstance(held, DeviceSlot) else held)
        ]
        assert _allowed(devices, geometry, parts)


def test_first_fit_decreasing_would_need_one_device_more() -> None:
    """Shares of which no greedy order by size fills two devices."""
    shares = [500, 400, 300, 300, 250, 250]
    assert sum(shares) == 2 * WHOLE
    found = pack([Device(), Device()], None, [Ask(share=share) for share in shares])
    assert found is not None
    used = [sum(s for s, held in zip(shares, found, strict=True) if held == (d,)) for d in range(2)]
    assert used == [WHOLE, WHOLE]


def test_a_search_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not claim that there is no way."""
    monkeypatch.setattr(packing, "MOST_NODES", 3)
    with pytest.raises(TooLargeError, match="takes too long"):
        pack([Device(), Device()], None, [Ask(share=share) for share in (500, 400, 300, 300, 250, 250)])
    with pytest.raises(TooLargeError, match="takes too long"):
        pack([Device()], A100, [Ask(profile="1g.5gb")] * 4)
