"""The tables of the benchmark of graphs of layers, from its CSV file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from report import about_busy, checked, machine, read, table, whole, write, written

if TYPE_CHECKING:
    import pandas as pd

DNN, PIPEDREAM = "dnn-partitioning", "pipedream"
OURS = "exact"
THEIRS = {DNN: "authors' dynamic programme", PIPEDREAM: "PipeDream's optimiser"}
BYTES_PER_S = 1e9
"""What PipeDream's optimiser takes for the network unless it is told."""
NO_TRANSFERS, TRANSFERS = "replicas", "replicas and transfers"
CANNOT_RUN = (
    "the integer programmes of dnn-partitioning: they need a licence of Gurobi",
    "its baseline Scotch: it needs that package",
    "piper: its tensor-parallel model is another problem",
)
ALONE = 1.0
"""More processes than this were running where a machine is said to be busy."""
SAME = 3e-5
"""Relative; published optima have four to six digits."""
ABOUT = {
    NO_TRANSFERS: (
        "What the optimiser does unless it is told otherwise: a stage of m replicas takes the m-th part of "
        "its computing and of an all-reduce of 4 (m − 1)/m of its weights, and transfers between stages take "
        "no time. `exact` plans the same problem, in which a unit of the type `m x gpu` is a stage of m "
        "replicas and an hourly budget limits all types together; it may leave GPUs unused."
    ),
    TRANSFERS: (
        "With `--activation_compression_ratio 1`, as its README runs it, a stage also takes at least the "
        "time of its transfers: of what it receives or of what it sends, whichever is longer; a tensor that "
        "skips stages is paid by each of them (`stage_cost: relay`). The first stage sends for nothing: it "
        "has types of its own. A tensor with several receivers is counted until the branches to them have "
        "joined: it has one more edge, to there. `exact` plans this problem. *Priced* is its plan in the "
        "optimiser's model, read from its checkout."
    ),
}


six = written(".6g")


def write_report(folder: Path) -> None:
    """Write `graphs.md`."""
    write(folder, "graphs", text(read(folder, "graphs")))


def text(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the parts of the report."""
    yield "# Graphs of layers: measured results"
    yield (
        f"{machine()}; each row is a process of its own, `exact` "
        f"with up to {rows['threads'].max():g} threads and {rows['limit_s'].max():g} s. All graphs are "
        "others' data. Seconds are a whole library call with the checks of plan and certificate; `check s` "
        "is the independent check of the result afterwards. What is certified holds without trust in any "
        "method."
    )
    yield from about_busy(rows, "with all of the time they would be faster.", ALONE)
    yield f"Not run here: {'; '.join(CANNOT_RUN)}."
    if len(own := rows[rows["source"] == DNN]):
        yield from about_dnn(own)
    for rule, about in ABOUT.items():
        if len(own := rows[(rows["source"] == PIPEDREAM) & (rows["rule"] == rule)]):
            yield f"## PipeDream: stages with {rule}"
            yield f"{about} All links have {BYTES_PER_S / 1e9:g} GB/s."
            shown = profiles(own)
            if compared := (shown["no worse"] != "–").sum():
                good = (shown["no worse"] == "yes").sum()
                yield f"**No worse than the optimiser's plan in its own model: {good} of {compared}.**"
            yield table(shown)
    refused = rows[(rows["planner"] == OURS) & (rows["status"] == "refused")]
    if len(refused):
        yield "## Refused"
        yield table(refused[["source", "graph", "message"]])


def beside(rows: pd.DataFrame, source: str, *keys: str) -> pd.DataFrame:
    """Return the rows of `exact`, with the figures of the authors' programme in columns `*_theirs`."""
    own = rows[(rows["planner"] == OURS) & (rows["status"] != "refused")]
    others = rows[rows["planner"] == THEIRS[source]]
    return own.merge(others, "left", [*keys], suffixes=("", "_theirs"))


def about_dnn(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the graphs of dnn-partitioning."""
    yield "## dnn-partitioning: the slowest device on the accelerators and CPUs of each file"
    yield (
        "Milliseconds of one sample, as published by J. Tarnawski et al., *Efficient Algorithms for Device "
        "Placement of DNN Graph Operators*, NeurIPS 2020: a device has one stage, which computes, and sends "
        "and receives each tensor once; a CPU pays for no transfers. The published optima are answers of the "
        "authors' programme, that of inceptionv3 one of a prototype of ours. The authors' programme has one "
        "thread and no check."
    )
    joined = beside(rows, DNN, "graph")
    near = (joined["ms"] / joined["published_ms"] - 1).abs() <= SAME
    said = near.map({True: "yes", False: "NO"}).where(joined["published_ms"].notna(), "–")
    yield table(
        {
            "graph": joined["graph"],
            "layers": joined["layers"].map(whole),
            "ms": joined["ms"].map(six),
            "certified: not below": joined["certified_ms"].map(six),
            "certified gap": joined["certified_gap"],
            "published": joined["published_ms"].map(six),
            "same": said,
            "seconds": joined["total_s"],
            "check s": joined["verify_s"],
            "checked": joined["verified"].map(checked),
            "authors' ms": joined["ms_theirs"].map(six),
            "authors' seconds": joined["total_s_theirs"],
            "authors' programme": ended(joined),
        }
    )


def ended(joined: pd.DataFrame) -> pd.Series:
    """Return how the authors' programme ended, in words."""
    stopped = joined["status_theirs"] + " " + joined["limit_theirs"]
    return stopped.fillna(joined["status_theirs"]).fillna("–")


def profiles(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the profiles of PipeDream."""
    joined = beside(rows, PIPEDREAM, "graph", "gpus", "rule")
    both = joined["priced_ms"].notna() & joined["ms_theirs"].notna()
    no_worse = joined["priced_ms"] <= joined["ms_theirs"] * (1 + SAME)
    return {
        "profile": joined["graph"],
        "GPUs": joined["gpus"].map(whole),
        "ms": joined["ms"].map(six),
        "certified: not below": joined["certified_ms"].map(six),
        "certified gap": joined["certified_gap"],
        "priced": joined["priced_ms"].map(six),
        "stages": joined["stages"].fillna("–"),
        "seconds": joined["total_s"],
        "check s": joined["verify_s"],
        "checked": joined["verified"].map(checked),
        "optimiser's ms": joined["ms_theirs"].map(six),
        "no worse": no_worse.map({True: "yes", False: "NO"}).where(both, "–"),
        "optimiser's stages": joined["stages_theirs"].fillna("–"),
        "optimiser's seconds": joined["total_s_theirs"],
    }
