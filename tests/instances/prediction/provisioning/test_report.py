"""The answer in words.

Rows of a prediction.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterplan.instances.prediction.provisioning.predict import predict
from clusterplan.instances.prediction.provisioning.report import answer_of, rented_text, row_of, short


def test_machines_are_named_once() -> None:
    (offer,) = predict("gpt2", "a100-40", batch=1).offers
    assert offer is not None
    assert rented_text(offer) == "8 × a100-40 (1 × p4d.24xlarge)"
    (alone,) = predict("gpt2", "p4d.24xlarge", batch=1).offers
    assert alone is not None
    assert rented_text(alone) == "1 × p4d.24xlarge (8 × a100-40)"
    (single,) = predict("gpt2", "p4d.24xlarge", batch=1, gpus=4, prices={"p4d.24xlarge": 2.0}).offers
    assert single is not None
    assert rented_text(single) == "4 × a100-40 (of p4d.24xlarge)"
    (unlisted,) = predict("gpt2", "p100", batch=1, gpus=2).offers
    assert unlisted is not None
    assert rented_text(unlisted) == "2 × p100"


def test_a_name_of_several_lines_is_one_line_of_the_answer() -> None:
    (offer,) = predict("gpt2", "l4", batch=1, gpus=1).offers
    for best in (offer, None):
        assert "my model" in answer_of("my\nmodel", best)


def test_how_sure_it_is_in_time() -> None:
    (offer,) = predict("gpt2", "l4", batch=1, gpus=1).offers
    assert offer is not None
    between = replace(offer, work=replace(offer.work, within_h=offer.hours.seconds * 1.01))
    assert "as predicted, late at the high end" in answer_of("gpt2", between)
    assert "in time" not in answer_of("gpt2", offer)
    late = replace(offer, work=replace(offer.work, within_h=offer.hours.seconds / 2))
    assert answer_of("gpt2", late).startswith("The soonest is 1 × l4")
    assert answer_of("gpt2", between).startswith("Rent 1 × l4")


@pytest.mark.parametrize(("value", "text"), [(1234.5, "1,234"), (12.34, "12.3"), (0.01234, "0.0123")])
def test_no_more_digits_than_a_prediction_has(value: float, text: str) -> None:
    assert short(value) == text


def test_rows_have_the_same_fields_whether_it_fits_or_not() -> None:
    fits, too_large = predict("gpt2", "l4", batch=1), predict("llama-2-70b", "l4", batch=1, gpus=1)
    rows = [row_of(found.forecasts[0], found.offers[0], found.refusals[0]) for found in (fits, too_large)]
    assert {name for name, value in rows[0].items() if value is None} == {"in_time", "why_not"}
    assert rows[0]["launch_bound"]
    assert list(rows[0]) == list(rows[1])
    assert rows[1]["gpus"] is None
    assert rows[1]["why_not"] == "does not fit"
