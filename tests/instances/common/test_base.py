"""Uncertain figures: pointers, ends, and pointers that name nothing.

The fragment of HTML that a notebook shows.
"""

from __future__ import annotations

import pytest
from sample_documents import STAGING

import clusterplan
from clusterplan.instances.common.base import MOST_ROWS, card, figure, percent, scaled


def test_pointers_name_one_figure_or_all() -> None:
    document = {"a": [{"b/c": 2.0, "d": 3}, {"b/c": 4.0}], "e": True}
    assert not list(scaled(document, "/a/*/b~1c", 0.5))
    assert not list(scaled(document, "/a/0/d", 2.0))
    assert document == {"a": [{"b/c": 1.0, "d": 6.0}, {"b/c": 2.0}], "e": True}


@pytest.mark.parametrize(
    ("pointer", "what"),
    [
        ("a", "no pointer"),
        ("", "no pointer"),
        ("/a/7", "names no figure"),
        ("/f", "names no figure"),
        ("/e", "names bool"),
        ("/a/x", "names no figure"),
        ("/a/0", "names dict"),
        ("/e/0", "names no figure"),
    ],
)
def test_pointers_that_name_no_figure(pointer: str, what: str) -> None:
    ((place, said),) = scaled({"a": [{"b": 2.0}], "e": True}, pointer, 2.0)
    assert place == pointer
    assert what in said


def _uncertain(**one: object) -> clusterplan.Instance:
    return clusterplan.parse_instance({**STAGING, "uncertainty": [one]})


def test_ends_have_other_figures_and_no_intervals() -> None:
    plain = clusterplan.parse_instance(STAGING)
    assert "uncertainty" not in plain.document()
    instance = _uncertain(figure="/layers/*/compute_s/*", low=0.5, high=2)
    ends = instance.at_ends()
    assert list(ends) == ["low", "middle", "high"]
    assert ends["middle"].sha256() == plain.sha256() != instance.sha256()
    for name, factor in (("low", 0.5), ("high", 2.0)):
        for layer, before in zip(ends[name].layers, plain.layers, strict=True):
            assert layer.compute_s == {k: pytest.approx(factor * v) for k, v in before.compute_s.items()}


def test_what_is_wrong_names_the_interval() -> None:
    with pytest.raises(clusterplan.InstanceError, match=r"uncertainty\[0\].figure: '/layer' names no figure"):
        _uncertain(figure="/layer", low=1, high=1).at_ends()
    with pytest.raises(clusterplan.InstanceError, match=r"uncertainty\[0\].low"):
        _uncertain(figure="/layers", low=0, high=1)
    with pytest.raises(clusterplan.OptionError, match="has no intervals"):
        clusterplan.parse_instance(STAGING).at_ends()


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
