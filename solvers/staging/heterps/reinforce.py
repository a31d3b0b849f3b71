"""HeterPS's learned method: a recurrent network chooses a type for each layer, trained by REINFORCE.

The network reads the layers in order and gives each a softmax over the types that can run it; a plan is drawn
layer by layer from these. Its inputs are those of the paper, for each layer: which one it is and of which
kind, both one-hot, the size of its input and of its weights, and its communication time. With `feedback`,
which is ours, the type of the layer before is an input too and adds a learned bonus to that type, so that
segments of layers are drawn and not single layers. Without it the layers' choices are independent given the
network, and training ends at worse plans.

As in the paper, training has two phases. In the first the
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

PyTorch is imported as an untyped module when it is used, so that types are checked alike with and without it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Literal

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.staging.formulation import StagingFormulation
from ....instances.common.arrays import Floats, Ints
from ....instances.common.errors import OutOfTimeError
from ...backends.base import check_time_to_load_torch, missing_package_text, seeded_torch
from ...common.base import Clock, MethodOption, Outcome
from ...common.result import SolveOptions
from .type_search import PROVISIONING, TypeMethod, Types, TypeSearch, random_types

AVERAGING = 0.9
"""Weight of the past in the moving averages of the loss and of its spread."""
LEAST_SPREAD = 1e-3
"""Smaller spreads count as this, so that advantages stay bounded."""
FIRST_SEGMENT_LAYERS = 4.0
"""Layers of a segment on average, before anything is learned."""
MOST_GRADIENT_NORM = 1.0
"""Norm to which longer gradients of a training step are clipped."""


class Reinforce(TypeMethod):
    """HeterPS's REINFORCE method on an LSTM, or on an Elman network as in its ablation; needs PyTorch.

    Parameters
    ----------
    cell
        Which of the two.
    """

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
        self._cell = cell
        self.name = f"reinforce-{cell}"
        network = "an LSTM" if cell == "lstm" else "an Elman network"
        self.what = f"HeterPS's learned method: {network} over the layers, trained by REINFORCE"

    def unavailable(self) -> str | None:
        """Return how to install PyTorch, None if it is installed."""
        return missing_package_text("torch", "PyTorch", "'clusterplan[rl]'")

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Train the policy until the episodes or the time are used up; return the best evaluated plan."""
        check_time_to_load_torch(clock.remaining_s)
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
        self._baseline: float | None = None
        self._spread = 0.0

    def train(self, episodes: int, batch: int, pretraining: float, entropy: float) -> None:
        """Train for a number of episodes (evaluated plans), then evaluate the most probable plan."""
        first = min(int(episodes * pretraining), episodes)
        while self.search.judged < first and not self.search.over:
            count = min(batch, first - self.search.judged)
            self._learn([random_types(self.search.able, self.rng) for _ in range(count)])
        # The policy's own plans differ from random ones: the moving baseline starts again.
        self._baseline = None
        while self.search.judged < episodes and not self.search.over:
            left = 1 - (self.search.judged - first) / max(episodes - first, 1)
            count = min(batch, episodes - self.search.judged)
            self._learn(self.policy.draw(count, self.rng), entropy * left)
        if not self.search.clock.expired:
            self.search.fitness(self.policy.most_probable())

    def summary(self) -> str:
        """Return a text on the mean losses of the first and the last batch."""
        if not self.means:
            return "the time was up before the policy drew any"
        return f"mean ln(cost/first) of a batch {self.means[0]:.3f} → {self.means[-1]:.3f}"

    def _learn(self, drawn: list[Types], entropy: float | None = None) -> None:
        """Follow the gradient of the policy's own plans or, without entropy, imitate the better ones."""
        in_time = itertools.takewhile(lambda _: not self.search.clock.expired, drawn)
        losses = np.array([self.search.loss(types) for types in in_time])
        if not len(losses):
            return
        advantage = self._advantage(losses)
        if entropy is None:
            self.policy.step(drawn[: len(losses)], np.minimum(advantage, 0.0), 0.0)
        else:
            self.means.append(float(losses.mean()))
            self.policy.step(drawn[: len(losses)], advantage, entropy)

    def _advantage(self, losses: Floats) -> Floats:
        """Return each loss less the moving baseline, divided by the moving standard deviation."""
        if self._baseline is None:
            self._baseline, self._spread = float(losses.mean()), float(losses.std())
        else:
            past = AVERAGING
            self._baseline = past * self._baseline + (1 - past) * float(losses.mean())
            self._spread = past * self._spread + (1 - past) * float(losses.std())
        spread = max(self._spread, LEAST_SPREAD)
        return (losses - self._baseline) / spread


def features(formulation: StagingFormulation) -> Floats:
    """Return the inputs of the network, a row for each place in the order of layers, scaled to at most 1."""
    layers, places = formulation.instance.layers, [list(own) for own in formulation.places]
    kinds = sorted({layer.kind for layer in layers})
    of_kind = np.array([[layer.kind == kind for kind in kinds] for layer in layers], dtype=float)
    figures = np.array(
        [
            (
                layer.input_bytes or (layers[index - 1].output_bytes if index else 0.0),
                layer.weight_bytes,
                sum(layer.communication_s.get(name, 0.0) for name in layer.compute_s) / len(layer.compute_s),
            )
            for index, layer in enumerate(layers)
        ]
    )
    kind, total = (np.array([rows[own].sum(axis=0) for own in places]) for rows in (of_kind, figures))
    largest = total.max(axis=0)
    return np.hstack([np.eye(len(places)), np.minimum(kind, 1), total / np.where(largest > 0, largest, 1.0)])


class Policy:
    """A recurrent network that gives each layer probabilities of the hardware types, with its optimiser.

    Parameters
    ----------
    inputs
        Features of each layer.
    able
        The types that can run each layer, as indices; the others get no probability.
    types
        Number of types.
    feedback
        Whether a layer's choice depends on those before it.
    """

    def __init__(
        self,
        inputs: Floats,
        able: Sequence[Sequence[int]],
        types: int,
        *,
        cell: Literal["lstm", "rnn"],
        hidden: int,
        learning_rate: float,
        feedback: bool = True,
    ) -> None:
        self.torch: Any = import_module("torch")
        self._inputs = self.torch.tensor(inputs, dtype=self.torch.float32)
        self._masked = self.torch.tensor([[t not in own for t in range(types)] for own in able])
        network = self.torch.nn.LSTM if cell == "lstm" else self.torch.nn.RNN
        self._network = network(inputs.shape[1] + types, hidden, batch_first=True)
        self.head = self.torch.nn.Linear(hidden, types)
        self.torch.nn.init.zeros_(self.head.weight)
        self.torch.nn.init.zeros_(self.head.bias)
        stay = math.log((FIRST_SEGMENT_LAYERS - 1) * max(types - 1, 1)) if feedback else 0.0
        self._stay, self._feedback = self.torch.nn.Parameter(self.torch.tensor(stay)), feedback
        self.parameters = [*self._network.parameters(), *self.head.parameters(), self._stay]
        self._optimiser = self.torch.optim.Adam(self.parameters, lr=learning_rate)

    def _conditional(self, before: Any, first: int, state: Any) -> tuple[Any, Any]:
        """Return the log-probabilities of the types for some layers, given those before, and the state.

        Parameters
        ----------
        before
            One-hot types of the layers just before, shape (batch, layers, T); zero before the first.
        first
            The first of these layers.
        state
            Of the network before that layer; None at the beginning.
        """
        before = before * float(self._feedback)
        batch, size, _ = before.shape
        layers = slice(first, first + size)
        inputs = self.torch.cat([self._inputs[layers].expand(batch, -1, -1), before], dim=2)
        hidden, state = self._network(inputs, state)
        logits = (self.head(hidden) + self._stay * before).masked_fill(self._masked[layers], -1e9)
        return self.torch.log_softmax(logits, dim=2), state

    def _choose_by_layer(self, count: int, choose: Callable[[Floats], Ints]) -> list[Types]:
        """Return `count` assignments of types to layers, picked layer by layer by `choose`."""
        size, types = self._masked.shape
        chosen = np.empty((count, size), dtype=np.int64)
        before, state = self.torch.zeros(count, 1, types), None
        with self.torch.no_grad():
            for layer in range(size):
                check_time()
                logs, state = self._conditional(before, layer, state)
                chosen[:, layer] = choose(logs[:, 0].double().exp().numpy())
                before = self.torch.nn.functional.one_hot(
                    self.torch.tensor(chosen[:, layer : layer + 1]), types
                ).float()
        return [tuple(types) for types in chosen.tolist()]

    def draw(self, count: int, rng: np.random.Generator) -> list[Types]:
        """Return a number of assignments of types to layers, drawn from the policy."""

        def choose(probabilities: Floats) -> Ints:
            cumulative = probabilities.cumsum(axis=1)
            # Of the total and not of 1, so that rounding cannot choose a type without any probability.
            mark = rng.random((count, 1)) * cumulative[:, -1:]
            return np.asarray((mark >= cumulative).sum(axis=1), dtype=np.int64)

        return self._choose_by_layer(count, choose)

    def most_probable(self) -> Types:
        """Return the assignment that takes the most probable type of each layer, given those before it."""
        return self._choose_by_layer(1, lambda probabilities: probabilities.argmax(axis=1))[0]

    def log_probabilities(self, drawn: Sequence[Types]) -> tuple[Any, Any]:
        """Return the log-probability of each assignment of types, and the mean entropy per layer."""
        chosen = self.torch.nn.functional.one_hot(self.torch.tensor(drawn), self._masked.shape[1]).float()
        before = self.torch.cat([self.torch.zeros_like(chosen[:, :1]), chosen[:, :-1]], dim=1)
        logs, _ = self._conditional(before, 0, None)
        return (logs * chosen).sum(dim=(1, 2)), -(logs.exp() * logs).sum(dim=2).mean()

    def surrogate(self, drawn: Sequence[Types], advantages: Floats, entropy: float = 0.0) -> Any:
        """Return the surrogate loss, whose gradient is REINFORCE's estimate of the expected loss's.

        Parameters
        ----------
        advantages
            By how much each choice's loss is above a baseline.
        entropy
            How much entropy is subtracted from the loss.
        """
        own, spread = self.log_probabilities(drawn)
        return (self.torch.tensor(advantages, dtype=self.torch.float32) * own).mean() - entropy * spread

    def step(self, drawn: Sequence[Types], advantages: Floats, entropy: float) -> None:
        """Take a gradient step: assignments become less probable where their loss is above the baseline."""
        self._optimiser.zero_grad()
        self.surrogate(drawn, advantages, entropy).backward()
        self.torch.nn.utils.clip_grad_norm_(self.parameters, MOST_GRADIENT_NORM)
        self._optimiser.step()
