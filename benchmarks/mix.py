"""Mix: jobs that share GPUs, and machines that serve a model; `exact` beside the rules that others use.

Run with `make bench-mix`; what the data is missing for is left out, with a line. Writes to
`benchmarks/results/`:

* `mix.csv`: a row for each instance, as it is measured;
* `mix.md`: tables of them.

Every instance is solved in a process of its own. Protocol. Parts: `pairs`, the 26 types of jobs that Gavel
(OSDI'20) measured on one GPU, alone and in pairs, on V100, P100 and K80; numbers of jobs are drawn, and there
is one GPU of each model for five jobs. `groups`, all jobs of a trace of Muri (SIGCOMM'22) at once, in groups
of up to four. `serving`, operating points measured for aiconfigurator: three models, limits on the time to
the first token and for each further one, and requests in three shapes, (1024, 1024), (1024, 8192) and
(8192, 1024) tokens, with shares of 0.5, 0.1 and 0.4, where one of them can be served. `stock`, the same with
so few GPUs of each model that no one suffices. The columns of rules say how much worse their plan is than
ours; of jobs by how much its progress is below, of requests by how much its cost is above.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from runner import FIGURES, Row, data_folder, machine_load, options, run_cases, solved, tell_absent, verified

LIMIT_S = 60.0
PATIENCE_S = 900.0
JOBS = (30, 100, 1_000, 10_000, 100_000, 1_000_000)
GPU_MODELS = ("v100", "p100", "k80")
TRACES, GPUS = ("trace1", "trace2"), (64, 128, 256, 512, 1_024, 2_048, 4_096)
MODELS = {
    "gpt-oss-120b": ("openai/gpt-oss-120b", "fp4"),
    "llama-3.1-70b": ("meta-llama/Llama-3.1-70B", "fp8"),
    "deepseek-r1": ("deepseek-ai/DeepSeek-R1", "fp8"),
}
LIMITS_MS = ((2000, 50), (1000, 20), (500, 10), (300, 6))
"""Most milliseconds to the first token, and for each further one."""
REQUESTS_PER_S = (2, 10, 50, 500, 5_000)
SHAPES = {(1024, 1024): 0.5, (1024, 8192): 0.1, (8192, 1024): 0.4}
"""Tokens in and out, and the share of the requests."""
STOCKS = ({"b200": 4, "h200": 24, "h100": 64}, {"b200": 8, "h200": 64, "h100": 96})
RULES = {
    False: ("best-pair-first", "matching-rounds", "nobody-shares"),
    True: ("one-configuration", "cheapest-for-each-type"),
}
COLUMNS = (
    *("part", "instance", "size", "types", "configurations", "limit_s", *FIGURES, "leaves", "cuts"),
    *(f"{rule} worse" for rules in RULES.values() for rule in rules),
    *("solve_s", "processor_s", "verify_s", "verified", "claimed", "peak_gib", "machine_load", "message"),
)


def cases(given: argparse.Namespace) -> Iterator[Row]:
    """Yield what each instance is made of; say which are left out."""
    every = {"limit_s": given.limit_s, "patience_s": PATIENCE_S}
    for jobs in JOBS if data_folder("gavel") else ():
        yield {"part": "pairs", "instance": "gavel", "size": jobs, **every}
    for trace in TRACES if data_folder("muri") else ():
        for gpus in GPUS:
            yield {"part": "groups", "instance": trace, "size": gpus, **every}
    if data_folder("aiconfigurator"):
        for model in MODELS:
            for limits in LIMITS_MS:
                for rate in REQUESTS_PER_S:
                    case = f"{model}, {limits[0]} and {limits[1]} ms"
                    yield {"part": "serving", "instance": case, "size": rate, "limits_ms": limits, **every}
        for number, stock in enumerate(STOCKS):
            case = "gpt-oss-120b, 1000 and 20 ms, " + " ".join(f"{gpu}={n}" for gpu, n in stock.items())
            yield {
                "part": "stock",
                "instance": case,
                "size": 50 * (number + 1),
                "limits_ms": (1000, 20),
                **every,
            }
    tell_absent("gavel", "muri", "aiconfigurator")


def instance_of(case: Row) -> Any:
    """Return an instance; of requests None if no class of them can be served within the limits."""
    return {"pairs": pairs, "groups": groups}.get(case["part"], serving)(case)


def pairs(case: Row) -> Any:
    """Return the instance of so many jobs of the types of Gavel, drawn at random."""
    from clusterplan.instances.importers import import_pairs
    from clusterplan.instances.importers.mix.pairs import _rows
    from clusterplan.instances.importers.traces.gavel import read_table

    folder = data_folder("gavel")
    assert folder is not None
    file = folder / "simulation_throughputs.json"
    rows = [row for _, row in _rows(read_table(file), file.name)]
    types = sorted({row.a for row in rows})
    rng, counts = random.Random(case["size"]), dict.fromkeys(types, 0)
    shares = [rng.uniform(0.2, 1) for _ in types]
    for name in rng.choices(types, shares, k=min(case["size"], 100_000)):
        counts[name] += max(1, case["size"] // 100_000)
    with tempfile.TemporaryDirectory() as name:
        table = Path(name) / "pairs.csv"
        cells = [f"{r.a},{r.gpu},{r.a_speed},{r.b or ''},{'' if r.b is None else r.b_speed}" for r in rows]
        table.write_text("a,gpu,a_speed,b,b_speed\n" + "\n".join(cells) + "\n")
        jobs = {each: count for each, count in counts.items() if count}
        return import_pairs(table, jobs, dict.fromkeys(GPU_MODELS, max(1, case["size"] // 5)))


def groups(case: Row) -> Any:
    """Return the jobs of a trace of Muri, on so many GPUs."""
    from clusterplan.instances.importers import import_muri_mix

    folder = data_folder("muri")
    assert folder is not None
    (trace,) = folder.glob(f"{case['instance']}.csv*")
    made = import_muri_mix(trace, folder / "n8g8.csv")
    hardware = tuple(one.model_copy(update={"limit": case["size"]}) for one in made.hardware)
    return made.model_copy(update={"hardware": hardware})


@cache
def _served(model: str, ttft_ms: float, tpot_ms: float) -> list[tuple[int, int]]:
    """Return the shapes of requests that some replica serves within the limits."""
    import clusterplan

    shapes = list[tuple[int, int]]()
    for shape in SHAPES:
        try:
            _import_serving(model, (ttft_ms, tpot_ms), {shape: 1.0}, {})
        except clusterplan.ClusterplanError:
            continue
        shapes.append(shape)
    return shapes


def serving(case: Row) -> Any:
    """Return the instance of a model, limits and requests; None if nothing can be served."""
    model, limits = case["instance"].split(",")[0], case["limits_ms"]
    shapes = _served(model, *limits)
    stock = dict(part.split("=") for part in case["instance"].split() if "=" in part)
    rates = {shape: case["size"] * SHAPES[shape] for shape in shapes}
    return _import_serving(model, limits, rates, {k: int(v) for k, v in stock.items()}) if shapes else None


def _import_serving(model: str, limits: Any, rates: Any, stock: dict[str, int]) -> Any:
    from clusterplan.instances.importers import import_serving

    folder = data_folder("aiconfigurator")
    assert folder is not None
    name, precision = MODELS[model]
    with tempfile.TemporaryDirectory() as place:
        work = Path(place) / "requests.csv"
        lines = [f"{i},{o},{rate}" for (i, o), rate in rates.items()]
        work.write_text("input_tokens,output_tokens,requests_per_s\n" + "\n".join(lines) + "\n")
        return import_serving(
            folder / "measured_serving.csv.gz",
            work,
            model=name,
            precision=precision,
            ttft_ms=limits[0],
            tpot_ms=limits[1],
            stock=stock,
        )


def measured(case: Row) -> Iterable[Row]:
    """Return the row of an instance."""
    instance = instance_of(case)
    if instance is None:
        return [{"status": "nothing to serve", "limit": "none"}]
    result, row = solved(instance, "exact", case["limit_s"], threads=1)
    row |= {"types": len(instance.types), "configurations": len(instance.configurations)}
    if result is None:
        return [row]
    row |= verified(instance, result) | {"machine_load": machine_load()}
    tree = (result.certificate or {}).get("first", {"nodes": ()})
    row |= {"leaves": (len(tree["nodes"]) + 1) // 2, "cuts": len(tree.get("cuts", ()))}
    best = result.objectives[0].value
    for rule in RULES[instance.serves] if best else ():
        value = solved(instance, rule, case["limit_s"])[0].objectives
        if value and value[0].value is not None:
            row[f"{rule} worse"] = round(abs(value[0].value - best) / abs(best), 6)
    row["objective"], row["bound"] = best, result.objectives[0].bound
    row |= {key: getattr(result.objectives[0], key) for key in ("gap", "certified_gap")}
    return [row]


def write_report(folder: Path) -> None:
    """Write the page."""
    from report import machine, protocol, read, table, write

    rows = read(folder, "mix")
    parts = ["# Mix: who shares a GPU, and which machines serve a model", f"{machine()}. {protocol(__doc__)}"]
    for part, own in rows.groupby("part", sort=False):
        used = own.dropna(axis="columns", how="all").drop(
            columns=["part", "limit_s", "limit"], errors="ignore"
        )
        shown = [
            column for column in used.columns if column not in ("bound", "message", "peak_gib", "claimed")
        ]
        parts += [f"## {str(part).capitalize()}", table(used[shown])]
    write(folder, "mix", parts)


def main() -> None:
    """Measure all instances, or those of some parts, and write the report."""
    given = options(__doc__, limit_s=(LIMIT_S, "seconds of each solve"))
    run_cases(given, "mix", ("part", "instance", "size"), cases, measured, COLUMNS, write_report)


if __name__ == "__main__":
    main()
