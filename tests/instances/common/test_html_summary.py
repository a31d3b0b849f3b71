"""The fragment of HTML that a notebook shows."""

from __future__ import annotations

from clusterplan.instances.common.html_summary import MOST_ROWS, card, figure, percent


def test_figures() -> None:
    """Seven digits, a share in per cent, a dash for what is unknown."""
    assert [figure(1234567.89), figure(0.5), figure(None)] == ["1,234,568", "0.5", "–"]
    assert [percent(0.12345), percent(None)] == ["12.3 %", "–"]


def test_everything_is_escaped_and_many_rows_are_counted() -> None:
    """Names come from files that nobody vouches for."""
    made = card("<b>", ["a & b", ""], ("<th>", "n"), [("<i>", "1")] * (MOST_ROWS + 3))
    assert "&lt;b&gt;" in made
    assert "a &amp; b" in made
    assert made.count("&lt;i&gt;") == MOST_ROWS
    assert "… and 3 more" in made
    assert "<b>" not in made
    assert "<i>" not in made


def test_without_rows_there_is_no_table() -> None:
    """The heading alone."""
    assert card("t", []) == "<div><strong>t</strong></div>"
