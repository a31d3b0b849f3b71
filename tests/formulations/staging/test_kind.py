"""What staging registers among the formulations."""

from __future__ import annotations

from staging_instances import two_layers

from clusterplan.formulations.staging.kind import STAGING


def test_the_formulation_and_its_compact_model_fit_together() -> None:
    """The model has the objective of the formulation."""
    assert STAGING.milp_model is not None
    formulation = STAGING.formulation(two_layers(objective="time"))
    model = STAGING.milp_model(formulation)
    assert [one.objective for one in model.objectives] == list(formulation.objectives)
