"""Names of hardware: GPUs, machines, prices, and names that nobody knows."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.documents import load_catalogue
from clusterplan.instances.prediction.fill.predict import CATALOGUE
from clusterplan.instances.prediction.fill.rented import NETWORK_GBIT_PER_S, Rented, rented


def _rented(*names: str, **more: object) -> list[Rented]:
    return rented(names, load_catalogue(CATALOGUE), **more)  # type: ignore[arg-type]


def test_a_gpu_is_as_cheap_as_its_cheapest_machine() -> None:
    small, large = _rented("a100-40", " A100-80 ")
    assert small.price_usd_per_hour == pytest.approx(21.957642 / 8)
    assert large.price_usd_per_hour == pytest.approx(27.44705 / 8)
    assert small.network_gbit_per_s == 400 / 8
    assert large.gpu.memory_gb == 80


def test_a_machine_of_the_price_list() -> None:
    (one,) = _rented("g6.xlarge")
    assert (one.gpu.name, one.price_usd_per_hour) == ("l4", 0.8048)
    assert any("g6.xlarge" in sentence for sentence in one.said)


def test_every_machine_that_has_the_gpu_is_known() -> None:
    (one,) = _rented("l4")
    assert [server.gpus for server in one.servers] == [1, 1, 4, 8]
    assert all(server.sold == server.gpus for server in one.servers)
    (given,) = _rented("l4", prices={"l4": 0.5})
    assert {(server.price_usd_per_hour, server.sold) for server in given.servers} == {(0.5, 1)}
    (unlisted,) = _rented("k80")
    assert [(server.gpus, server.sold) for server in unlisted.servers] == [(8, 1)]


def test_the_gpu_of_every_machine_of_the_price_list_is_known() -> None:
    names = [machine.name for machine in load_catalogue(CATALOGUE).types if machine.gpus]
    known = {one.name: one.gpu.name for one in _rented(*names)}
    assert known["p6-b200.48xlarge"] == "b200"
    assert known["p6-b300.48xlarge"] == "b300"
    assert known["g7e.2xlarge"] == "rtx-pro-6000"


def test_what_is_given_wins() -> None:
    (one,) = _rented("l4", prices={"l4": 0.5}, limits={"l4": 3}, network_gbit_per_s=8)
    assert (one.price_usd_per_hour, one.limit) == (0.5, 3)
    assert one.network.seconds_per_byte == pytest.approx(1e-9)
    (same,) = _rented("L4", prices={"L4": 0.5}, limits={" l4": 3}, network_gbit_per_s=8)
    assert same == one


def test_hardware_that_the_list_lacks_has_no_price() -> None:
    (one,) = _rented("k80")
    assert one.price_usd_per_hour is None
    assert one.network_gbit_per_s == NETWORK_GBIT_PER_S


@pytest.mark.parametrize(
    ("names", "more", "what"),
    [
        (["h1000"], {}, "unknown"),
        ([" "], {}, "names none"),
        (["l4", "L4"], {}, "stands twice"),
        (["l4"], {"prices": {"h100": 1.0}}, "price 'h100': is not in the hardware"),
        (["l4"], {"limits": {"t4": 1}}, "limit 't4'"),
    ],
)
def test_what_is_not_known(names: list[str], more: dict[str, object], what: str) -> None:
    with pytest.raises(OptionError, match=what):
        _rented(*names, **more)
