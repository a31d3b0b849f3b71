"""What the reports share: stored rows, tables in Markdown, what their cells say, and plots.

pandas and matplotlib are imported where they are used, so that whoever measures can import a report before.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner import RESULTS

if TYPE_CHECKING:
    import pandas as pd

NOTHING = "–"


def read(folder: Path, *names: str) -> pd.DataFrame:
    """Return the rows of stored tables, one after the other."""
    import pandas as pd

    return pd.concat([pd.read_csv(folder / f"{name}.csv") for name in names], ignore_index=True)


def write(folder: Path, name: str, parts: Iterable[str]) -> None:
    """Write a page."""
    (folder / f"{name}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def write_lines(name: str, title: str, about: str, lines: Iterable[str]) -> None:
    """Write a page with a title, what a module says of itself, and lines; and show it."""
    page = "\n".join((f"# {title}", "", *about.strip().splitlines(), "", *lines)) + "\n"
    (RESULTS / f"{name}.md").write_text(page, encoding="utf-8")
    print(page)


def protocol(about: str | None) -> str:
    """Return what a module says of its protocol."""
    return (about or "").partition("Protocol. ")[2]


def machine() -> str:
    """Return the words for this machine."""
    return f"On {platform.machine()} with {os.cpu_count()} cores"


def about_busy(rows: pd.DataFrame, otherwise: str, alone: float = 2.0) -> Iterator[str]:
    """Yield how many rows are of a busy machine, if any.

    Parameters
    ----------
    otherwise
        What would be different.
    alone
        More processes than this were running on average; the run before, with its two threads, counts too.
    """
    busy = rows["machine_load"] > alone
    if busy.any():
        yield (
            f"**{busy.sum()} of {len(rows)} rows were measured while other processes used the cores**, up to "
            f"{rows['machine_load'].max():.0f} at a time: {otherwise}"
        )


def table(rows: Any) -> str:
    """Return a Markdown table of a frame, of columns by title, or of rows."""
    import pandas as pd

    frame = pd.DataFrame(rows)
    titles = [str(column).replace("_", " ") for column in frame.columns]
    lines = [titles, ["---"] * len(titles)]
    lines += [[_cell(value) for value in row] for row in frame.astype(object).itertuples(index=False)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return NOTHING
        return f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def written(form: str) -> Callable[[float], str]:
    """Return what writes a figure in a form, and a dash where there is none."""
    return lambda value: NOTHING if math.isnan(value) else format(value, form)


whole, hundredths = written(",.0f"), written(",.2f")


def checked(verified: Any) -> str:
    """Return whether a result was verified, in a word."""
    return {"True": "yes", "False": "NO"}.get(str(verified), NOTHING)


def bullets(lines: Iterable[str]) -> str:
    """Return a list."""
    return "\n".join(f"* {line}" for line in lines)


def about_shortcomings(said: list[str]) -> list[str]:
    """Return the section about where `exact` falls short."""
    return ["## Where `exact` falls short", bullets(said) or "Nowhere in this run."]


def at_the_defaults(folder: Path, *instances: str) -> list[str]:
    """Return the section about what the default time limit costs on these instances."""
    every = read(folder, "default-limit")
    rows = every[every["instance"].isin(instances)]
    rows = rows.assign(ratio=rows["default_s"] / rows["free_s"])
    shown = rows[["instance", "method", "default_status", "stopped_by", "default_s", "free_s", "ratio"]]
    return [
        "## At the defaults",
        "Seconds of processors of a whole process, with the time limit that `clusterplan solve` has by "
        "default and with none, measured apart; the instances are those of `default-limit.md`. What the "
        "default stopped is not compared.",
        table(shown.rename(columns={"free_s": "without limit s"})),
    ]


@cache
def pyplot() -> Any:
    """Return matplotlib's module of plots, which draws into files."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    return plt


def entitle(axes: Any, title: str, **style: Any) -> None:
    """Put a title above the left end."""
    axes.set_title(title, loc="left", fontweight="bold", **style)


def grid(axes: Any, **which: str) -> None:
    """Draw lines behind everything else."""
    axes.grid(True, color="#e5e5e5", linewidth=0.6, **which)
    axes.set_axisbelow(True)


def save(drawing: Any, target: Path, dpi: int, note: str = "", height: float = 0.012) -> None:
    """Store a drawing, with a note at the lower right."""
    drawing.text(0.99, height, note, ha="right", color="#777777", fontsize=8)
    drawing.savefig(target, dpi=dpi)
    pyplot().close(drawing)
