"""What a notebook shows of an object: a short HTML table, without scripts, in light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 12
CELL = 'style="text-align:{align};padding:0.15em 0.8em 0.15em 0;border:none;background:none"'


def figure(value: float | None) -> str:
    """Return a number with at most seven digits; an unknown one is a dash."""
    return "–" if value is None else f"{value:,.7g}"


def percent(value: float | None) -> str:
    """Return a share in per cent; an unknown one is a dash."""
    return "–" if value is None else f"{100 * value:.3g} %"


def card(
    title: str, lines: Iterable[str], columns: Sequence[str] = (), rows: Sequence[Sequence[str]] = ()
) -> str:
    """Return a fragment of HTML, everything in it escaped.

    Parameters
    ----------
    title, lines
        The heading and the sentences below it.
    columns, rows
        A table; the first column is text and the others are numbers. Of many rows the first are shown.
    """
    parts = [f"<div><strong>{escape(title)}</strong>"]
    parts += [f"<div>{escape(line)}</div>" for line in lines if line]
    if rows:
        parts.append('<table style="border-collapse:collapse;font-variant-numeric:tabular-nums">')
        parts += [_row("th", columns)] if columns else []
        parts += [_row("td", row) for row in rows[:MOST_ROWS]]
        parts.append("</table>")
    if len(rows) > MOST_ROWS:
        parts.append(f"<div>… and {len(rows) - MOST_ROWS:,} more</div>")
    return "".join([*parts, "</div>"])


def _row(tag: str, cells: Sequence[str]) -> str:
    made = [
        f"<{tag} {CELL.format(align='right' if index else 'left')}>{escape(cell)}</{tag}>"
        for index, cell in enumerate(cells)
    ]
    return f"<tr>{''.join(made)}</tr>"
