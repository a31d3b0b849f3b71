"""Bayesian optimisation over a type for each layer, with Optuna's TPE (one of HeterPS's baselines).

The tree-structured Parzen estimator (Bergstra et al. 2011) models the types of good and of other choices as
two densities over all layers together, and proposes what is likely in the first and unlikely in the second.
The library is imported only when it is used.

At its defaults, over 20 synthetic instances of 16 layers on 2 types and `heterps-ctr`, its plans cost 0.3 %
more than the optimum in the median and 11 % at most with exact units, and it found none for two; 4 % and 11 %
with load balance, and none for four.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ....formulations.staging.formulation import StagingFormulation
from ...backends.base import installed
from ...backends.threads import no_warnings
from ...common.base import Clock, MethodOption, Outcome, Solver
from ...common.options import SolveOptions
from .type_search import PROVISIONING, PenalisedObjective, TypeSearch, random_types

RANDOM_STARTS = 100
"""Random choices of types that are evaluated first, beside each type alone."""


class Bayesian(Solver[StagingFormulation]):
    """Ask for a choice of types and tell its loss, over and over; a single type each is asked first."""

    name = "bayesian"
    kinds = ("staging",)
    method_options = {
        "provisioning": PROVISIONING,
        "evaluations": MethodOption(500, "how many choices of types are judged", least=1),
    }
    what = "Bayesian optimisation (Optuna's TPE) over a type for each layer (HeterPS's baseline)"

    def unavailable(self) -> str | None:
        """Return how to install Optuna, if it is missing."""
        return installed("optuna", "optuna", "'clusterplan[bayes]'")

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Run the study until the budget or the time is used up."""
        search = TypeSearch(
            formulation, self.setting(options, "provisioning"), clock, self.setting(options, "evaluations")
        )
        with no_warnings():  # Optuna calls some of its samplers' options experimental
            _study(search, options.seed or 0)
        return search.outcome(f"bayesian: {search.judged:,} choices of types")


def _study(search: TypeSearch, seed: int) -> None:
    optuna: Any = import_module("optuna")  # untyped, so that types are checked alike without it

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=1)
        study = optuna.create_study(sampler=sampler)
        space = {
            f"layer-{layer}": optuna.distributions.CategoricalDistribution(types)
            for layer, types in enumerate(search.able)
        }
        for unit_type in range(len(search.formulation.instance.types)):
            alike = [unit_type if unit_type in able else able[0] for able in search.able]
            study.enqueue_trial(dict(zip(space, alike, strict=True)))
        # Random choices of few segments: independent ones would change type at nearly every layer.
        rng = np.random.default_rng(seed)
        for _ in range(RANDOM_STARTS):
            study.enqueue_trial(dict(zip(space, random_types(search.able, rng), strict=True)))
        loss = PenalisedObjective()
        while not search.over:
            trial = study.ask(space)
            types = [trial.params[name] for name in space]
            study.tell(trial, loss.of(search.fitness(types)))
    finally:
        optuna.logging.set_verbosity(before)
