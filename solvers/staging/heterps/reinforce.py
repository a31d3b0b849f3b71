"""HeterPS's learned method: a recurrent network chooses a type for each layer, trained by REINFORCE.

The network reads the layers in order (`reinforce_policy.py`) and gives each a softmax over the types that can
run it; a plan is drawn layer by layer from these. As in the paper, training has two phases. In the first the
plans are random segments of random types, and the policy learns to imitate those that are better than
average. In the second they are drawn from the policy itself, which follows the gradient of the expected loss
(Williams 1992),

    ∇ E[loss] = E[(loss − b)·∇ Σ_l log p_l(type of l)],

with a moving average b as baseline and a bonus for entropy that fades out. The loss is the logarithm of the
cost, so that a step does not depend on the currency. The plan that is returned is the best of all that were
judged, the policy's most probable one among them.

At their defaults, over 20 synthetic instances of 16 layers on 2 types and `heterps-ctr`, both networks' plans
cost 0 % more than the optimum in the median and 7 % at most with exact units; 2 % and 12 % with load balance.
On one or two tight instances they find no plan.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import numpy as np

from ....formulations.staging.formulation import StagingFormulation
from ....instances.common.errors import OutOfTimeError
from ...backends.base import check_time_to_load_torch, missing_package_text, seeded_torch
from ...common.base import Clock, MethodOption, Outcome, Solver
from ...common.result import SolveOptions
from .type_search import PROVISIONING, PenalisedObjective, Types, TypeSearch, random_types

AVERAGING = 0.9
"""Weight of the past in the moving averages of the loss and of its spread."""
LEAST_SPREAD = 1e-3
"""Smaller spreads count as this, so that advantages stay bounded."""


class Reinforce(Solver[StagingFormulation]):
    """HeterPS's REINFORCE method on an LSTM, or on an Elman network as in its ablation; needs PyTorch.

    Parameters
    ----------
    cell
        Which of the two.
    """

    kinds = ("staging",)
    method_options = {
        "provisioning": PROVISIONING,
        "episodes": MethodOption(8000, "how many plans are judged", least=1),
        "batch": MethodOption(40, "how many plans make one step of training", least=1),
        "pretraining": MethodOption(0.25, "share of the episodes that are random plans", least=0.0),
        "feedback": MethodOption(True, "whether a layer's type depends on the types before it"),
        "hidden": MethodOption(32, "width of the network", least=1),
        "learning_rate": MethodOption(0.01, "step length of Adam", least=0.0),
        "entropy": MethodOption(5.0, "weight of the entropy bonus at the beginning", least=0.0),
    }

    def __init__(self, cell: Literal["lstm", "rnn"]) -> None:
        self._cell: Literal["lstm", "rnn"] = cell
        self.name = f"reinforce-{cell}"
        network = "an LSTM" if cell == "lstm" else "an Elman network"
        self.what = f"HeterPS's learned method: {network} over the layers, trained by REINFORCE"

    def unavailable(self) -> str | None:
        """Return how to install PyTorch, None if it is installed."""
        return missing_package_text("torch", "PyTorch", "'clusterplan[rl]'")

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Train the policy until the episodes or the time are used up; return the best evaluated plan."""
        check_time_to_load_torch(clock.remaining_s)
        from .reinforce_policy import Policy, features

        way, episodes = self.setting(options, "provisioning"), self.setting(options, "episodes")
        # The most probable plan at the end is judged on top of the episodes.
        search = TypeSearch(formulation, way, clock, episodes + 1)
        seed = options.seed or 0
        with seeded_torch(seed, options.threads):
            policy = Policy(
                features(formulation),
                search.able,
                len(formulation.instance.types),
                cell=self._cell,
                hidden=self.setting(options, "hidden"),
                learning_rate=self.setting(options, "learning_rate"),
                feedback=self.setting(options, "feedback"),
            )
            trainer = Trainer(search, policy, np.random.default_rng(seed))
            with suppress(OutOfTimeError):  # what was judged counts
                trainer.train(
                    episodes,
                    self.setting(options, "batch"),
                    self.setting(options, "pretraining"),
                    self.setting(options, "entropy"),
                )
        return search.outcome(f"{self.name}: {search.judged:,} plans; {trainer.summary()}")


class Trainer:
    """Trains a policy by imitation, then by REINFORCE; `means` has the mean loss of each batch of that."""

    def __init__(self, search: TypeSearch, policy: Any, rng: np.random.Generator) -> None:
        self.search, self.policy, self.rng = search, policy, rng
        self.means: list[float] = []
        self._loss = PenalisedObjective()
        self._baseline: float | None = None
        self._spread = 0.0

    def train(self, episodes: int, batch: int, pretraining: float, entropy: float) -> None:
        """Train for a number of episodes (evaluated plans), then evaluate the most probable plan."""
        first = min(int(episodes * pretraining), episodes)
        while self.search.judged < first and not self.search.over:
            self._imitate(min(batch, first - self.search.judged))
        # The policy's own plans differ from random ones: the moving baseline starts again.
        self._baseline = None
        while self.search.judged < episodes and not self.search.over:
            left = 1 - (self.search.judged - first) / max(episodes - first, 1)
            self._follow(min(batch, episodes - self.search.judged), entropy * left)
        if not self.search.clock.expired:
            self.search.fitness(self.policy.most_probable())

    def summary(self) -> str:
        """Return a text on the mean losses of the first and the last batch."""
        if not self.means:
            return "the time was up before the policy drew any"
        return f"mean ln(cost/first) of a batch {self.means[0]:.3f} → {self.means[-1]:.3f}"

    def _imitate(self, batch: int) -> None:
        drawn = [random_types(self.search.able, self.rng) for _ in range(batch)]
        losses = self._losses(drawn)
        if len(losses):
            self.policy.step(drawn[: len(losses)], np.minimum(self._advantage(losses), 0.0), 0.0)

    def _follow(self, batch: int, entropy: float) -> None:
        drawn = self.policy.draw(batch, self.rng)
        losses = self._losses(drawn)
        if len(losses):
            self.means.append(float(losses.mean()))
            self.policy.step(drawn[: len(losses)], self._advantage(losses), entropy)

    def _losses(self, drawn: list[Types]) -> np.ndarray[Any, np.dtype[np.float64]]:
        losses = []
        for types in drawn:
            if self.search.clock.expired:
                break
            losses.append(self._loss.of(self.search.fitness(types)))
        return np.array(losses)

    def _advantage(self, losses: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return each loss less the moving baseline, divided by the moving standard deviation."""
        if self._baseline is None:
            self._baseline, self._spread = float(losses.mean()), float(losses.std())
        else:
            past = AVERAGING
            self._baseline = past * self._baseline + (1 - past) * float(losses.mean())
            self._spread = past * self._spread + (1 - past) * float(losses.std())
        spread = max(self._spread, LEAST_SPREAD)
        result: np.ndarray[Any, np.dtype[np.float64]] = (losses - self._baseline) / spread
        return result
