"""Rows of a prediction."""

from __future__ import annotations

from clusterplan.instances.prediction.fill.predict import predict
from clusterplan.instances.prediction.fill.rows import row_of


def test_rows_have_the_same_fields_whether_it_fits_or_not() -> None:
    fits, too_large = predict("gpt2", "l4", batch=1), predict("llama-2-70b", "l4", batch=1, gpus=1)
    rows = [row_of(found.forecasts[0], found.offers[0], found.refusals[0]) for found in (fits, too_large)]
    assert {name for name, value in rows[0].items() if value is None} == {"in_time", "why_not"}
    assert rows[0]["launch_bound"]
    assert list(rows[0]) == list(rows[1])
    assert rows[1]["gpus"] is None
    assert rows[1]["why_not"] == "does not fit"
