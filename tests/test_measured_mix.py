"""A mix of real measurements: pairs of Gavel, groups of Muri, and operating points of language models."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmark_mix(monkeypatch: pytest.MonkeyPatch, shared_data: Path) -> Any:
    """Return the benchmark, on the published data."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    runner = importlib.import_module("runner")
    monkeypatch.setattr(runner, "DATA", shared_data)
    return importlib.import_module("mix")


def row_of(benchmark: Any, **case: Any) -> dict[str, Any]:
    """Return what is measured of an instance, which holds."""
    (row,) = benchmark.measured({"limit_s": 60, **case})
    assert row["status"] == "nothing to serve" or (row["verified"] and not row["claimed"])
    return row


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1_000, 1_000_000])
def test_pairs_of_gavel(jobs: int, benchmark_mix: Any) -> None:
    """Nearly proven; the best pair first is several per cent worse, and nobody shares more so."""
    row = row_of(benchmark_mix, part="pairs", instance="gavel", size=jobs)
    assert row["certified_gap"] <= 1e-4
    assert 0.05 < row["best-pair-first worse"] < row["nobody-shares worse"] < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("trace", ["trace1", "trace2"])
@pytest.mark.parametrize("gpus", [64, 512, 4_096])
def test_groups_of_muri(trace: str, gpus: int, benchmark_mix: Any) -> None:
    """Proven optimal to the gap that is asked for; Muri's own rounds are worse."""
    row = row_of(benchmark_mix, part="groups", instance=trace, size=gpus)
    assert row["status"] == "optimal"
    assert row["certified_gap"] <= 1e-6
    assert row["matching-rounds worse"] > 0.01


def serving_cases() -> list[Any]:
    """Return cases of each model and of all limits."""
    models = ("gpt-oss-120b", "llama-3.1-70b", "deepseek-r1")
    limits = ((2000, 50), (1000, 20), (500, 10), (300, 6))
    return [(model, limit, rate) for model in models for limit in limits for rate in (2, 10, 50, 500, 5_000)]


@pytest.mark.parametrize(
    ("model", "limits_ms", "rate"),
    [
        pytest.param(*case, marks=[] if case[1:] == ((1000, 20), 50) else [pytest.mark.slow])
        for case in serving_cases()
    ],
)
def test_serving(model: str, limits_ms: tuple[int, int], rate: int, benchmark_mix: Any) -> None:
    """Proven, or nearly so where thousands of machines are bought; no rule is better."""
    row = row_of(benchmark_mix, part="serving", instance=f"{model}, ", size=rate, limits_ms=limits_ms)
    if row["status"] != "nothing to serve":
        assert row["certified_gap"] <= 2e-5
        assert all(row.get(f"{rule} worse", 0.0) >= -1e-9 for rule in benchmark_mix.RULES[True])
