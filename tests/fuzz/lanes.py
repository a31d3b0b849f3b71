"""What a campaign does over and over, each turn with its own random numbers, and the cases that failed.

These are told apart, made small, kept in a file each, and tried again.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.documents import parse_instance
from clusterplan.solvers.common.result import Result

from .checks import Finding, compared, settings, solved, solvers_of, trusts_library
from .forging import accepted, certified, forged_certificates, forgeries
from .kinds import KINDS, features
from .reading import damaged_specimen, how_to_read, packed, read, unpacked
from .shrinking import shrunk
from .truth import TooManyPlansError, Truth

TAMPERED = 0.1
"""Share of the results that are tampered with, each in a dozen ways or more."""
Case = dict[str, Any]
"""Everything that is needed to try again what failed, as plain data."""


@dataclass
class Turn:
    """What one turn did.

    Attributes
    ----------
    counts
        How many of what were tried.
    failures
        What was found, each with the case that shows it.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[Finding, Case]] = field(default_factory=list)

    def fail(self, found: list[Finding], case: Case) -> None:
        """Add findings of one case."""
        self.failures += [(finding, case) for finding in found]


def scales_apart(data: Any) -> bool:
    """Return whether numbers of a document are 12 orders of magnitude apart."""
    sizes = [abs(number) for number in _numbers(data) if number]
    return bool(sizes) and max(sizes) >= 1e12 * min(sizes)


def _numbers(data: Any) -> list[float]:
    if isinstance(data, dict | list):
        return [n for item in (data.values() if isinstance(data, dict) else data) for n in _numbers(item)]
    return [data] if isinstance(data, int | float) and not isinstance(data, bool) else []


def solve_one(kind: str, rng: random.Random) -> Turn:
    """Make a document, solve it with several solvers, and tamper with the results."""
    turn = Turn()
    data = KINDS[kind].document(rng)
    try:
        truth = KINDS[kind].truth(data)
        instance = parse_instance(data)
    except TooManyPlansError:
        turn.counts["skipped: too many plans"] += 1
        return turn
    except InstanceError as error:
        turn.fail([Finding("refused", "load", str(error))], {"lane": "solve", "instance": data})
        return turn
    if truth.unclear:
        turn.counts["skipped: within the slack"] += 1
        return turn
    turn.counts[f"{kind} instances"] += 1
    turn.counts[f"{kind} instances over 12 orders of magnitude"] += scales_apart(data)
    turn.counts[f"{kind} instances without a plan"] += not truth.feasible
    turn.counts.update(f"{kind} instances with {feature}" for feature in features(data))
    turn.counts["plans compared"] += len(truth.plans)
    certificate: dict[str, Any] | None = None
    for solver in solvers_of(data, rng):
        options = settings(solver, rng, KINDS[kind].seconds)
        case: Case = {"lane": "solve", "instance": data, "solver": solver, "options": options}
        result, found = _priced(turn, truth, *solved(instance, truth, solver, options))
        refuted = [finding for finding in found if finding.check == "error" and trusts_library(solver)]
        turn.counts[f"{kind} answers of {solver} refuted"] += len(refuted)
        # Where doubles lose the smaller figures, a gap that is told is an honest answer.
        weak = [finding for finding in found if finding.check == "unproven" and scales_apart(data)]
        turn.counts[f"{kind} answers of {solver} not proven, over 12 orders of magnitude"] += len(weak)
        turn.fail([finding for finding in found if finding not in [*refuted, *weak]], case)
        if result is None:
            turn.counts[f"{kind} refused by {solver}"] += 1
            continue
        turn.counts[f"{kind} solved by {solver}"] += 1
        certificate = certificate or result.certificate
        if not found and rng.random() < TAMPERED:
            _tamper(turn, rng, data, truth, instance, result, certificate)
    return turn


def _priced(
    turn: Turn, truth: Truth, result: Result | None, found: list[Finding]
) -> tuple[Result | None, list[Finding]]:
    """Return a result and what is wrong with it, its prices too where nothing else is."""
    if result is None or found:
        return result, found
    prices = compared(truth, result)
    turn.counts.update(prices.counts)
    return result, prices.wrong


def _tamper(
    turn: Turn,
    rng: random.Random,
    data: dict[str, Any],
    truth: Truth,
    instance: Instance,
    result: Result,
    certificate: dict[str, Any] | None,
) -> None:
    """Tamper with a result, and with the certificate of another result of the instance."""
    forged = [("result", forged) for forged in forgeries(rng, result)]
    forged += [("certificate", forged) for forged in forged_certificates(rng, result, certificate)]
    for lane, altered in forged:
        turn.counts[f"{lane}s forged"] += 1
        own = altered.get("instance_sha256") == result.instance_sha256
        case = {"lane": lane, "instance": data, "result": altered, "own": own}
        turn.fail(list((accepted if lane == "result" else certified)(instance, truth, altered)), case)


def read_one(rng: random.Random) -> Turn:
    """Damage a file, and read it."""
    turn = Turn()
    files = damaged_specimen(rng)
    how = how_to_read(rng, files.sort)
    turn.counts["files damaged"] += 1
    turn.counts[f"files damaged: {files.sort}"] += 1
    found = list(read(files, how))
    if found:
        turn.fail(found, {"lane": "file", "sort": files.sort, "how": how, "files": packed(files)})
    return turn


def _retry_read(case: Case) -> list[Finding]:
    return list(read(unpacked(case["sort"], case["files"]), case["how"]))


def _retry_solve(case: Case) -> list[Finding]:
    kind = case["instance"]["kind"]
    truth = KINDS[kind].truth(case["instance"])
    instance = parse_instance(case["instance"])
    if truth.unclear or "solver" not in case:
        return []
    return _priced(Turn(), truth, *solved(instance, truth, case["solver"], case["options"]))[1]


def _retry_forged(check: Callable[..., Any]) -> Callable[[Case], list[Finding]]:
    def retry(case: Case) -> list[Finding]:
        truth = KINDS[case["instance"]["kind"]].truth(case["instance"])
        instance = parse_instance(case["instance"])
        forged = dict(case["result"])
        if case["own"]:
            forged["instance_sha256"] = instance.sha256()
        return [] if truth.unclear else list(check(instance, truth, forged))

    return retry


RETRY: dict[str, Callable[[Case], list[Finding]]] = {
    "file": _retry_read,
    "solve": _retry_solve,
    "result": _retry_forged(accepted),
    "certificate": _retry_forged(certified),
}
"""How a case of each lane is tried again; the findings."""


def faultless(kind: str, label: str, turns: int) -> Counter[str]:
    """Return what so many turns of a kind did, none of which may find anything wrong."""
    counts: Counter[str] = Counter()
    for number in range(turns):
        turn = solve_one(kind, random.Random(f"{label}:{number}"))
        counts.update(turn.counts)
        assert not turn.failures, (number, [finding for finding, _ in turn.failures])
    return counts


FOLDER = Path(__file__).resolve().parents[1] / "regressions"
SHRINK = ("instance", "result")
"""The parts of a case that are made smaller, in this order."""
TOLD_APART = ("exception", "refused", "warning", "error", "false acceptance", "verify")
"""Checks whose texts tell sorts of failure apart."""


def sort_of(finding: Finding, case: Case) -> str:
    """Return a text that is the same for failures that seem to have one cause."""
    kind = case.get("instance", {}).get("kind", "") if isinstance(case.get("instance"), dict) else ""
    words = finding.text if finding.check in TOLD_APART else ""
    words = re.sub(r"'[^']*'|\"[^\"]*\"|[-+]?\d[-+\d.e]*|\b(inf|nan)\b", "#", words)[:80]
    return " · ".join(part for part in (kind, finding.solver, finding.check, words) if part)


def retried(case: Case) -> list[Finding]:
    """Return what is found when a case is tried again."""
    return RETRY[case["lane"]](case)


def _fails(case: Case, sort: str) -> bool:
    try:
        return any(sort_of(finding, case) == sort for finding in retried(case))
    except Exception:  # noqa: BLE001  a document that is no longer one does not fail in the same way
        return False


def smallest(case: Case, sort: str, seconds: float) -> Case:
    """Return a small case that still fails in the same way."""
    for part in SHRINK:
        if part in case:
            rest = {key: value for key, value in case.items() if key != part}
            small = shrunk(case[part], lambda data, p=part, r=rest: _fails({**r, p: data}, sort), seconds)
            case = {**rest, part: small}
    return case


def keep(folder: Path, sort: str, finding: Finding, case: Case, label: str) -> Path:
    """Write a case to a file of its own, unless one of its sort is there; return the file."""
    name = re.sub(r"[^a-z0-9]+", "-", sort.lower()).strip("-")[:60].strip("-")
    path = folder / f"{name}-{hashlib.sha256(sort.encode()).hexdigest()[:6]}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        told: dict[str, Any] = {"found": label, "what": f"{finding.solver}: {finding.check}: {finding.text}"}
        path.write_text(json.dumps({**told, **case}, indent=1) + "\n", encoding="utf-8")
    return path


def kept(folder: Path = FOLDER) -> Iterator[tuple[str, Case]]:
    """Yield the name and content of every case in a folder."""
    for path in sorted(folder.glob("*.json")):
        yield path.stem, json.loads(path.read_text(encoding="utf-8"))
