"""The policy of the learned methods: a recurrent network that gives each layer a softmax over types.

Its inputs are those of the paper, for each layer: which one it is and of which kind, both one-hot, the size
of its input and of its weights, and its communication time. With `feedback`, which is ours, the type of the
layer before is an input too and adds a learned bonus to that type, so that segments of layers are drawn and
not single layers. Without it the layers' choices are independent given the network, and training ends at
worse plans.

PyTorch is imported as an untyped module, so that types are checked alike with and without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ....formulations.common.clock import check_time
from ....formulations.staging.formulation import StagingFormulation
from ....instances.common.arrays import Floats
from .type_search import Types

torch: Any = import_module("torch")


FIRST_SEGMENT_LAYERS = 4.0
"""Layers of a segment on average, before anything is learned."""
MOST_GRADIENT_NORM = 1.0
"""Norm to which longer gradients of a training step are clipped."""


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
        self._inputs = torch.tensor(inputs, dtype=torch.float32)
        self._masked = torch.tensor([[t not in own for t in range(types)] for own in able])
        network = torch.nn.LSTM if cell == "lstm" else torch.nn.RNN
        self._network = network(inputs.shape[1] + types, hidden, batch_first=True)
        self.head = torch.nn.Linear(hidden, types)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        stay = math.log((FIRST_SEGMENT_LAYERS - 1) * max(types - 1, 1)) if feedback else 0.0
        self._stay, self._feedback = torch.nn.Parameter(torch.tensor(stay)), feedback
        self.parameters = [*self._network.parameters(), *self.head.parameters(), self._stay]
        self._optimiser = torch.optim.Adam(self.parameters, lr=learning_rate)

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
        inputs = torch.cat([self._inputs[layers].expand(batch, -1, -1), before], dim=2)
        hidden, state = self._network(inputs, state)
        logits = (self.head(hidden) + self._stay * before).masked_fill(self._masked[layers], -1e9)
        return torch.log_softmax(logits, dim=2), state

    def _choose_by_layer(self, count: int, choose: Callable[[Floats], NDArray[np.int64]]) -> list[Types]:
        """Return `count` assignments of types to layers, picked layer by layer by `choose`."""
        size, types = self._masked.shape
        chosen = np.empty((count, size), dtype=np.int64)
        before, state = torch.zeros(count, 1, types), None
        with torch.no_grad():
            for layer in range(size):
                check_time()
                logs, state = self._conditional(before, layer, state)
                chosen[:, layer] = choose(logs[:, 0].double().exp().numpy())
                before = torch.nn.functional.one_hot(
                    torch.tensor(chosen[:, layer : layer + 1]), types
                ).float()
        return [tuple(types) for types in chosen.tolist()]

    def draw(self, count: int, rng: np.random.Generator) -> list[Types]:
        """Return a number of assignments of types to layers, drawn from the policy."""

        def choose(probabilities: Floats) -> NDArray[np.int64]:
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
        chosen = torch.nn.functional.one_hot(torch.tensor(drawn), self._masked.shape[1]).float()
        before = torch.cat([torch.zeros_like(chosen[:, :1]), chosen[:, :-1]], dim=1)
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
        return (torch.tensor(advantages, dtype=torch.float32) * own).mean() - entropy * spread

    def step(self, drawn: Sequence[Types], advantages: Floats, entropy: float) -> None:
        """Take a gradient step: assignments become less probable where their loss is above the baseline."""
        self._optimiser.zero_grad()
        self.surrogate(drawn, advantages, entropy).backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, MOST_GRADIENT_NORM)
        self._optimiser.step()
