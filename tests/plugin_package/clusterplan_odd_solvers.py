"""A package that adds solvers to clusterplan: a good one, and every way to be bad."""

from __future__ import annotations

import math
import mmap
import os
import re
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any, ClassVar

from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.formulations.allocation.plan import JobAllocation
from clusterplan.formulations.common.formulation import Formulation
from clusterplan.instances.common.arrays import Floats, Ints
from clusterplan.solvers.allocation.heuristics import MarginalGain
from clusterplan.solvers.common.base import Clock, MethodOption, Outcome, Solver
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.scheduling.own_policy import policy_solver
from clusterplan.solvers.scheduling.policies.contract import KeyPolicy
from clusterplan.solvers.scheduling.view import Knowledge, View

print("a plug-in that talks while it is loaded")


def note(name: str, text: str = "") -> None:
    """Leave a file for the test, if it says where."""
    if "ODD_SOLVERS_NOTES" in os.environ:
        Path(os.environ["ODD_SOLVERS_NOTES"], name).write_text(text, encoding="utf-8")


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


class WideFirst(KeyPolicy):
    """A scheduling policy as one would write it: of jobs that wait, the widest first."""

    knows = Knowledge.NOTHING

    def __init__(self, peeks: bool) -> None:
        self._peeks = peeks

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return minus the width; one that peeks reads what it has not said that it knows."""
        return view.remaining_s[jobs] if self._peeks else -view.width[jobs]


def policies() -> list[Solver]:
    """Return the policy as a solver, and one that cheats."""
    return [
        policy_solver("wide-first", "the widest job first", lambda _: WideFirst(peeks=False)),
        policy_solver("peeks", "reads what it may not", lambda _: WideFirst(peeks=True)),
    ]


class Entry(JobAllocation):
    """An entry with one thing too many."""

    extra: int


class Bad(FewWorkers):
    """A solver that is bad in one way."""

    method_options: ClassVar = {}

    def __init__(self, name: str) -> None:
        self.name = name
        self.proves = name in ("false-bound", "empty-bound")

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
        if self.name == "maps-memory":
            shared = mmap.mmap(-1, 2**31)
            for page in range(0, 2**31, 4096):
                shared[page] = 1
        if self.name == "exits":
            os._exit(0)
        if self.name == "leaves":
            raise SystemExit(0)
        if self.name == "has-children":
            child = subprocess.Popen(["sleep", "7777"])
            note(self.name, str(child.pid))
        if self.name == "holds-on":
            note(self.name)
            re.match("(a+)+$", "a" * 60 + "b")  # in C, without ever letting another thread run
        if self.name == "bends-the-world":
            os.chdir("/")
            AllocationFormulation.evaluate = lambda self, plan: (1.0,)  # type: ignore[method-assign]
            threading.Timer(0.1, os._exit, (3,)).start()
        if self.name == "raises":
            raise ValueError("this plug-in\nis not finished")
        outcome = MarginalGain().solve(formulation, SolveOptions(), clock)
        assert outcome.plan
        if self.name == "empty-bound":
            outcome.bounds = (-math.inf,)
        if self.name == "odd-entries":
            outcome.plan = [Entry(**entry.model_dump(), extra=1) for entry in outcome.plan]
        if self.name == "wrong-plan":
            more = [entry.model_copy(update={"workers": 100 * entry.workers}) for entry in outcome.plan]
            return Outcome(plan=more)
        if self.name == "false-bound":
            outcome.bounds = formulation.evaluate(outcome.plan)
        return outcome


BAD = (
    *("crashes", "eats-memory", "maps-memory", "never-stops", "holds-on", "wrong-plan", "odd-entries"),
    *("raises", "exits", "leaves", "false-bound", "empty-bound", "has-children", "bends-the-world"),
)


def bad_solvers() -> list[Solver]:
    """Return one of each, and one that takes a name that is not its own to take."""
    return [*map(Bad, BAD), Bad("exact")]


def no_solver() -> str:
    """Return what is no solver."""
    return "nothing"


def quit_at_once() -> None:
    """End the process that asks, if it lets that happen."""
    raise SystemExit(0)
