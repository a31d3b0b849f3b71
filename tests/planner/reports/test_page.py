"""What stands at the head and foot of a report."""

from __future__ import annotations

import pytest
from sample_documents import STAGING

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.batch.comparison_rows import ComparisonRow
from clusterplan.planner.findings import Findings
from clusterplan.planner.reports.page import (
    check_same,
    headline,
    instance_facts,
    objectives_table,
    options_text,
    provenance,
    result_cell,
    usd,
    versions_text,
)
from clusterplan.solvers.common.result import SolveOptions

INSTANCE = clusterplan.parse_instance(STAGING)
RESULT = clusterplan.solve(INSTANCE, "brute-force")


def test_what_is_of_another_instance_is_refused() -> None:
    check_same(INSTANCE, RESULT.instance_sha256, "the result")
    with pytest.raises(OptionError, match="another instance than s"):
        check_same(INSTANCE, "0" * 64, "the result")


def test_options_that_are_set_are_told_without_a_whole_plan() -> None:
    options = SolveOptions(time_limit_s=20, seed=0, warm_start=({"a": 1},), method_options={"b": "ä"})
    assert options_text(options) == (
        'time_limit_s 20, gap 1e-06, seed 0, method_options {"b": "ä"}, warm_start a given plan'
    )
    assert versions_text({"a": "1", "b": "2"}) == "a 1, b 2"


def test_the_foot_names_the_instance_and_leaves_out_what_is_unknown() -> None:
    facts = dict(provenance(RESULT, "brute-force", None))
    assert facts["solver"] == "brute-force"
    assert facts["sha256 of the instance"] == INSTANCE.sha256()
    assert "library" not in facts
    assert dict(instance_facts(INSTANCE)) == {"kind": "staging", "source": "not given"}


def test_the_head_says_no_more_than_the_check() -> None:
    assert headline("optimal", "none") == ("proven optimal", "good")
    assert headline("feasible", "time") == ("a plan, not proven optimal (time limit)", "fair")
    wide = Findings(within="optimal means a gap of at most 0.1 here").verification("s")
    assert headline("optimal", "none", wide) == (wide.within, "fair")
    claimed = Findings(claimed=["the prices"]).verification("s")
    assert headline("optimal", "none", claimed) == ("optimal: not all of it is proven here", "fair")


def test_objectives_are_a_row_each() -> None:
    (record,) = RESULT.objectives
    claimed = record.model_copy(update={"certified_bound": None, "certified_gap": None})
    table = objectives_table(RESULT.model_copy(update={"objectives": (claimed,)}))
    assert len(table.rows) == 1
    assert [cell.text for cell in table.rows[0]][:2] == ["cost [USD]", "less"]
    assert table.rows[0][-1].text == "by the solver alone"
    certified = objectives_table(clusterplan.solve(INSTANCE))
    assert certified.rows[0][-1].text == "yes"


def test_cells_of_status_and_money() -> None:
    row = ComparisonRow(instance="i", kind="staging", solver="s", status="error")
    late = row.model_copy(update={"status": "unknown", "limit": "time"})
    claimed = row.model_copy(update={"status": "optimal", "only_claimed": True})
    assert (result_cell(row).mark, result_cell(late).text) == ("bad", "unknown (time limit)")
    assert (result_cell(claimed).mark, result_cell(claimed).text) == ("fair", "optimal, as claimed")
    assert (usd(None), usd(2.5)) == ("–", "2.5 USD")
