"""The stored results of the benchmark of schedulers bear out what is said of them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pandas as pd
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
PUBLISHED = {
    "trace1": {"srtf": 1370603.198, "srsf": 980140.5699, "las": 3330371.307},
    "trace1_pr": {"srtf": 2303543.816, "srsf": 1801859.995, "las": 6921682.793},
    "trace2": {"srtf": 2665607.375, "srsf": 2213949.687, "las": 7396368.514},
    "trace2_pr": {"srtf": 4079154.454, "srsf": 3384600.437, "las": 10555502.040026},
}
"""Mean completion times that Muri's authors print; las is their Tiresias-L."""
SIZES = {215: 0.8, 172: 1.1, 144: 1.0}
"""GPUs of the cluster, and the gap in per cent that the first 3,000 jobs of Philly have to keep there."""


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Return the stored rows."""
    return pd.read_csv(BENCHMARKS / "results" / "scheduling.csv")


def test_no_schedule_is_below_a_bound(rows: pd.DataFrame) -> None:
    """Of whatever method on the same trace; all plans passed the check."""
    for _, own in rows[rows["objective"].notna()].groupby(["part", "trace", "gpus"]):
        assert (own["verified"].astype(str) == "True").all()
        assert own["objective"].min() >= own["bound"].max() * (1 - 1e-9)


def test_published_means_come_out(rows: pd.DataFrame) -> None:
    """Twelve rows, each to the printed digit."""
    muri = rows[rows["semantics"] == "muri"].set_index(["trace", "method"])["objective"]
    assert len(muri) == 12
    for trace, policies in PUBLISHED.items():
        for method, printed in policies.items():
            digits = len(str(printed).partition(".")[2])
            assert round(muri[trace, method], digits) == printed


def test_the_best_schedules_are_close_to_their_bounds(rows: pd.DataFrame) -> None:
    """As close as is promised of 3,000 production jobs."""
    found = rows[(rows["part"] == "philly-3000") & (rows["method"] == "exact")].set_index("gpus")
    for gpus, percent in SIZES.items():
        assert 100 * found.loc[gpus, "certified_gap"] <= percent


def test_the_report_is_that_of_the_rows(rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever measures again writes both; policies that share GPUs have no gap."""
    pytest.importorskip("matplotlib", reason="the benchmarks draw with matplotlib, which is not installed")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    report = importlib.import_module("scheduling_report")
    stored = (BENCHMARKS / "results" / "scheduling.md").read_text(encoding="utf-8")
    written = "\n\n".join(report.text(rows)) + "\n"
    # The first lines name the machine.
    assert written.partition("## Summary")[2] == stored.partition("## Summary")[2]
    shared = [line for line in stored.splitlines() if "muri-s (published)" in line]
    assert len(shared) == 4
    assert all("not covered" in line for line in shared)
