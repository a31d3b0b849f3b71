"""DL² as a solver: its network is trained on generated traces, and then schedules the given one."""

from __future__ import annotations

from typing import Any

from ....instances.scheduling.instance import SchedulingInstance
from ...backends.base import check_time_to_load_torch, missing_package_text, seeded_torch
from ...common.base import Clock, MethodOption
from ...common.result import SolveOptions
from ..policy import RoundPolicy
from ..policy_solvers import PolicySolver
from .dl2_policy import DL2, INCUMBENTS
from .optimus import Optimus

TRAINING_SHARE = 0.5
"""Share of a time limit that may be spent on training."""


class LearnedPolicy(PolicySolver):
    """The policy DL², whose network is trained anew on generated traces for every solve; needs PyTorch."""

    def __init__(self) -> None:
        super().__init__(
            "dl2",
            "a network adds workers to jobs, step after step (DL²)",
            DL2.knows,
            lambda *_: Optimus(1.0),  # never used
            {
                "interval_s": MethodOption(600.0, "How often it decides, in seconds.", least=1.0),
                "incumbent": MethodOption(
                    "optimus", "The policy that it imitates at first.", choices=tuple(INCUMBENTS)
                ),
                "traces": MethodOption(4, "On how many made-up traces it imitates.", least=1),
                "passes": MethodOption(8, "How often it goes through what it saw there.", least=1),
                "episodes": MethodOption(20, "Made-up traces on which it learns from rewards.", least=0),
                "training_s": MethodOption(
                    60.0,
                    "Seconds after which learning ends; half of the time limit if that is less.",
                    least=0.0,
                ),
            },
        )

    def unavailable(self) -> str | None:
        """Return how to install PyTorch, None if it is installed."""
        return missing_package_text("torch", "PyTorch", "'clusterplan[rl]'")

    def policy(
        self, instance: SchedulingInstance, settings: dict[str, Any], options: SolveOptions, clock: Clock
    ) -> RoundPolicy:
        """Return the policy DL² with a network trained on generated traces; the instance is not used."""
        del instance
        left_s = clock.remaining_s
        check_time_to_load_torch(left_s)
        from .dl2_training import Trainer

        most_s = (
            settings["training_s"] if left_s is None else min(settings["training_s"], TRAINING_SHARE * left_s)
        )
        last_s = clock.elapsed_s + most_s
        seed, interval_s = options.seed or 0, settings["interval_s"]
        incumbent = INCUMBENTS[settings["incumbent"]]
        with seeded_torch(seed, options.threads):
            trainer = Trainer(
                interval_s, seed, lambda: incumbent(interval_s), lambda: clock.elapsed_s > last_s
            )
            trainer.train(settings["traces"], settings["passes"], settings["episodes"])
        return DL2(interval_s, trainer.best_actor(), learned=trainer.curve.text())
