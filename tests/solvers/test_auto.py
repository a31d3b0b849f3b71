"""`auto` passes on what the exact method says, unless the plan to start from refutes it."""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import STAGING

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.errors import OptionError
from clusterplan.solvers.common.base import Clock, Outcome, Solver
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import Auto

INSTANCE = clusterplan.parse_instance(STAGING)
FORMULATION = formulate(INSTANCE)
BEST = clusterplan.solve(INSTANCE, "brute-force").plan or ()
START = SolveOptions(warm_start=tuple(entry.model_dump() for entry in BEST))


class Prover(Solver[Any]):
    """An exact method that answers what it was made with."""

    name, kinds, features = "prover", ("staging",), frozenset({"warm_start"})

    def __init__(self, **outcome: Any) -> None:
        self.outcome = Outcome(**outcome)

    def solve(self, formulation: Any, options: Any, clock: Any) -> Outcome:
        """Answer."""
        del formulation, options, clock
        return self.outcome


def answer(options: SolveOptions, **outcome: Any) -> Outcome:
    """Return what `auto` makes of an answer."""
    return Auto({"staging": Prover(**outcome)}).solve(FORMULATION, options, Clock())


def test_the_message_says_which_method_it_was() -> None:
    assert answer(SolveOptions(), plan=BEST).message == "auto: prover"
    assert answer(SolveOptions(), plan=BEST, message="done").message == "auto: prover; done"
    assert answer(START, plan=BEST, bounds=(1.0,)).bounds == (1.0,)


def test_the_warm_start_refutes_a_prover_that_is_wrong() -> None:
    no_plan = answer(START, infeasible=True)
    assert not no_plan.infeasible
    assert no_plan.plan == BEST
    assert "that no plan exists" in (no_plan.message or "")
    broken = answer(START, plan=(BEST[0].model_copy(update={"units": 1000}),), bounds=(9.0,))
    assert (broken.plan, broken.bounds) == (BEST, ())


def test_options_are_those_of_the_method() -> None:
    auto = Auto({"staging": Prover()})
    auto.check_options(SolveOptions(method_options={"anything": 1}))
    with pytest.raises(OptionError, match="anything"):
        auto.solve(FORMULATION, SolveOptions(method_options={"anything": 1}), Clock())
    with pytest.raises(OptionError, match="memory limit"):
        auto.check_options(SolveOptions(memory_limit_gib=1))
