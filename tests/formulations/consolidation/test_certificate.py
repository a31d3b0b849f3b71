"""The form of certificates of placements."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from clusterplan.formulations.consolidation.certificate import (
    LARGEST,
    CertifiedGoal,
    ConsolidationCertificate,
)


def test_a_certificate_of_plain_data_is_read() -> None:
    """Prices by shape and piece, multipliers by objective."""
    goal = {"objective": "servers", "prices": [[1.0, 2.0], []], "multipliers": {"value": 0.5}}
    read = ConsolidationCertificate.model_validate({"goals": [goal]})
    assert read.goals[0].prices == ((1.0, 2.0), ())
    assert read.traffic is None


@pytest.mark.parametrize("price", [-1.0, 2 * LARGEST, float("nan"), "many"])
def test_prices_out_of_range_are_refused(price: object) -> None:
    """Of pieces and of earlier objectives."""
    with pytest.raises(ValidationError):
        CertifiedGoal.model_validate({"objective": "value", "prices": [[price]]})
    with pytest.raises(ValidationError):
        CertifiedGoal.model_validate({"objective": "value", "prices": [], "multipliers": {"spread": price}})


def test_objectives_that_name_servers_have_no_prices() -> None:
    """Racks and traffic are not bounded by prices of pieces."""
    for name in ("racks", "traffic"):
        with pytest.raises(ValidationError):
            CertifiedGoal.model_validate({"objective": name, "prices": []})
