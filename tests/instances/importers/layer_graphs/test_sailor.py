"""Sailor: files, units and limits, what is assumed, and imports of every profile, alone and with others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import clusterplan
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers import import_sailor
from clusterplan.instances.importers.layer_graphs.sailor import (
    Info,
    Limits,
    Profiles,
    SailorOptions,
    Unit,
    assumptions,
    layer_count,
    units_of,
)

TIMES = {"0": (1.0, 2.0, 0.5)}
OPTIONS = SailorOptions(model_dir=Path("M"), types=("A", "A-tp4"), prices={"A": 1.0})


def said(*units: Unit) -> str:
    """Return all sentences."""
    return " ".join(assumptions(OPTIONS, dict.fromkeys(units, TIMES)))


def test_single_gpus() -> None:
    """Without tensor parallelism nothing of it is said."""
    text = said(Unit("A"))
    assert "One unit is one GPU with whole layers (tensor-parallel degree 1)." in text
    assert "Further GPUs of a stage divide" in text
    assert "tensor parallelism" not in text


def test_units_of_several_gpus() -> None:
    """What a unit is, what it costs, and whose memory counts."""
    text = said(Unit("A"), Unit("A", 4))
    assert "One unit of A is one GPU with whole layers" in text
    assert "One unit of A-tp4 is 4 A, which share every layer by tensor parallelism, at the price of" in text
    assert "Its memory is that of each of them" in text
    assert "The memory of A is unknown" in text


OPT_350 = ("A100-40", "A100-80", "GH-96", "RTX-2080", "RTX-3090", "Titan-RTX", "V100-16")
MEASURED = {
    "OPT-350": OPT_350,
    "OPT-30": ("A100-40", "GH-96"),
    "GPT-Neo-2.7": ("A100-40", "A100-80", "V100-16"),
}
LAYERS = {"OPT-350": 26, "OPT-30": 50, "GPT-Neo-2.7": 34}
LARGEST_IN_COMMON = {"OPT-350": 4, "OPT-30": 2, "GPT-Neo-2.7": 4}
PRICES = {"A100-80": 4.0, "RTX-2080": 0.2, "RTX-3090": 0.4, "Titan-RTX": 0.4}


def folder(shared_data: Path, model: str) -> Path:
    return shared_data / "sailor" / "profiles" / model


def prices(types: tuple[str, ...]) -> dict[str, float]:
    return {name: price for name, price in PRICES.items() if name in types}


@pytest.mark.parametrize(("model", "name"), [(model, name) for model in MEASURED for name in MEASURED[model]])
def test_every_measured_type(shared_data: Path, model: str, name: str) -> None:
    """Each type alone, at every microbatch that was measured on one GPU, keeps the source's times."""
    profile = json.loads((folder(shared_data, model) / name / "profile.json").read_text())
    for batch, degrees in profile.items():
        if "1" in degrees:
            instance = import_sailor(folder(shared_data, model), [name], int(batch), prices=prices((name,)))
            assert len(instance.layers) == LAYERS[model]
            total = sum(sum(times[:2]) for times in degrees["1"].values())
            assert sum(layer.compute_s[name] for layer in instance.layers) == pytest.approx(total)


@pytest.mark.parametrize("model", MEASURED)
def test_all_types_at_the_largest_microbatch(shared_data: Path, model: str) -> None:
    """`all` are the types with times of one GPU; by default the largest microbatch that all have."""
    instance = import_sailor(folder(shared_data, model), "all", prices=prices(MEASURED[model]))
    assert tuple(kind.name for kind in instance.types) == MEASURED[model]
    assert instance.probe_batch == LARGEST_IN_COMMON[model]
    assert all(kind.memory_gib for kind in instance.types)
    left_out = "V100-16 is left out: no time of one GPU" in " ".join(instance.assumptions)
    assert left_out == (model == "OPT-30")


def refusal(shared_data: Path, model: str, types: Any, **options: Any) -> str:
    with pytest.raises(InstanceError) as caught:
        import_sailor(folder(shared_data, model), types, **options)
    (line,) = str(caught.value).split("\n")
    return line


def test_missing_prices_are_one_line(shared_data: Path) -> None:
    """One fault names every type without a price, and the option to type."""
    line = refusal(shared_data, "OPT-350", "all", prices={"RTX-3090": 0.4})
    assert line.startswith("options: prices: no price is known of A100-80, RTX-2080, Titan-RTX; ")
    assert "give --price A100-80=USD,RTX-2080=USD,Titan-RTX=USD (per GPU and hour)" in line


def test_microbatch_that_a_type_lacks(shared_data: Path) -> None:
    """The fault names the types that lack it, and the microbatches that all have."""
    line = refusal(shared_data, "OPT-350", ["A100-40", "V100-16"], microbatch=8)
    assert line == "options: microbatch: 8 was not measured on one V100-16; measured on all types: 1, 2, 4"


def written(folder: Path, profiles: dict[str, Any], info: Any = None) -> Path:
    """Write profiles by GPU type, as data or text, and sizes of layers; return the folder of the model."""
    for gpu, profile in profiles.items():
        (folder / "M" / gpu).mkdir(parents=True)
        text = profile if isinstance(profile, str) else json.dumps(profile)
        (folder / "M" / gpu / "profile.json").write_text(text)
    if info is not None:
        (folder / "llm_info.json").write_text(json.dumps({"M": info}))
    return folder / "M"


SIZES = {"params_bytes": 8, "act_input_bytes": 1, "act_output_bytes": 2, "act_mem_bytes": 3, "other": 4}


def test_no_microbatch_in_common(tmp_path: Path) -> None:
    """Types without a common microbatch cannot be compared."""
    model = written(
        tmp_path, {n: {b: {"1": {"0": [1, 1, 1]}}} for n, b in (("A100-40", "1"), ("GH-96", "2"))}
    )
    with pytest.raises(InstanceError, match="microbatch: none was measured on all types"):
        import_sailor(model, "all")


def test_a_profile_that_is_not_chosen_plays_no_part(tmp_path: Path) -> None:
    """A broken file of another type spoils the import only if it is asked for."""
    profiles = {"A100-40": {"1": {"1": {"0": [1, 1, 1]}}}, "GH-96": "broken"}
    model = written(tmp_path, profiles, {"1": {"0": SIZES}})
    assert len(import_sailor(model, ["A100-40"]).layers) == 1
    with pytest.raises(InstanceError, match="is not valid JSON"):
        import_sailor(model, "all")


def test_known_cost_of_three_types(shared_data: Path) -> None:
    """The limits and the floor that make the mix interesting cost what they always did."""
    instance = import_sailor(
        folder(shared_data, "OPT-350"),
        ["A100-40", "V100-16", "GH-96"],
        4,
        {"A100-40": 8, "V100-16": 16, "GH-96": 4},
        60,
    )
    result = clusterplan.solve(instance, options=clusterplan.SolveOptions(time_limit_s=60))
    assert result.objective == pytest.approx(228.657, abs=0.001)


PARALLEL = {
    "GPT-Neo-2.7": ["A100-40-tp2", "A100-40-tp4", "A100-80-tp2", "V100-16-tp2", "V100-16-tp4"],
    "OPT-30": ["A100-40-tp2", "A100-40-tp4", "GH-96-tp2", "GH-96-tp4", "V100-16-tp4"],
    "OPT-350": ["A100-40-tp4", "RTX-2080-tp8", "V100-16-tp8"],
}


@pytest.mark.parametrize("model", PARALLEL)
def test_every_degree(shared_data: Path, model: str) -> None:
    """All types at all degrees, with the measured times, shares of memory and prices of so many GPUs."""
    source = folder(shared_data, model)
    instance = import_sailor(source, "all", prices=prices(MEASURED[model]), tensor_parallel="all")
    types = {one.name: one for one in instance.types}
    assert set(PARALLEL[model]) <= set(types)
    info = json.loads((shared_data / "sailor" / "llm_info.json").read_text())[model]
    for name in PARALLEL[model]:
        gpu, _, degree = name.partition("-tp")
        if gpu in types:
            assert types[name].price_usd_per_hour == int(degree) * types[gpu].price_usd_per_hour
            assert types[name].memory_gib == types[gpu].memory_gib
        profile = json.loads((source / gpu / "profile.json").read_text())
        batch = int(instance.probe_batch)
        for key, layer in enumerate(instance.layers):
            forward, backward, _ = profile[str(batch)][degree][str(key)]
            assert layer.compute_s[name] == pytest.approx(forward + backward)
            size = info[degree][str(key)]
            held = 4 * size["params_bytes"] + batch * size["act_mem_bytes"]
            assert layer.memory_on(name) == pytest.approx(held / 2**30)
    assert instance.stage_rule == "free_cuts"


def test_what_the_source_lacks_is_left_out(shared_data: Path) -> None:
    """OPT-30 has times of eight V100-16, and no sizes for them; one alone was not measured."""
    instance = import_sailor(folder(shared_data, "OPT-30"), "V100-16", tensor_parallel="1,4,8")
    assert [one.name for one in instance.types] == ["V100-16-tp4"]
    said = " ".join(instance.assumptions)
    assert "V100-16 is left out: no time of one GPU was measured on it." in said
    assert (
        "V100-16-tp8 is left out: llm_info.json has no sizes for tensor-parallel degree 8 of OPT-30." in said
    )


def test_a_profile_of_another_model_is_left_out_of_all(tmp_path: Path) -> None:
    """By name it is refused."""
    profiles = {
        name: {"1": {"1": dict.fromkeys(layers, (1, 1, 1))}}
        for name, layers in (("A100-40", "01"), ("GH-96", "0"))
    }
    model = written(tmp_path, profiles, {"1": {"0": SIZES, "1": SIZES}})
    every = import_sailor(model, "all")
    assert [one.name for one in every.types] == ["A100-40"]
    assert "GH-96 is left out: its profile has 1 layers, and M has 2." in every.assumptions
    with pytest.raises(InstanceError, match="it has 1 and is of another model"):
        import_sailor(model, "GH-96")


@pytest.mark.parametrize(
    ("types", "options", "words"),
    [
        ("V100-16-tp8", {}, "llm_info.json: OPT-30: has no tensor-parallel degree '8'; there are: 2, 1, 4"),
        (
            "V100-16-tp2",
            {},
            "types: has no time of 2 GPUs (tensor-parallel degree 2) of V100-16, only of degr",
        ),
        ("V100-16", {"tensor_parallel": "1,2"}, "types: has too few profiles: V100-16 is left out: no time"),
        (
            "GH-96-tp4",
            {"microbatch": 3},
            "microbatch: 3 was not measured on GH-96-tp4; measured on all types: 1",
        ),
        ("GH-96", {"tensor_parallel": "4x"}, "tensor_parallel: '4x' is no number of GPUs"),
        ("GH-96-tp4", {"limit": {"GH-96": 3}}, "limit.GH-96: 3 GPUs are too few for GH-96-tp4"),
        ("GH-96-tp4", {"limit": {"GH-96-tp2": 3}}, "limit.GH-96-tp2: unknown GPU type 'GH-96-tp2'"),
    ],
)
def test_refusals_of_degrees(shared_data: Path, types: str, options: dict[str, Any], words: str) -> None:
    """One line with the cause."""
    assert words in refusal(shared_data, "OPT-30", types, **options)


def test_limits_of_gpus(shared_data: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One GPU type has a budget beside its limits in units; of two the import warns."""
    source = folder(shared_data, "OPT-30")
    one = import_sailor(source, "GH-96", limit={"GH-96": 8}, tensor_parallel="1,2,4")
    assert [kind.limit for kind in one.types] == [8, 4, 2]
    assert one.hourly_budget_usd == pytest.approx(8 * 11.06)
    assert caplog.messages == []
    two = import_sailor(source, "GH-96,A100-40", limit={"GH-96": 8, "A100-40": 4}, tensor_parallel="2,4")
    assert [kind.limit for kind in two.types] == [4, 2, 2, 1]
    assert two.hourly_budget_usd == pytest.approx(8 * 11.06 + 4 * 3.673385)
    assert caplog.messages[0].startswith("The limit of 8 GH-96 binds each of its types, not all together")
    assert set(caplog.messages) <= set(two.assumptions)


@pytest.mark.parametrize(
    ("model", "types", "floor"),
    [
        ("GPT-Neo-2.7", "A100-40-tp2,V100-16-tp4", 8),
        ("OPT-30", "GH-96-tp4,A100-40-tp4", 4),
        ("OPT-350", "A100-40-tp4,V100-16-tp2", 60),
    ],
)
def test_models_plan_with_tensor_parallelism(shared_data: Path, model: str, types: str, floor: float) -> None:
    """At a floor within reach there is a proven plan, and it is certified."""
    instance = import_sailor(folder(shared_data, model), types, throughput=floor)
    result = clusterplan.solve(instance, options=clusterplan.SolveOptions(time_limit_s=60))
    assert result.status == "optimal"
    assert result.certified_gap is not None
    assert clusterplan.verify(instance, result).ok


def test_objective_and_stage_rule(shared_data: Path) -> None:
    """As asked for; of single GPUs neighbouring stages differ in type unless told otherwise."""
    source = folder(shared_data, "OPT-350")
    plain = import_sailor(source, "A100-40")
    assert (plain.objective, plain.stage_rule) == ("cost", "maximal_runs")
    asked = import_sailor(source, "A100-40", objective="throughput", stage_rule="free_cuts")
    assert (asked.objective, asked.stage_rule) == ("throughput", "free_cuts")
    runs = import_sailor(source, "A100-40-tp4", stage_rule="maximal_runs")
    assert runs.stage_rule == "maximal_runs"


DEGREES = {"A100-40": [1, 2, 4], "V100-16": [4, 8]}
TWO_PRICES = {"A100-40": 2.0, "V100-16": 1.0}


def asked(types: Sequence[str], degrees: Sequence[str] | None = None) -> list[Unit]:
    """Return the units that are meant."""
    return units_of(types, degrees, list(DEGREES), DEGREES.__getitem__)


@pytest.mark.parametrize(
    ("types", "degrees", "expected", "by_name"),
    [
        (["A100-40"], None, ["A100-40"], [True]),
        (["A100-40-tp4", "V100-16-tp1"], None, ["A100-40-tp4", "V100-16"], [True, True]),
        (["all"], None, ["A100-40", "V100-16"], [False, False]),
        (["A100-40", "V100-16-tp8"], "21", ["A100-40", "A100-40-tp2", "V100-16-tp8"], [False, False, True]),
        (
            ["all"],
            ["all"],
            ["A100-40", "A100-40-tp2", "A100-40-tp4", "V100-16-tp4", "V100-16-tp8"],
            [False] * 5,
        ),
    ],
)
def test_what_types_stand_for(
    types: list[str], degrees: Sequence[str] | None, expected: list[str], by_name: list[bool]
) -> None:
    """Degrees are for GPU types that name none; only types by name have to be there."""
    units = asked(types, degrees)
    assert [unit.name for unit in units] == expected
    assert [unit.named for unit in units] == by_name


def test_unknown_types_are_refused_together() -> None:
    """With or without a degree."""
    with pytest.raises(InstanceError) as caught:
        asked(["H100", "A100-40", "H100-tp4"])
    assert [line.split(";")[0] for line in str(caught.value).split("\n")] == [
        "options: types.H100: unknown GPU type 'H100'",
        "options: types.H100-tp4: unknown GPU type 'H100-tp4'",
    ]


ONE, TWO, FOUR = (Unit("A100-40", degree) for degree in (1, 2, 4))
OTHER = Unit("V100-16", 4)


def test_limits_count_gpus_or_units() -> None:
    """Eleven GPUs make two units of four; a limit of the type itself counts units."""
    some = Limits({"A100-40": 11, "V100-16-tp4": 3}, [ONE, FOUR, OTHER])
    assert [some.of(unit) for unit in some.units] == [11, 2, 3]
    assert Limits({}, [ONE]).of(ONE) is None
    assert list(some.complaints()) == []
    ((path, what),) = Limits({"A100-40": 3}, [ONE, FOUR]).complaints()
    assert (path, what.split(";")[0]) == (
        "limit.A100-40",
        "3 GPUs are too few for A100-40-tp4, whose units have 4",
    )


def test_a_limit_that_types_share_is_a_budget() -> None:
    """Eight GPUs of 2 USD/h in one, two or four a unit: no plan within 16 USD/h takes more."""
    some = Limits({"A100-40": 8}, [ONE, TWO, FOUR])
    assert some.bind_together
    assert some.hourly_budget_usd(TWO_PRICES) == 16.0
    assert list(some.sentences(16.0)) == [
        "The 8 A100-40 are shared by all types: the hourly budget is what they cost. Alone, a type has at "
        "most 8 of A100-40, 4 of A100-40-tp2, 2 of A100-40-tp4.",
        "The hourly budget, 16 USD, is the price of all GPUs there are.",
    ]


def test_of_several_gpu_types_the_budget_is_no_more_than_necessary() -> None:
    """Where all have a limit it is what they cost together, and a sentence says what it leaves open."""
    some = Limits({"A100-40": 8, "V100-16-tp4": 1}, [ONE, FOUR, OTHER])
    assert not some.bind_together
    assert some.hourly_budget_usd(TWO_PRICES) == 8 * 2 + 4
    first = next(some.sentences(20.0))
    assert first.startswith("The limit of 8 A100-40 binds each of its types, not all together")
    assert Limits({"A100-40": 8}, [ONE, FOUR, OTHER]).hourly_budget_usd(TWO_PRICES) is None


def test_limits_that_nothing_shares_need_no_budget() -> None:
    """One type for each limit, or a limit for each type."""
    for some in (Limits({"A100-40": 8}, [FOUR]), Limits({"A100-40": 4, "A100-40-tp4": 1}, [ONE, FOUR])):
        assert some.hourly_budget_usd(TWO_PRICES) is None
        assert list(some.sentences(None)) == []


@pytest.mark.parametrize(
    ("given", "meant"), [("1, 2,all", ("1", "2", "all")), ([1, 4], ("1", "4")), (None, None)]
)
def test_degrees_as_text_or_numbers(given: Any, meant: tuple[str, ...] | None) -> None:
    """As typed on the command line, or in Python."""
    options = SailorOptions(model_dir=Path("M"), types="A,B", tensor_parallel=given)  # type: ignore[arg-type]
    assert (options.types, options.tensor_parallel) == (("A", "B"), meant)


TIMES_OF_TWO = {"0": [1, 2, 0.5], "1": [1, 2, 0.5]}


@pytest.fixture
def profiled(tmp_path: Path) -> Path:
    """Return a model with two profiles, one of them broken."""
    profile = {"1": {"1": TIMES_OF_TWO}, "4": {"1": TIMES_OF_TWO, "2": {"0": [1, 2, 0]}}, "x": {"3": {}}}
    return written(
        tmp_path, {"A": profile, "B": "broken"}, {"1": {"1": SIZES, "0": SIZES}, "2": {"1": SIZES}}
    )


def test_what_was_measured(profiled: Path) -> None:
    """Microbatches and degrees are numbers; a file that nobody asks for may be broken."""
    profiles = Profiles(profiled)
    assert profiles.gpus == ["A", "B"]
    assert profiles.degrees("A") == [1, 2, 3]
    assert [profiles.microbatches(Unit("A", degree)) for degree in (1, 2, 4)] == [[1, 4], [4], []]
    assert profiles.times(Unit("A"), 4, "01") == {"0": (1, 2, 0.5), "1": (1, 2, 0.5)}
    with pytest.raises(InstanceError, match="is not valid JSON"):
        profiles.degrees("B")


def test_a_profile_of_another_model(profiled: Path) -> None:
    """It has another number of layers, which the fault names."""
    with pytest.raises(InstanceError, match=r"not 0 to 1, .* it has 1 and is of another model: leave A out"):
        Profiles(profiled).times(Unit("A", 2), 4, "01")


def test_a_profile_for_another_planner(profiled: Path) -> None:
    """Sailor's repository has profiles in the layouts of its baselines too."""
    (profiled / "A" / "profile.json").write_text(json.dumps({"1": {"maxDevices": 1, "nodes": []}}))
    with pytest.raises(InstanceError, match="is in Piper's layout"):
        Profiles(profiled).degrees("A")


def test_sizes_stand_in_the_order_of_the_layers(profiled: Path) -> None:
    """For each degree; what is not numbered without a gap is refused."""
    info = Info(profiled.parent / "llm_info.json", "M")
    assert list(info.sizes(1)) == ["0", "1"]
    assert info.sizes(1)["0"].act_mem_bytes == 3
    assert [info.has(degree) for degree in (1, 2, 4)] == [True, True, False]
    assert [layer_count(info.data, "M", degree) for degree in (1, 2, 4)] == [2, 1, None]
    with pytest.raises(InstanceError, match=r"M\.2: its layers are not numbered"):
        info.sizes(2)
    with pytest.raises(InstanceError, match="has no tensor-parallel degree '4'; there are: 1, 2"):
        info.sizes(4)
