"""The network of DL² and its training with PyTorch, and the same network with NumPy, for decisions.

All slots share one network of two hidden layers, which reads the figures of its job and of the cluster, and
their means over the jobs that are there; two figures come out, one for each step. To stop has a figure of its
own, from the means. (The paper has one layer across all slots, which must learn for each anew.) A second
network, the critic, reads the means.

PyTorch is imported as an untyped module, so that types are checked alike with and without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from .dl2_policy import ACTIONS, COMMON, FIGURES, SLOTS, STEPS

torch: Any = import_module("torch")

HIDDEN = 48
MOST_NORM = 1.0
"""Longer gradients of a step of training are shortened."""
BARRED = -1e9
INPUTS = COMMON + 2 * FIGURES
"""Of a slot: the cluster's figures, its own, and the means."""


def _network(inputs: int, outputs: int) -> Any:
    nn = torch.nn
    hidden = (nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
    return nn.Sequential(*hidden, nn.Linear(HIDDEN, outputs)).double()


def _means(states: Any) -> Any:
    """Return the cluster's figures and the sums over slots over their number, shape (n, COMMON + FIGURES)."""
    return torch.cat([states[:, 0, :COMMON], states[:, :, COMMON:].mean(dim=1)], dim=1)


class Network:
    """Actor and critic, with what trains them."""

    def __init__(self) -> None:
        self.steps, self.stop = _network(INPUTS, STEPS), _network(COMMON + FIGURES, 1)
        self.critic = _network(COMMON + FIGURES, 1)
        self._actor = [*self.steps.parameters(), *self.stop.parameters()]
        self._all = [*self._actor, *self.critic.parameters()]

    def optimiser(self, learning_rate: float) -> Any:
        """Return a new optimiser of all parameters."""
        return torch.optim.Adam(self._all, lr=learning_rate)

    def logits(self, states: Any, allowed: Any) -> Any:
        """Return the figures of all actions, shapes (n, SLOTS, ·) and (n, ACTIONS)."""
        means = _means(states)
        around = means[:, None, COMMON:].expand(-1, SLOTS, -1)
        steps = self.steps(torch.cat([states, around], dim=2)).reshape(len(states), SLOTS * STEPS)
        return torch.cat([steps, self.stop(means)], dim=1).masked_fill(~allowed, BARRED)

    def values(self, states: Any) -> Any:
        """Return what the critic expects from states on, shape (n,)."""
        return self.critic(_means(states))[:, 0]

    def imitate(self, optimiser: Any, states: Floats, allowed: Flags, good: Flags) -> float:
        """Make good actions more probable; return the mean of −ln(their probability) before."""
        logs = torch.log_softmax(self.logits(torch.tensor(states), torch.tensor(allowed)), dim=1)
        right = torch.logsumexp(logs.masked_fill(~torch.tensor(good), BARRED), dim=1)
        loss = -right.mean()
        self._step(optimiser, loss)
        return float(loss.detach())

    def improve(
        self,
        optimiser: Any,
        states: Floats,
        allowed: Flags,
        actions: Ints,
        advantages: Floats,
        begins: tuple[Floats, Floats],
        entropy: float,
    ) -> None:
        """Follow the gradient of the expected return, and of the critic's error.

        Parameters
        ----------
        advantages
            Of each action.
        begins
            States with which intervals begin, and what the critic should have said of them.
        entropy
            Weight of the actor's mean entropy.
        """
        logs = torch.log_softmax(self.logits(torch.tensor(states), torch.tensor(allowed)), dim=1)
        own = logs[torch.arange(len(actions)), torch.tensor(actions)]
        spread = -(logs.exp() * logs).sum(dim=1).mean()
        actor = -(torch.tensor(advantages) * own).mean() - entropy * spread
        error = ((self.values(torch.tensor(begins[0])) - torch.tensor(begins[1])) ** 2).mean()
        self._step(optimiser, actor + error)

    def expected(self, states: Floats) -> Floats:
        """Return what the critic expects, shape (n,)."""
        with torch.no_grad():
            return np.asarray(self.values(torch.tensor(states)).numpy())

    def weights(self) -> list[list[Floats]]:
        """Return copies of the weights and biases of the two networks of the actor."""
        return [[p.detach().numpy().copy() for p in own.parameters()] for own in (self.steps, self.stop)]

    def _step(self, optimiser: Any, loss: Any) -> None:
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._all, MOST_NORM)
        optimiser.step()


class Actor:
    """Chooses actions by weights that do not change: the most probable, or one drawn at random.

    Parameters
    ----------
    weights
        Of `Network.weights`.
    rng
        For draws; None for the most probable action.
    """

    def __init__(self, weights: list[list[Floats]], rng: np.random.Generator | None = None) -> None:
        self._steps, self._stop = weights
        self._rng = rng

    def __call__(self, state: Floats, allowed: Flags) -> int:
        """Return an action that is allowed."""
        means = np.concatenate([state[0, :COMMON], state[:, COMMON:].mean(axis=0)])
        # Slots without an allowed step need no figure.
        open_slots = np.flatnonzero(allowed[:-1].reshape(SLOTS, STEPS).any(axis=1))
        around = np.broadcast_to(means[COMMON:], (len(open_slots), FIGURES))
        figures = np.full(ACTIONS, BARRED)
        steps = figures[:-1].reshape(SLOTS, STEPS)
        steps[open_slots] = _forward(self._steps, np.hstack([state[open_slots], around]))
        figures[-1] = _forward(self._stop, means[None])[0, 0]
        figures[~allowed] = BARRED
        if self._rng is None:
            return int(figures.argmax())
        heaped = np.cumsum(np.exp(figures - figures.max()))
        return int(np.searchsorted(heaped, self._rng.random() * heaped[-1], side="right"))


def _forward(weights: list[Floats], inputs: Floats) -> Floats:
    w1, b1, w2, b2, w3, b3 = weights
    hidden = np.maximum(inputs @ w1.T + b1, 0.0)
    hidden = np.maximum(hidden @ w2.T + b2, 0.0)
    return np.asarray(hidden @ w3.T + b3)
