"""What each kind brings to the floor of formulations."""

from __future__ import annotations

import pytest

from clusterplan.formulations.common.kind import FormulationKind
from clusterplan.formulations.registry import KINDS


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_registered_under_the_name_of_its_formulation(name: str) -> None:
    assert isinstance(KINDS[name], FormulationKind)
    assert KINDS[name].formulation.kind == name


def test_a_kind_need_not_have_a_textbook_model() -> None:
    formulation = next(iter(KINDS.values())).formulation
    assert FormulationKind(formulation).milp_model is None
