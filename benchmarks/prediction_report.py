"""Pages of `prediction.py`: errors of whole models and operators, and how much of them the intervals hold."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from single_operators import LEAST_SCALE

from clusterplan.instances.common.arrays import Floats
from clusterplan.instances.prediction.calibration import OUTSIDE, student_ends

PUBLISHED = "NeuSight 8.1 % inference, 7.3 % training on unseen GPUs; roofline 32.2, 33.9; Habitat 376, 820"
SORTS = ("plain", "compiled", "experts")
"""Of whole models; what the twenty measurements and the intervals are held to is the plain ones."""
Rows = Sequence[Mapping[str, object]]


def covered(single: Rows, sheet: Rows, whole: Rows) -> pd.DataFrame:
    """Return the ends of each kind of interval, and the coverage of each GPU with the ends of the others.

    Parameters
    ----------
    single
        Operators predicted from measurements of their GPU.
    sheet
        Operators predicted from data sheets.
    whole
        Whole models, of which the plain ones count.
    """
    table = pd.DataFrame(single)
    factor = np.where(table["inside"], 1.0, OUTSIDE)
    table["score"] = table["score"] / np.hypot(table["scale"], LEAST_SCALE) / factor
    models = pd.DataFrame(whole)
    models = models[models["sort"] == "plain"]
    found = [
        _covered("operators", basis, family, part["score"].to_numpy(), list(part["gpu"]))
        for basis, rows in (("measured", table), ("data sheet", pd.DataFrame(sheet)))
        for family, part in rows.groupby("family")
    ]
    found += [
        _covered("whole models", basis, "", models[column].to_numpy(), list(models["gpu"]))
        for basis, column in (("measured", "score"), ("data sheet", "sheet_score"))
    ]
    return pd.DataFrame(found)


def _covered(of: str, basis: str, family: str, scores: Floats, gpus: list[str]) -> dict[str, object]:
    low, high = student_ends(scores, gpus)
    one, two = (coverage(scores, gpus, together=together) for together in (1, 2))
    weights = pd.Series(gpus).value_counts(normalize=True)
    return {
        "of": of, "basis": basis, "family": family, "low": low, "high": high, "number": len(gpus),
        "share": float(np.mean([*one.values()])),
        "of rows": sum(share * weights[gpu] for gpu, share in one.items()),
        "two": float(np.mean([*two.values()])),
        "each": " ".join(f"{gpu} {share:.0%}" for gpu, share in one.items()),
    }  # fmt: skip


def coverage(scores: Floats, groups: Sequence[Hashable], together: int) -> dict[Hashable, float]:
    """Return group → fraction of its scores inside the interval fitted to the other groups.

    Parameters
    ----------
    scores, groups
        One group for each score.
    together
        Number of groups held out at a time, over all combinations; the share of a group is the mean over
        those with it. Pairs give finer shares if there are few groups.
    """
    shares: dict[Hashable, list[float]] = {name: [] for name in dict.fromkeys(groups)}
    for apart in combinations(shares, together):
        out = np.array([group in apart for group in groups])
        low, high = student_ends(scores[~out], [group for group in groups if group not in apart])
        for name in apart:
            own = scores[np.array([group == name for group in groups])]
            shares[name].append(float(np.mean((own >= low) & (own <= high))))
    return {name: float(np.mean(of_it)) for name, of_it in shares.items()}


def hold_outs(table: pd.DataFrame) -> pd.DataFrame:
    """Return the coverage of each grouped hold-out: a family of operators counts as much as any other."""
    return table.groupby(["of", "basis"], sort=False)[["share", "of rows", "two"]].mean()


def report(whole: Rows, tables: Mapping[str, Rows], sheet: Rows) -> list[str]:
    """Return the lines of the page of results."""
    models = pd.DataFrame(whole)
    models["error"], models["sheet_error"] = models["error"].abs(), models["sheet_error"].abs()
    lines = ["## Whole models", "", f"Published: {PUBLISHED}.", ""]
    lines += [
        "| GPU | mode | models | from 20 measurements a family | data sheet alone |",
        "|---|---|---:|---:|---:|",
    ]
    models["sort"] = pd.Categorical(models["sort"], SORTS)
    for (sort, gpu, mode), part in models.groupby(["sort", "gpu", "mode"], observed=True):
        name = mode if sort == "plain" else f"{mode}, {sort}"
        means = part[["error", "sheet_error"]].mean()
        lines.append(f"| {gpu} | {name} | {len(part)} | {means['error']:.1%} | {means['sheet_error']:.1%} |")
    plain = models[models["sort"] == "plain"]
    of_modes = plain.groupby(["gpu", "mode"])[["error", "sheet_error"]].mean()
    means = of_modes.groupby("gpu").mean().mean()
    lines.append(
        f"| mean of GPUs | plain | {len(plain)} | {means['error']:.1%} | {means['sheet_error']:.1%} |"
    )
    for what, rows in tables.items():
        lines += ["", f"## Larger shapes than any in training, from 20 {what} a family", "", *_errors(rows)]
    lines += ["", "## All shapes, from data sheets", "", *_errors(sheet)]
    found = covered([row for rows in tables.values() for row in rows], sheet, whole)
    return [*lines, *_coverage(found)]


def _errors(rows: Rows) -> list[str]:
    """Return the lines of a table of mean absolute errors, families by GPUs."""
    table = pd.DataFrame(rows)
    table["error"] = table["error"].abs()
    means = table.groupby(["family", "gpu"])["error"].mean().unstack()
    lines = [
        f"| family | {' | '.join(means.columns)} | median |",
        "|---" + "|---:" * (means.shape[1] + 1) + "|",
    ]
    for family, of_it in means.iterrows():
        cells = ["–" if np.isnan(value) else f"{value:.1%}" for value in [*of_it, of_it.median()]]
        lines.append(f"| {family} | {' | '.join(cells)} |")
    return lines


def _coverage(table: pd.DataFrame) -> list[str]:
    """Return the lines of the coverage of each hold-out, and of its parts."""
    lines = ["", "## Intervals of 90 %: coverage of a GPU with the ends of the others", ""]
    lines += [
        "Each GPU that is left out counts as much. Beside it the share of all rows, and with each two GPUs"
    ]
    lines += [
        "left out together.",
        "",
        "| held out | covered | of rows | two left out |",
        "|---|---:|---:|---:|",
    ]
    for (of, basis), row in hold_outs(table).iterrows():
        lines.append(f"| {of}, {basis} | {row['share']:.1%} | {row['of rows']:.1%} | {row['two']:.1%} |")
    lines += ["", "| of | ends | rows | covered | of rows | two left out | each |"]
    lines += ["|---|---:|---:|---:|---:|---:|---|"]
    for row in table.to_dict("records"):
        what = f"{row['family'] or row['of']}, {row['basis']}"
        shares = " | ".join(f"{row[name]:.1%}" for name in ("share", "of rows", "two"))
        ends = f"{row['low']:+.2f} {row['high']:+.2f}"
        lines.append(f"| {what} | {ends} | {row['number']} | {shares} | {row['each']} |")
    return lines
