"""A package that adds solvers to clusterplan: a good one, and every way to be bad."""

from __future__ import annotations

import os
import signal
from typing import Any, ClassVar

from clusterplan.formulations.base import Formulation
from clusterplan.solvers.base import Clock, MethodOption, Outcome, Solver
from clusterplan.solvers.marginal_gain import MarginalGain
from clusterplan.solvers.options import SolveOptions


class FewWorkers(Solver):
    """The plan of marginal gain; a plug-in as one would write it."""

    name = "few-workers"
    kinds = ("allocation",)
    method_options: ClassVar = {"joint": MethodOption(False, "give a server and a worker together")}
    what = "a plug-in of the tests"

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Return a plan."""
        joint = self.setting(options, "joint")
        return MarginalGain(joint=joint).solve(formulation, SolveOptions(), clock)


class Bad(FewWorkers):
    """A solver that is bad in one way."""

    method_options: ClassVar = {}

    def __init__(self, name: str) -> None:
        self.name = name
        self.proves = name == "false-bound"

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Be bad."""
        if self.name == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.name == "eats-memory":
            eaten = []
            while True:
                eaten.append(bytearray(2**24))
        if self.name == "never-stops":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                pass
        if self.name == "raises":
            raise ValueError("this plug-in is not finished")
        outcome = MarginalGain().solve(formulation, SolveOptions(), clock)
        assert outcome.plan
        if self.name == "wrong-plan":
            more = [entry.model_copy(update={"workers": 100 * entry.workers}) for entry in outcome.plan]
            return Outcome(plan=more)
        if self.name == "false-bound":
            outcome.bounds = formulation.evaluate(outcome.plan)
        return outcome


BAD = ("crashes", "eats-memory", "never-stops", "wrong-plan", "raises", "false-bound")


def bad_solvers() -> list[Solver]:
    """Return one of each, and one that takes a name that is not its own to take."""
    return [*map(Bad, BAD), Bad("exact")]


def no_solver() -> str:
    """Return what is no solver."""
    return "nothing"
