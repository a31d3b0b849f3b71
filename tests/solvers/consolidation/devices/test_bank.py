"""The devices of one name on one server."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.hardware import GEOMETRIES
from clusterplan.instances.consolidation.devices import Ask, Device, DeviceSlot
from clusterplan.solvers.consolidation.devices.bank import Bank

A100 = GEOMETRIES["a100-40"]


def test_the_fullest_device_is_taken() -> None:
    """Shares go on the shared device that they fill best; whole devices stay free as long as they can."""
    bank = Bank([Device("shared", 300), Device("shared", 500), Device()], None)
    assert bank.choose(Ask(share=400)) == (1,)
    assert bank.gap(Ask(share=400)) == pytest.approx(0.1)
    assert bank.choose(Ask(share=600)) == (0,)
    assert bank.choose(Ask(share=800)) == (2,)
    assert bank.gap(Ask(whole=2)) is None
    bank.take(Ask(whole=1), bank.choose(Ask(whole=1)))
    assert bank.gap(Ask(share=800)) is None
    assert (bank.free, bank.spare) == (0, 1200)


def test_partitions_go_behind_first() -> None:
    """Slot 6 is of use to few; a device that is partitioned already comes before a free one."""
    bank = Bank([Device(), Device("parted", 0b1)], A100)
    small, large = Ask(profile="1g.5gb"), Ask(profile="4g.20gb")
    assert bank.choose(small) == DeviceSlot(device=1, slot=6)
    assert bank.choose(large) == DeviceSlot(device=0, slot=0)
    assert bank.gap(Ask(profile="no such")) is None
    held = bank.choose(large)
    bank.take(large, held)
    assert bank.mode[0] != 0
    bank.give(large, held)
    assert (bank.free, bank.used[0]) == (1, 0)


def test_a_device_of_others_is_never_free() -> None:
    """What they hold stays when a share goes."""
    bank = Bank([Device("shared", 300)], None)
    bank.take(Ask(share=200), (0,))
    bank.give(Ask(share=200), (0,))
    assert (bank.used, bank.free, bank.spare) == ([300], 0, 700)
