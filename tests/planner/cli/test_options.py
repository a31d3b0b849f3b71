"""Which of several places an option is taken from."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli.common import RunOptions
from clusterplan.planner.cli.options import (
    DEFAULT_TIME_LIMIT_S,
    batch_options,
    merged_options,
    search_options,
)


def test_the_command_line_wins_over_the_file_and_that_over_defaults(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("solver: greedy\ngap: 0.1\nthreads: 3\nmethod_options: {a: 1, b: 2}\n")
    run = RunOptions(files=["x"], config=config, threads=1, settings=["b=3"])
    solver, options = search_options(run)
    assert (solver, options.gap, options.threads) == ("greedy", 0.1, 1)
    assert options.time_limit_s == DEFAULT_TIME_LIMIT_S
    assert options.method_options == {"a": 1, "b": 3}
    named, _ = search_options(RunOptions(files=["x"], config=config, solver="exact"))
    assert named == "exact"


def test_a_time_limit_of_0_is_none() -> None:
    assert merged_options(None, {"time_limit_s": 0}, [])[1].time_limit_s is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.5", 0.5), ("true", True), ("word", "word"), ("[1]", "[1]")],
)
def test_settings_are_numbers_where_they_look_like_it(text: str, value: object) -> None:
    found = merged_options(None, {}, [f"key={text}"])[1].method_options["key"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("setting", ["key", "=3", ""])
def test_settings_are_pairs(setting: str) -> None:
    with pytest.raises(OptionError, match="KEY=VALUE"):
        merged_options(None, {}, [setting])


@pytest.mark.parametrize("text", ["- a\n", "solver: 3\n", "bogus: 1\n", "gap: [\n"])
def test_a_file_that_holds_no_options_is_refused(tmp_path: Path, text: str) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(text)
    with pytest.raises(OptionError):
        merged_options(config, {}, [])


def test_dask_and_its_scheduler_belong_together() -> None:
    run = RunOptions(files=["x"], engine="dask", scheduler="tcp://here:1", jobs=2, kill_after=9.0)
    batch = batch_options(run)
    assert (batch.scheduler, batch.jobs, batch.kill_after_s) == ("tcp://here:1", 2, 9.0)
    for alone in (
        RunOptions(files=["x"], engine="dask"),
        RunOptions(files=["x"], scheduler="tcp://here:1"),
    ):
        with pytest.raises(OptionError, match="belong together"):
            batch_options(alone)
