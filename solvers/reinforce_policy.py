"""The policy of the learned methods: a recurrent network that gives each layer a softmax over types.

Its inputs are those of the paper, for each layer: which one it is and of which kind, both one-hot, the size
of its input and of its weights, and its communication time. The choice of one layer is not fed back to the
next, so given the network the layers' choices are independent; what they share are the network's weights.

PyTorch is imported as an untyped module, so that types are checked alike with and without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..instances.staging import StagingInstance
from .placement import Types

torch: Any = import_module("torch")

Floats = NDArray[np.float64]


@contextmanager
def one_torch(seed: int, threads: int | None) -> Iterator[None]:
    """Seed PyTorch and set its threads; both are as before at the end."""
    before = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            if threads is not None:
                torch.set_num_threads(threads)
            yield
        finally:
            torch.set_num_threads(before)


def features(instance: StagingInstance) -> Floats:
    """Return the inputs of the network, one row for each layer, scaled to at most 1."""
    layers = instance.layers
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
    largest = figures.max(axis=0)
    return np.hstack([np.eye(len(layers)), of_kind, figures / np.where(largest > 0, largest, 1.0)])


class Policy:
    """A network, its optimiser, and what is asked of both.

    Parameters
    ----------
    inputs
        Features of each layer.
    able
        The types that can run each layer, as indices; the others get no probability.
    types
        How many types there are.
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
    ) -> None:
        self._inputs = torch.tensor(inputs, dtype=torch.float32).unsqueeze(0)
        network = torch.nn.LSTM if cell == "lstm" else torch.nn.RNN
        self._network = network(inputs.shape[1], hidden, batch_first=True)
        self.head = torch.nn.Linear(hidden, types)
        torch.nn.init.zeros_(self.head.weight)  # at the beginning all types are equally probable
        torch.nn.init.zeros_(self.head.bias)
        self._barred = torch.tensor([[kind not in kinds for kind in range(types)] for kinds in able])
        parameters = [*self._network.parameters(), *self.head.parameters()]
        self._optimiser = torch.optim.Adam(parameters, lr=learning_rate)

    def log_probabilities(self) -> Any:
        """Return the logarithm of each type's probability for each layer, shape (L, T)."""
        states, _ = self._network(self._inputs)
        logits = self.head(states[0]).masked_fill(self._barred, -1e9)
        return torch.log_softmax(logits, dim=-1)

    def draw(self, count: int, rng: np.random.Generator) -> list[Types]:
        """Return this many choices of types."""
        with torch.no_grad():
            heaped = self.log_probabilities().exp().double().numpy().cumsum(axis=1)
        # The last type that has any probability ends at exactly 1, whatever rounding says.
        heaped /= heaped[:, -1:]
        drawn = (rng.random((count, len(heaped), 1)) >= heaped).sum(axis=2)
        return [tuple(types) for types in drawn.tolist()]

    def most_probable(self) -> Types:
        """Return the most probable type of each layer."""
        with torch.no_grad():
            return tuple(self.log_probabilities().argmax(dim=1).tolist())

    def surrogate(self, drawn: Sequence[Types], advantages: Floats) -> Any:
        """Return a function whose gradient is REINFORCE's estimate of that of the expected loss."""
        chosen = torch.nn.functional.one_hot(torch.tensor(drawn), self._barred.shape[1])
        own = (self.log_probabilities() * chosen).sum(dim=(1, 2))
        return (torch.tensor(advantages, dtype=torch.float32) * own).mean()

    def step(self, drawn: Sequence[Types], advantages: Floats, entropy: float) -> None:
        """Make these choices less probable where the advantage (of the loss) is positive, else more."""
        loss = self.surrogate(drawn, advantages)
        if entropy > 0:
            logs = self.log_probabilities()
            loss = loss + entropy * (logs.exp() * logs).sum(dim=1).mean()
        self._optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        self._optimiser.step()
