"""Axes, ticks and names of plots."""

from __future__ import annotations

import math

import pytest

from clusterplan.planner.reports import plot_style as style


def test_names_are_shown_literally_and_cut() -> None:
    assert style.shown("<b>&") == "&lt;b&gt;&amp;"
    assert len(style.shown("x" * 1000)) == style.LONGEST
    assert style.shown("x" * 1000).endswith("…")


def test_colours_and_symbols_repeat_together_only_after_all_pairs() -> None:
    pairs = [(style.colour(i), style.symbol(i)) for i in range(style.COLOURS * len(style.SYMBOLS))]
    assert len(set(pairs)) == len(pairs)
    assert style.colour(9, 0.5) == "@s1/0.5"
    assert style.dash(style.COLOURS) != style.dash(0)


@pytest.mark.parametrize("values", [(1.0, 2.0), (0.003, 4e5), (5.0, 5.0), (1e-12, 1e15), (0.0,), ()])
def test_a_logarithmic_axis_holds_its_values_and_has_a_few_ticks(values: tuple[float, ...]) -> None:
    axis = style.log_axis("x", values)
    low, high = (10 ** (at / 2) for at in axis["range"])
    assert all(low <= math.sqrt(value) <= high for value in values if value > 0)
    assert all(low <= math.sqrt(tick) <= high for tick in axis["tickvals"])
    assert 0 < len(axis["tickvals"]) <= 12
    assert len(axis["ticktext"]) == len(axis["tickvals"])


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5"), (2000.0, "2,000"), (1e6, "10<sup>6</sup>"), (3e-7, "3·10<sup>-7</sup>")]
)
def test_ticks_are_written_as_people_write_them(value: float, text: str) -> None:
    assert style._tick(value) == text


def test_an_axis_is_logarithmic_where_values_span_much() -> None:
    assert style.spread_axis("x", [1.0, 2.0 * style.WIDE])["type"] == "log"
    plain = style.spread_axis("x", [1.0, 2.0])
    assert "type" not in plain
    assert plain["range"] == pytest.approx([0.94, 2.06])
    assert style.spread_axis("x", [0.0, 0.0])["range"] == [0.0, 1.0]
    assert style.place_on(style.spread_axis("x", [1.0, 100.0]), 100.0) == 2.0
    assert style.place_on(plain, 1.5) == 1.5


def test_lines_and_marks_stand_where_they_are_put() -> None:
    upright = style.line_at("x", 3.0)
    assert (upright["x0"], upright["x1"], upright["yref"]) == (3.0, 3.0, "y domain")
    assert style.note("<i>", x=1)["text"] == "&lt;i&gt;"
    assert style.marker("circle", "@s0", 9)["line"]["color"] == "@panel"
    assert style.size(3, 10) > style.size(0, 10) > style.size(0, style.MANY)
