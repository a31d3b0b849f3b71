"""Results with certificates, as they were stored, and forgeries of them: which ones the check accepts.

The results of `given` are never made anew: what was stored once has to be accepted ever after.
"""

from __future__ import annotations

import hashlib
import random
from functools import partial
from typing import Any

from fuzz.forging import complete, mutated_document

import clusterplan
from clusterplan import ClusterplanError
from clusterplan.planner.stored_results import verify_stored

from .store import Case, Outcome, given

FORGERIES = 10
"""Of each result."""
QUICK = 9
"""Every so many-th result is checked in the quick part too."""


def cases() -> list[Case]:
    """Return the cases."""
    return [
        Case(name, partial(_outcome, name, **pair), quick=number % QUICK == 0)
        for number, (name, pair) in enumerate(sorted(given("certificates").items()))
    ]


def _outcome(name: str, instance: dict[str, Any], result: dict[str, Any]) -> Outcome:
    """Return how a result and its forgeries are judged, and by which digests the forgeries are told apart."""
    known = clusterplan.parse_instance(instance)
    altered = [forged(f"{name}:{number}", result) for number in range(FORGERIES)]
    return {
        "result": verdict(known, result),
        "forgeries": [verdict(known, one) for one in altered],
        "digests": [hashlib.sha256(repr(one).encode(errors="replace")).hexdigest()[:8] for one in altered],
    }


def forged(label: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result that was tampered with, always the same for a label."""
    rng = random.Random(label)
    places = [(), ("objectives",), *([("certificate",)] if result["certificate"] else []), ("plan",)]
    return mutated_document(
        rng, result, rng.choice([place for place in places if not place or result[place[0]]])
    )


def verdict(instance: clusterplan.Instance, result: dict[str, Any]) -> str:
    """Return ``verified``, ``verified, claims left`` or ``refused``."""
    try:
        verification = verify_stored(instance, result, "stored")
    except ClusterplanError:
        return "refused"
    if not verification.ok:
        return "refused"
    return "verified" if complete(verification) else "verified, claims left"
