"""Sailor's files: what was measured, and sizes by tensor-parallel degree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.sailor.profiles import Info, Profiles, find_info
from clusterplan.instances.importers.sailor.units import Unit

LAYERS = {"0": [1, 2, 0.5], "1": [1, 2, 0.5]}
SIZES = {"params_bytes": 8, "act_input_bytes": 1, "act_output_bytes": 2, "act_mem_bytes": 3, "other": 4}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a model with two profiles, one of them broken."""
    for gpu in ("A", "B"):
        (tmp_path / "M" / gpu).mkdir(parents=True)
    profile = {"1": {"1": LAYERS}, "4": {"1": LAYERS, "2": {"0": [1, 2, 0]}}, "x": {"3": {}}}
    (tmp_path / "M" / "A" / "profile.json").write_text(json.dumps(profile))
    (tmp_path / "M" / "B" / "profile.json").write_text("broken")
    info = {"M": {"1": {"1": SIZES, "0": SIZES}, "2": {"1": SIZES}}}
    (tmp_path / "llm_info.json").write_text(json.dumps(info))
    return tmp_path / "M"


def test_what_was_measured(folder: Path) -> None:
    """Microbatches and degrees are numbers; a file that nobody asks for may be broken."""
    profiles = Profiles(folder)
    assert profiles.gpus == ["A", "B"]
    assert profiles.degrees("A") == [1, 2, 3]
    assert [profiles.microbatches(Unit("A", degree)) for degree in (1, 2, 4)] == [[1, 4], [4], []]
    assert [profiles.layers(Unit("A", degree), 4) for degree in (1, 2, 4)] == [2, 1, None]
    assert profiles.times(Unit("A"), 4, "01") == {"0": (1, 2, 0.5), "1": (1, 2, 0.5)}
    with pytest.raises(InstanceError, match="is not valid JSON"):
        profiles.degrees("B")


def test_a_profile_of_another_model(folder: Path) -> None:
    """It has another number of layers, which the fault names."""
    with pytest.raises(InstanceError, match=r"not 0 to 1, .* it has 1 and is of another model: leave A out"):
        Profiles(folder).times(Unit("A", 2), 4, "01")


def test_a_profile_for_another_planner(folder: Path) -> None:
    """Sailor's repository has profiles in the layouts of its baselines too."""
    (folder / "A" / "profile.json").write_text(json.dumps({"1": {"maxDevices": 1, "nodes": []}}))
    with pytest.raises(InstanceError, match="is in Piper's layout"):
        Profiles(folder).degrees("A")


def test_sizes_stand_in_the_order_of_the_layers(folder: Path) -> None:
    """For each degree; what is not numbered without a gap is refused."""
    path = find_info(folder)
    assert path is not None
    info = Info(path, "M")
    assert list(info.sizes(1)) == ["0", "1"]
    assert info.sizes(1)["0"].act_mem_bytes == 3
    assert [info.has(degree) for degree in (1, 2, 4)] == [True, True, False]
    assert [info.layers(degree) for degree in (1, 2, 4)] == [2, 1, None]
    with pytest.raises(InstanceError, match=r"M\.2: its layers are not numbered"):
        info.sizes(2)
    with pytest.raises(InstanceError, match="has no tensor-parallel degree '4'; there are: 1, 2"):
        info.sizes(4)
