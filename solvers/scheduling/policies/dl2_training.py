"""Training of DL² with PyTorch: the network, imitation of an incumbent policy, then actor and critic.

The reward of an interval is Σ_j (work done in it) / (work of j) over the present jobs, as in the
paper. With γ per interval, the advantage of all actions of an interval is r + γ V(next) − V(now). The
weights that are kept are those with the least mean completion time on traces for validation.

All slots share one network of two hidden layers, which reads the features of its job and of the cluster, and
their means over the jobs; it has two outputs, one for each step. To stop has an output of its own, from the
means. (The paper has one layer across all slots, which must learn for each anew.) A second network, the
critic, reads the means. For decisions the same network is evaluated with NumPy.

PyTorch is imported as an untyped module, so that types are checked alike with and without it. The solver
imports this module only when it learns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from ....formulations.scheduling.plan import last_ends_s
from ....instances.common.arrays import Flags, Floats, Ints
from ....instances.scheduling.generate import speeds_of
from ....instances.scheduling.instance import SchedulingInstance
from ..engine import Engine
from .dl2_policy import ACTIONS, COMMON, DL2, FIGURES, SLOTS, STEPS, ActionSelector, Trajectory
from .optimus import Optimus

torch: Any = import_module("torch")

HIDDEN = 48
MAX_NORM = 1.0
"""Largest norm of a gradient, to which larger ones are scaled."""
MASKED_LOGIT = -1e9
INPUTS = COMMON + 2 * FIGURES
"""Inputs for a slot: features of the cluster and of its job, and their means."""


def _network(inputs: int, outputs: int) -> Any:
    nn = torch.nn
    hidden = (nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
    return nn.Sequential(*hidden, nn.Linear(HIDDEN, outputs)).double()


def _means(states: Any) -> Any:
    """Return the cluster's features, and the means of the job features over slots, (n, COMMON + FIGURES)."""
    return torch.cat([states[:, 0, :COMMON], states[:, :, COMMON:].mean(dim=1)], dim=1)


class Network:
    """The actor and critic networks of DL² in PyTorch, with their gradient steps."""

    def __init__(self) -> None:
        self.steps, self.stop = _network(INPUTS, STEPS), _network(COMMON + FIGURES, 1)
        self.critic = _network(COMMON + FIGURES, 1)
        self._all = [p for own in (self.steps, self.stop, self.critic) for p in own.parameters()]

    def optimiser(self, learning_rate: float) -> Any:
        """Return a new Adam optimiser of the parameters of actor and critic."""
        return torch.optim.Adam(self._all, lr=learning_rate)

    def logits(self, states: Any, allowed: Any) -> Any:
        """Return the actor's logits of all actions in n states, (n, ACTIONS); masked where forbidden."""
        means = _means(states)
        around = means[:, None, COMMON:].expand(-1, SLOTS, -1)
        steps = self.steps(torch.cat([states, around], dim=2)).reshape(len(states), SLOTS * STEPS)
        return torch.cat([steps, self.stop(means)], dim=1).masked_fill(~allowed, MASKED_LOGIT)

    def values(self, states: Any) -> Any:
        """Return the critic's value of each of n states, shape (n,), as a tensor."""
        return self.critic(_means(states))[:, 0]

    def imitate(self, optimiser: Any, states: Floats, allowed: Flags, good: Flags) -> float:
        """Take a gradient step towards the good actions; return their mean −ln(probability) before it."""
        logs = torch.log_softmax(self.logits(torch.tensor(states), torch.tensor(allowed)), dim=1)
        right = torch.logsumexp(logs.masked_fill(~torch.tensor(good), MASKED_LOGIT), dim=1)
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
        """Take one gradient step of the actor (with entropy bonus) and critic (squared error) together.

        Parameters
        ----------
        advantages
            Advantage of each action.
        begins
            First states of intervals, and target values of the critic for them.
        entropy
            Weight of the actor's mean entropy.
        """
        choice = torch.distributions.Categorical(
            logits=self.logits(torch.tensor(states), torch.tensor(allowed))
        )
        gain = (torch.tensor(advantages) * choice.log_prob(torch.tensor(actions))).mean()
        actor = -gain - entropy * choice.entropy().mean()
        first, targets = map(torch.tensor, begins)
        error = torch.nn.functional.mse_loss(self.values(first), targets)
        self._step(optimiser, actor + error)

    def expected(self, states: Floats) -> Floats:
        """Return the critic's value of each of n states, shape (n,), as a NumPy array."""
        with torch.no_grad():
            return np.asarray(self.values(torch.tensor(states)).numpy())

    def weights(self) -> list[list[Floats]]:
        """Return copies of the actor's weights and biases: of its step network, then of its stop network."""
        return [[p.detach().numpy().copy() for p in own.parameters()] for own in (self.steps, self.stop)]

    def _step(self, optimiser: Any, loss: Any) -> None:
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._all, MAX_NORM)
        optimiser.step()


class Actor:
    """Selects actions by fixed actor weights: the most probable action, or one drawn by the probabilities.

    Parameters
    ----------
    weights
        As `Network.weights` returns them.
    rng
        For draws; None for the most probable action.
    """

    def __init__(self, weights: list[list[Floats]], rng: np.random.Generator | None = None) -> None:
        self._steps, self._stop = weights
        self._rng = rng

    def __call__(self, state: Floats, allowed: Flags) -> int:
        """Return the index of one of the allowed actions."""
        means = np.concatenate([state[0, :COMMON], state[:, COMMON:].mean(axis=0)])
        # Slots without an allowed step need no figure.
        open_slots = np.flatnonzero(allowed[:-1].reshape(SLOTS, STEPS).any(axis=1))
        around = np.broadcast_to(means[COMMON:], (len(open_slots), FIGURES))
        figures = np.full(ACTIONS, MASKED_LOGIT)
        steps = figures[:-1].reshape(SLOTS, STEPS)
        steps[open_slots] = _forward(self._steps, np.hstack([state[open_slots], around]))
        figures[-1] = _forward(self._stop, means[None])[0, 0]
        figures[~allowed] = MASKED_LOGIT
        if self._rng is None:
            return int(figures.argmax())
        heaped = np.cumsum(np.exp(figures - figures.max()))
        return int(np.searchsorted(heaped, self._rng.random() * heaped[-1], side="right"))


def _forward(weights: list[Floats], inputs: Floats) -> Floats:
    w1, b1, w2, b2, w3, b3 = weights
    hidden = np.maximum(inputs @ w1.T + b1, 0.0)
    hidden = np.maximum(hidden @ w2.T + b2, 0.0)
    return hidden @ w3.T + b3


GPUS = 32
JOBS = 40
MEDIAN, SPREAD, LONGEST = 3.0, 1.5, 60.0
"""Median, spread and maximum of the log-normal durations of training jobs, in intervals."""
MAX_SHARE = 0.25
"""Largest share of the cluster that a job requests."""
GAMMA = 0.9
BATCH = 256
RATES = (3e-3, 1e-3)
"""Learning rates of Adam, in imitation and afterwards."""
ENTROPY = 0.01
VALIDATION_EPISODES = 5
"""Episodes between two validations."""
VALIDATION = (1_000_000_007, 1_000_000_009, 1_000_000_021, 1_000_000_033)
"""Seeds of the traces for validation; those of training are drawn below 10⁹."""


@dataclass
class LearningCurve:
    """Learning curve of DL²: imitation loss per pass, and mean completion times on validation traces.

    Attributes
    ----------
    losses
        Mean −ln(probability of the incumbent's actions) of each pass of imitation.
    means_s
        Number of episodes at each validation → mean completion time on the traces for validation then.
    cut
        Whether time was up before all episodes were done.
    """

    losses: list[float] = field(default_factory=list)
    means_s: dict[int, float] = field(default_factory=dict)
    incumbent_s: float = float("nan")
    cut: bool = False

    def text(self) -> str:
        """Return the learning curve as one line of text."""
        losses = ", ".join(f"{loss:.3f}" for loss in self.losses)
        means = ", ".join(f"{e}: {mean:,.0f}" for e, mean in self.means_s.items())
        summary = (
            f"learned on made-up traces alone; imitation −ln p {losses}; mean completion time in s on four"
            f" traces for validation after so many episodes: {means}; incumbent: {self.incumbent_s:,.0f}"
        )
        return summary + (
            "; its time was up before all episodes, so that another run may learn more or less"
            if self.cut
            else ""
        )


def training_trace(seed: int, interval_s: float) -> SchedulingInstance:
    """Return a random scheduling instance of rigid and malleable jobs on one pool of GPUs, for training."""
    rng = np.random.default_rng(seed)
    load = float(rng.uniform(0.8, 2.0))
    width = np.minimum(2 ** rng.choice(6, JOBS, p=[0.45, 0.2, 0.15, 0.1, 0.06, 0.04]), int(GPUS * MAX_SHARE))
    length_s = interval_s * np.clip(MEDIAN * np.exp(SPREAD * rng.standard_normal(JOBS)), 0.1, LONGEST)
    span_s = float(width @ length_s) / (load * GPUS)
    arrival_s = np.sort(rng.uniform(0, span_s, JOBS))
    malleable, sigma = rng.random(JOBS) < rng.uniform(0.3, 1.0), rng.uniform(0.02, 0.3, JOBS)
    jobs = []
    for j in range(JOBS):
        wide = int(width[j])
        job: dict[str, Any] = {"name": f"j{j}", "arrival_s": float(arrival_s[j]), "demand": {"gpu": 1}}
        if malleable[j]:
            speeds = speeds_of(wide, GPUS, float(sigma[j]))
            job |= {"work": float(length_s[j]) * speeds[wide], "speeds": speeds, "requested": str(wide)}
        else:
            job |= {"tasks": wide, "duration_s": float(length_s[j])}
        jobs.append(job)
    document = {"name": f"training-{seed}", "resources": {"gpu": GPUS}, "jobs": jobs}
    return SchedulingInstance.model_validate(document)


def mean_completion_s(instance: SchedulingInstance, policy: Optimus) -> float:
    """Return the unweighted mean completion time in seconds of a simulated policy on a trace."""
    schedule, table = Engine(instance, policy).run(), instance.table()
    ends = last_ends_s(len(table), schedule.job, schedule.end_s)
    return float((ends - table.arrival_s).mean())


class Trainer:
    """Trains the networks of DL² on generated traces: first by imitation, then as actor and critic.

    Parameters
    ----------
    interval_s
        Length of an interval of the policy.
    incumbent
        Returns a new policy to imitate, for one run.
    over
        Returns whether the time for training is up.
    """

    def __init__(
        self, interval_s: float, seed: int, incumbent: Callable[[], Optimus], over: Callable[[], bool]
    ) -> None:
        self._interval_s, self._incumbent, self._over = interval_s, incumbent, over
        self._rng = np.random.default_rng(seed)
        self.network, self.curve = Network(), LearningCurve()
        self.best = self.network.weights()
        self._validation = [training_trace(k, interval_s) for k in VALIDATION]

    def train(self, traces: int, passes: int, episodes: int) -> None:
        """Train by `passes` epochs of imitation on some generated traces, then by episodes with rewards."""
        self.curve.incumbent_s = self._mean_s(self._incumbent)
        self._imitate(traces, passes)
        self._validate(0)
        optimiser = self.network.optimiser(RATES[1])
        for episode in range(1, episodes + 1):
            if self._time_is_up():
                break
            self._learn(optimiser, ENTROPY * (1 - episode / (episodes + 1)))
            if episode % VALIDATION_EPISODES == 0 or episode == episodes:
                self._validate(episode)

    def _run(self, chooser: ActionSelector, incumbent: Optimus | None = None) -> Trajectory:
        """Simulate the policy on a newly generated trace; return its states, actions and rewards."""
        journal = Trajectory()
        policy = DL2(self._interval_s, chooser, journal, incumbent)
        Engine(training_trace(int(self._rng.integers(10**9)), self._interval_s), policy).run()
        policy.reward()
        return journal

    def _imitate(self, traces: int, passes: int) -> None:
        def any_good(state: Floats, allowed: Flags) -> int:
            del state
            return int(self._rng.choice(np.flatnonzero(allowed)))

        journals: list[Trajectory] = []
        for _ in range(traces):
            if journals and self._time_is_up():
                break
            journals.append(self._run(any_good, self._incumbent()))
        steps = [step for journal in journals for step in journal.steps]
        states, allowed, good, _ = map(np.array, zip(*steps, strict=True))
        optimiser = self.network.optimiser(RATES[0])
        for _ in range(passes):
            if self.curve.losses and self._time_is_up():
                break
            order, losses = self._rng.permutation(len(states)), []
            for first in range(0, len(order), BATCH):
                own = order[first : first + BATCH]
                losses.append(self.network.imitate(optimiser, states[own], allowed[own], good[own]))
            self.curve.losses.append(float(np.mean(losses)))

    def _learn(self, optimiser: Any, entropy: float) -> None:
        """Train actor and critic on the rewards of one newly simulated trace."""
        journal = self._run(Actor(self.network.weights(), self._rng))
        begins, rewards = np.array(journal.begins), np.array(journal.rewards)
        sizes = np.diff(np.append(begins, len(journal.steps)))
        # An interval in which nothing could be chosen teaches nothing, but its reward is the one before's.
        kept = np.flatnonzero(sizes > 0)
        rewards = np.add.reduceat(rewards, kept) if len(kept) else rewards[:0]
        states, allowed, _, actions = map(np.array, zip(*journal.steps, strict=True))
        first = states[begins[kept]]
        expected = self.network.expected(first)
        aim = rewards + GAMMA * np.append(expected[1:], 0.0)
        advantage = aim - expected
        advantage = (advantage - advantage.mean()) / max(float(advantage.std()), 1e-6)
        self.network.improve(
            *(optimiser, states, allowed, actions, np.repeat(advantage, sizes[kept])),
            *((first, aim), entropy),
        )

    def _validate(self, episode: int) -> None:
        """Record the mean completion time on the validation traces; keep the weights if it is the lowest."""
        weights = self.network.weights()
        mean_s = self._mean_s(lambda: DL2(self._interval_s, Actor(weights)))
        if mean_s < min(self.curve.means_s.values(), default=np.inf):
            self.best = weights
        self.curve.means_s[episode] = mean_s

    def _mean_s(self, policy: Callable[[], Optimus]) -> float:
        """Return the mean completion time on the validation traces of new policies."""
        return float(np.mean([mean_completion_s(trace, policy()) for trace in self._validation]))

    def _time_is_up(self) -> bool:
        """Return whether the time for training is up, which cuts the learning curve."""
        self.curve.cut |= self._over()
        return self.curve.cut
