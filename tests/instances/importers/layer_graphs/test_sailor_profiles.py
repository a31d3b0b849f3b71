"""Units of Sailor's imports: what names stand for, and what limits in GPUs mean.

Options of Sailor's imports.

Sailor's files: what was measured, and sizes by tensor-parallel degree.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.layer_graphs.sailor_profiles import (
    Info,
    Limits,
    Profiles,
    SailorOptions,
    Unit,
    find_info,
    units_of,
)

MEASURED = {"A100-40": [1, 2, 4], "V100-16": [4, 8]}
PRICES = {"A100-40": 2.0, "V100-16": 1.0}


def names(types: Sequence[str], degrees: Sequence[str] | None = None) -> list[str]:
    """Return the names of the units that are meant."""
    return [unit.name for unit in units_of(types, degrees, list(MEASURED), MEASURED.__getitem__)]


def test_names_of_units() -> None:
    """A GPU alone has the name of its type; four have the degree behind it."""
    assert (Unit("GH-96").name, Unit("GH-96", 4).name) == ("GH-96", "GH-96-tp4")


@pytest.mark.parametrize(
    ("types", "degrees", "expected"),
    [
        (["A100-40"], None, ["A100-40"]),
        (["A100-40-tp4", "V100-16-tp1"], None, ["A100-40-tp4", "V100-16"]),
        (["all"], None, ["A100-40", "V100-16"]),
        (["A100-40", "V100-16-tp8"], ["2", "1"], ["A100-40", "A100-40-tp2", "V100-16-tp8"]),
        (["all"], ["all"], ["A100-40", "A100-40-tp2", "A100-40-tp4", "V100-16-tp4", "V100-16-tp8"]),
    ],
)
def test_what_types_stand_for(types: list[str], degrees: list[str] | None, expected: list[str]) -> None:
    """Degrees are for GPU types that name none."""
    assert names(types, degrees) == expected


def test_only_types_by_name_have_to_be_there() -> None:
    """The others are left out where the source lacks them."""
    (alone,) = units_of(["A100-40"], None, list(MEASURED), MEASURED.__getitem__)
    (four,) = units_of(["A100-40"], ["4"], list(MEASURED), MEASURED.__getitem__)
    assert (alone.named, four.named) == (True, False)


def test_unknown_types_are_refused_together() -> None:
    """With or without a degree."""
    with pytest.raises(InstanceError) as caught:
        names(["H100", "A100-40", "H100-tp4"])
    assert [line.split(";")[0] for line in str(caught.value).split("\n")] == [
        "options: types.H100: unknown GPU type 'H100'",
        "options: types.H100-tp4: unknown GPU type 'H100-tp4'",
    ]


def limits(given: dict[str, int], *units: Unit) -> Limits:
    """Return the limits of these units."""
    return Limits(given, units)


ONE, TWO, FOUR = (Unit("A100-40", degree) for degree in (1, 2, 4))
OTHER = Unit("V100-16", 4)


def test_limits_count_gpus_or_units() -> None:
    """Eleven GPUs make two units of four; a limit of the type itself counts units."""
    some = limits({"A100-40": 11, "V100-16-tp4": 3}, ONE, FOUR, OTHER)
    assert [some.of(unit) for unit in some.units] == [11, 2, 3]
    assert limits({}, ONE).of(ONE) is None
    assert list(some.complaints()) == []
    ((path, what),) = limits({"A100-40": 3}, ONE, FOUR).complaints()
    assert (path, what.split(";")[0]) == (
        "limit.A100-40",
        "3 GPUs are too few for A100-40-tp4, whose units have 4",
    )


def test_a_limit_that_types_share_is_a_budget() -> None:
    """Eight GPUs of 2 USD/h in one, two or four a unit: no plan within 16 USD/h takes more."""
    some = limits({"A100-40": 8}, ONE, TWO, FOUR)
    assert some.bind_together
    assert some.hourly_budget_usd(PRICES) == 16.0
    assert list(some.sentences(16.0)) == [
        "The 8 A100-40 are shared by all types: the hourly budget is what they cost. Alone, a type has at "
        "most 8 of A100-40, 4 of A100-40-tp2, 2 of A100-40-tp4.",
        "The hourly budget, 16 USD, is the price of all GPUs there are.",
    ]


def test_of_several_gpu_types_the_budget_is_no_more_than_necessary() -> None:
    """Where all have a limit it is what they cost together, and a sentence says what it leaves open."""
    some = limits({"A100-40": 8, "V100-16-tp4": 1}, ONE, FOUR, OTHER)
    assert not some.bind_together
    assert some.hourly_budget_usd(PRICES) == 8 * 2 + 4
    first = next(some.sentences(20.0))
    assert first.startswith("The limit of 8 A100-40 binds each of its types, not all together")
    assert limits({"A100-40": 8}, ONE, FOUR, OTHER).hourly_budget_usd(PRICES) is None


def test_limits_that_nothing_shares_need_no_budget() -> None:
    """One type for each limit, or a limit for each type."""
    for some in (limits({"A100-40": 8}, FOUR), limits({"A100-40": 4, "A100-40-tp4": 1}, ONE, FOUR)):
        assert some.hourly_budget_usd(PRICES) is None
        assert list(some.sentences(None)) == []


@pytest.mark.parametrize(
    ("given", "meant"), [("1, 2,all", ("1", "2", "all")), ([1, 4], ("1", "4")), (None, None)]
)
def test_degrees_as_text_or_numbers(given: Any, meant: tuple[str, ...] | None) -> None:
    """As typed on the command line, or in Python."""
    options = SailorOptions(model_dir=Path("M"), types="A,B", tensor_parallel=given)  # type: ignore[arg-type]
    assert (options.types, options.tensor_parallel) == (("A", "B"), meant)


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
