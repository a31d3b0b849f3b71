"""Solves of examples, of generated, random and imported instances: status, values, bounds and plans.

What decides between plans that are as good is a library's affair in exact methods, so that of these no plan
is recorded; what they prove is.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from command_line import run_here
from fuzz.kinds import BUDGETS

import clusterplan
from clusterplan import OptionError, SolveOptions

from .store import Case, Outcome, given, stored

BY_LIBRARIES = ("auto", "exact", "milp:cbc", "milp:highs", "milp:scip", "cp-sat", "minlp", "geometric")
"""Solvers whose plan depends on a library."""
TRAINED = ("dl2", "reinforce-lstm", "reinforce-rnn")
"""Solvers that train a network: what comes out depends on how the processor rounds."""
EXAMPLES = (
    *("elastic-servers", "gavel-three-gpu-types", "heterps-ctr", "opt-350-three-gpus", "optimus-testbed"),
    *("parameter-server-traffic", "shared-cluster-morning", "tiresias-testbed", "tiresias-three-jobs"),
)
SMALL, RANDOM = (0, 1), 8
"""Which of the generated and how many of the random instances of a kind are solved by every solver."""
IMPORTED = (
    "dnn-partitioning/accelerator-alone",
    "gavel/first-job-of-seven-columns",
    "kubernetes/generated-50",
    "kubernetes/gpu-models-by-instance-type",
    "kubernetes/mig-of-unknown-geometry",
    "kubernetes/node-that-holds-too-much",
    "kubernetes/priority-classes-priority-then-gpus",
    "kubernetes/time-slicing-and-fractions",
    "kubernetes/volumes-not-given",
    "openb/must-place",
    "philly/one-virtual-cluster",
    "pollux/as-a-trace",
    "sacct/table-cpus-eligible-user",
    "slurm/array-of-more-than-1000-tasks",
    "slurm/generated-34",
    "slurm/invalid-jobs-on-silent-nodes",
    "slurm/mig-of-unknown-geometry",
    "slurm/partition-that-no-node-has",
    "slurm/shards-in-use",
    "slurm/two-partitions",
)
QUICK = 9
"""Every so many-th case is compared in the quick part too."""

Load = Callable[[], clusterplan.Instance]


def _options(solver: str) -> SolveOptions:
    """Return options under which a solve ends by its work, at the optimum where it proves one."""
    return SolveOptions(seed=1, threads=1, gap=0.0, method_options=BUDGETS.get(solver, {}))


def _outcome(load: Load, solver: str) -> Outcome:
    """Return what is recorded of a solve."""
    instance = load()
    try:
        result = clusterplan.solve(instance, solver, _options(solver))
    except OptionError as error:
        return {"refused": str(error)}
    found: Outcome = {"instance_sha256": result.instance_sha256, "status": result.status}
    if solver in TRAINED:
        return found
    objectives = [
        record.model_dump(include={"name", "value", "bound", "certified_bound"})
        for record in result.objectives
    ]
    diagnosis = result.diagnosis.model_dump(mode="json") if result.diagnosis is not None else None
    found |= {"limit": result.limit, "objectives": objectives, "diagnosis": diagnosis}
    return found if solver in BY_LIBRARIES else found | {"plan_sha256": result.plan_sha256}


def generated(words: str) -> clusterplan.Instance:
    """Return the instance that ``clusterplan generate`` makes."""
    with tempfile.TemporaryDirectory() as folder:
        done = run_here("generate", *words.split(), "--output", "instance.json", cwd=Path(folder))
        assert done.returncode == 0, done.stderr
        return clusterplan.load(Path(folder) / "instance.json")


def commands_of_generate() -> Iterator[str]:
    """Yield what is generated, 30 instances of each kind with 3 to 300 jobs, layers or servers."""
    sizes = (3, 10, 30, 100, 300)
    for size, seed in itertools.product(sizes, range(6)):
        shape = f"--jobs {size} --seed {seed} --resources {1 + seed % 4}"
        form = (
            f"--spare {seed}"
            if seed == 5
            else f"--tightness {0.2 * seed:.1f} --optional-share {0.1 * seed:.1f}"
        )
        yield f"allocation {shape} {form}"
    for size, seed in itertools.product((3, 6, 12, 30, 100), range(5)):
        limits = ("none", "loose", "tight")[seed % 3] if size <= 30 else ("none", "loose")[seed % 2]
        flags = f"{'--memory' if seed == 1 else ''} {'--transfers' if seed in (2, 4) else ''}"
        yield f"staging --layers {size} --types {2 + seed} --limits {limits} --seed {seed} {flags}".strip()
    yield "staging --layers 300 --types 16 --limits none --seed 7"
    yield from (
        f"ctr --layers {layers} --seed {seed}" for layers, seed in ((8, 1), (16, 2), (16, 3), (40, 4))
    )
    for size, seed in itertools.product(sizes, range(4)):
        form = ("", "--resources 3", "--shapes 3 --rack-size 4", "--must-place-share 0.2 --load 0.7")[seed]
        yield f"consolidation --servers {size} --jobs {size + size // 2} --seed {seed} {form}".strip()
    for seed in range(1, 11):
        form = "--unlike" if seed % 2 else "--devices --partitioned 0.2"
        yield f"consolidation --servers {6 + seed} --jobs 12 --resources 3 --seed {seed} {form}"
    for size, seed in itertools.product(sizes, range(6)):
        malleable = "--malleable" if seed % 2 and size <= 30 else ""
        yield f"scheduling --jobs {size} --gpus {32 + 16 * seed} --seed {seed} {malleable}".strip()


def _instances() -> Iterator[tuple[str, str, Load]]:
    """Yield kind, name and loader of every instance but the examples and those imported."""
    for words in commands_of_generate():
        kind = "staging" if words.startswith("ctr") else words.split()[0]
        yield kind, words.replace(" --", " ").replace(" ", "-"), partial(generated, words)
    for name, document in given("documents").items():
        yield document["kind"], name, partial(clusterplan.parse_instance, document)


def _imported() -> Iterator[tuple[str, Load]]:
    """Yield name and loader of some documents that importers made, of as many sources as there are."""
    outcomes = stored("imports")
    for name in IMPORTED:
        yield name, partial(_read, outcomes[name]["stdout"])


def _read(lines: list[str]) -> clusterplan.Instance:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "instance.yaml"
        path.write_text("\n".join(lines), encoding="utf-8")
        return clusterplan.load(path)


def solvers_by_kind() -> dict[str, list[str]]:
    """Return the solvers of each kind but `auto`, as ``clusterplan solvers`` lists them."""
    found: dict[str, list[str]] = {}
    for line in run_here("solvers", "--format", "json").stdout.splitlines():
        row = json.loads(line)
        for kind in row["kinds"] if row["solver"] != "auto" else ():
            found.setdefault(kind, []).append(row["solver"])
    return found


def _solves() -> Iterator[tuple[str, Load, str]]:
    """Yield name, loader and solver of every case."""
    for name in EXAMPLES:
        yield f"example/{name}/auto", partial(clusterplan.load, f"example:{name}"), "auto"
    for name, load in _imported():
        yield f"imported/{name}/auto", load, "auto"
    by_kind: dict[str, list[tuple[str, Load]]] = {}
    for kind, name, load in _instances():
        by_kind.setdefault(kind, []).append((name, load))
    solvers = solvers_by_kind()
    for kind, instances in by_kind.items():
        tiny = [name for name, _ in instances if name.startswith("random")]
        some = [*(instances[number][0] for number in SMALL), *tiny[-RANDOM:]]
        for name, load in instances:
            for solver in solvers[kind]:
                # All plans of an instance are few only where it is tiny.
                chosen = tiny[-len(some) :] if solver == "brute-force" else some
                if solver == "exact" or name in chosen:
                    yield f"{kind}/{name}/{solver}", load, solver


def cases() -> list[Case]:
    """Return the cases."""
    torch = importlib.util.find_spec("torch") is not None
    return [
        Case(
            name,
            partial(_outcome, load, solver),
            quick=number % QUICK == 0,
            possible=torch or solver not in TRAINED,
        )
        for number, (name, load, solver) in enumerate(_solves())
    ]
