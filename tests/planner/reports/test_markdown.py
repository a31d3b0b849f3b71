"""Markdown shows names as they are, whoever chose them."""

from __future__ import annotations

import pytest
from sample_documents import STAGING

import clusterplan
from clusterplan.planner.reports.frontier_markdown import frontier_markdown
from clusterplan.planner.reports.markdown import escaped, table_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b", r"a\_b"),
        ("a|b", r"a\|b"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("- x", r"\- x"),
        ("1. x", r"1\. x"),
        ("a\n  b", "a b"),
        ("`[x](y)`", r"\`\[x\](y)\`"),
        ("12.5", "12.5"),
    ],
)
def test_text_is_shown_literally_in_one_line(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_tables_align_numbers_and_escape_the_rest() -> None:
    lines = list(table_lines([("na|me", False), ("USD", True)], [["x|y", "-1"], ["z", "2"]]))
    assert lines == [r"| na\|me | USD |", "| --- | ---: |", r"| x\|y | -1 |", "| z | 2 |"]


def test_a_frontier_lists_its_points_and_what_is_proven() -> None:
    frontier = clusterplan.pareto(clusterplan.parse_instance({**STAGING, "name": "a_b"}))
    lines = frontier_markdown(frontier).splitlines()
    assert lines[0] == r"# Frontier of a\_b"
    assert lines[2].startswith("| samples/s | USD |")
    assert len([line for line in lines if line.startswith("| ")]) == 2 + len(frontier.points)
    assert any(line.startswith("- certified: ") for line in lines)
    nothing = clusterplan.parse_instance({**STAGING, "throughput_floor_samples_per_s": 1e9})
    assert "| " not in frontier_markdown(clusterplan.pareto(nothing))
