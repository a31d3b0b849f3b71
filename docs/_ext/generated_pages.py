"""Pages that are written from the package itself whenever the site is built, so that they cannot be old.

They are Markdown in ``docs/generated``: the command line from its parser, the document formats from their
JSON Schemas, the solvers from the registry, and a page for each report in ``benchmarks/results``.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parents[1]
GENERATED = DOCS / "generated"
RESULTS = DOCS.parent / "benchmarks" / "results"
NO_EDIT = "% Written by docs/_ext/generated_pages.py when the site is built.\n\n"
HUGE = 1e9
"""Limits from here on only keep out nonsense; a reader need not see them."""


def plain(text: str) -> str:
    """Return text with what Markdown would take for markup escaped, and code spans kept."""
    parts = re.split(r"(`+[^`]+`+)", " ".join(text.split()))
    for index, part in enumerate(parts):
        if index % 2:
            parts[index] = code(part.strip("`"))
        else:
            options = re.split(r"(?<![\w-])(--[a-z][a-z-]*)", part)
            for place, words in enumerate(options):
                escaped = re.sub(r"([\\*_|$<>\[\]{}])", r"\\\1", words)
                options[place] = code(words) if place % 2 else escaped
            parts[index] = "".join(options)
    return "".join(parts)


def code(text: str) -> str:
    """Return text as a code span that may stand in a table."""
    return "`" + text.replace("|", r"\|") + "`"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Return the lines of a Markdown table, with an empty line after it."""
    yield "| " + " | ".join(titles) + " |"
    yield "| " + " | ".join("---" for _ in titles) + " |"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


# The command line


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return every command with its words, groups before what they hold."""
    if path:
        yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, (*path, name))


def _parameters(command: Any, context: Any) -> Iterator[tuple[str, str]]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in record[0]:
            yield record


def command_line() -> Iterator[str]:
    """Return the reference of the command line, from the parser that reads it."""
    import typer

    from clusterplan.planner.cli.main import app

    root = typer.main.get_command(app)
    yield "# Command line\n"
    yield "What `clusterplan COMMAND --help` prints, for every command. stdout is data, stderr is log and"
    yield "progress. Exit codes are explained in [](../guides/quality.md).\n"
    top = typer.Context(root, info_name="clusterplan")
    everything = list(_commands(root))
    yield from table(
        ["command", "what it does"],
        (
            (
                f"[clusterplan {' '.join(path)}](#cli-{'-'.join(path)})",
                plain(command.get_short_help_str(200)),
            )
            for path, command in everything
            if not hasattr(command, "commands")
        ),
    )
    contexts: dict[tuple[str, ...], Any] = {(): top}
    for path, command in everything:
        context = typer.Context(command, info_name=path[-1], parent=contexts[path[:-1]])
        contexts[path] = context
        yield f"(cli-{'-'.join(path)})="
        yield f"{'#' * (len(path) + 1)} clusterplan {' '.join(path)}\n"
        yield from ("  \n".join(plain(part) for part in (command.help or "").split("\n\n")), "")
        if hasattr(command, "commands"):
            continue
        usage = " ".join(command.collect_usage_pieces(context))
        yield f"```text\nclusterplan {' '.join(path)} {usage}\n```\n"
        yield from table(
            ["argument or option", "meaning"],
            ((code(name), plain(text)) for name, text in _parameters(command, context)),
        )


# Documents


def _sections(description: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into its text and what its `Attributes` say of each field."""
    text, _, attributes = description.partition("\nAttributes\n----------\n")
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in attributes.splitlines():
        if re.match(r"^(Parameters|Returns|Raises|Notes)$", line):
            break
        if line and not line[0].isspace():
            names = [name.strip() for name in line.split(",")]
        else:
            for name in names:
                meanings[name] = f"{meanings.get(name, '')} {line.strip()}".strip()
    return text.strip().replace("``", "`"), meanings


class Documents:
    """The tables of one kind of document.

    Parameters
    ----------
    kind
        What `clusterplan schema` calls it.
    schema
        Its JSON Schema.
    shared
        What fields mean that several kinds have.
    """

    def __init__(self, kind: str, schema: Mapping[str, Any], shared: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self.schema = schema
        self.shared = dict(shared or {})
        self.named: dict[str, Mapping[str, Any]] = {}
        self.waiting: list[str] = []

    def _link(self, name: str, schema: Mapping[str, Any]) -> str:
        if name not in self.named:
            self.named[name] = schema
            self.waiting.append(name)
        return f"[{name}](#schema-{self.kind}-{name.lower()})"

    def words(self, schema: Mapping[str, Any]) -> str:
        """Return what a value of a schema is, in a few words."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self._link(name, self.schema["$defs"][name])
        for key in ("anyOf", "oneOf"):
            if key in schema and "properties" not in schema:
                found = [self.words(part) for part in schema[key] if part.get("type") != "null"]
                return " or ".join(dict.fromkeys(found))
        if "const" in schema:
            return code(json.dumps(schema["const"]).strip('"'))
        if "enum" in schema:
            return " or ".join(code(str(value)) for value in schema["enum"])
        if schema.get("type") == "string" and "description" in schema:
            return "a [file](../reference/schema.md#tables)"
        return self._of_type(schema)

    def _of_type(self, schema: Mapping[str, Any]) -> str:
        kind = schema.get("type")
        if kind == "array":
            if "prefixItems" in schema:
                parts = [self.words(part) for part in schema["prefixItems"]]
                same = len(set(parts)) == 1
                return f"list of {len(parts)}: {parts[0]} each" if same else "list of " + ", ".join(parts)
            return f"list of {self.words(schema.get('items', {}))}"
        if kind == "object":
            if "properties" in schema:
                return self._link(schema["title"], schema)
            values = schema.get("additionalProperties")
            return f"name → {self.words(values)}" if isinstance(values, dict) and values else "mapping"
        if kind in ("number", "integer"):
            return ("number" if kind == "number" else "whole number") + _limits(schema)
        if schema.get("format") == "date":
            return "date"
        return {"string": "text", "boolean": "`true` or `false`"}.get(str(kind), "anything")

    def page(self) -> Iterator[str]:
        """Return the page of this kind of document."""
        yield f"# {self.kind.capitalize()}\n"
        yield f"`clusterplan schema {self.kind}` prints the same as JSON Schema, for editors and other"
        yield "programs. Unknown fields are faults.\n"
        if "properties" in self.schema:
            self._link(self.schema["title"], self.schema)
        else:
            yield f"Either {self.words(self.schema)}.\n"
        while self.waiting:
            name = self.waiting.pop(0)
            schema = self.named[name]
            text, meanings = _sections(schema.get("description", ""))
            if self.shared and schema is self.schema:
                meanings = self.shared | meanings
            yield f"(schema-{self.kind}-{name.lower()})="
            yield f"## {name}\n"
            yield plain(text) + "\n"
            rows = []
            for field, value in schema.get("properties", {}).items():
                needed = field in schema.get("required", ())
                rows.append(
                    [
                        code(field),
                        self.words(value),
                        "**required**" if needed else _default(value),
                        plain(meanings.get(field, "")),
                    ]
                )
            yield from table(["field", "value", "if left out", "meaning"], rows)
            for choice in schema.get("anyOf", ()):
                if "required" in choice and choice is schema["anyOf"][0]:
                    wanted = [code(" and ".join(part["required"])) for part in schema["anyOf"]]
                    yield f"One of these is required: {', '.join(wanted)}.\n"


def _limits(schema: Mapping[str, Any]) -> str:
    low, above, high = (schema.get(key) for key in ("minimum", "exclusiveMinimum", "maximum"))
    parts = []
    if above is not None:
        parts.append(rf" \> {above:g}")
    if low is not None:
        parts.append(f" ≥ {low:g}")
    if high is not None and high < HUGE:
        parts.append(f" ≤ {high:,g}" if high < 1000 else f" ≤ {int(high):,}")
    return ",".join(parts)


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    if value is None or value in ([], {}):
        return "–"
    if isinstance(value, dict):
        return "the defaults"
    if isinstance(value, list):
        return ", ".join(code(str(item)) for item in value)
    return code(json.dumps(value).strip('"'))


def documents() -> Iterator[tuple[str, Iterator[str]]]:
    """Return the name and lines of a page for each kind of document, from what `schema` prints."""
    from clusterplan.instances.common.base import Instance
    from clusterplan.instances.registry import KINDS
    from clusterplan.planner.cli.instances.generate import document_names, schema_of

    shared = _sections(inspect.cleandoc(Instance.__doc__ or ""))[1]
    for name in document_names():
        yield name, Documents(name, schema_of(name), shared if name in KINDS else {}).page()


# Solvers


def solvers() -> Iterator[str]:
    """Return the page of all solvers and their options."""
    from clusterplan.solvers.registry import all_solvers

    yield "# Solvers\n"
    yield "All solvers that come with the package. `clusterplan solvers` also says which can be used where it"
    yield "runs, and lists plug-ins. *proves* says whether a solver can prove optimality. Every solver takes"
    yield "a time limit, a gap, threads and a seed; what else it takes stands under *also*. An option that a"
    yield "solver would ignore is refused.\n"
    own = [solver for solver in all_solvers() if type(solver).__module__.startswith("clusterplan.")]
    yield from table(
        ["solver", "kinds", "proves", "what it is", "also"],
        (
            [
                code(solver.name),
                ", ".join(solver.kinds),
                "yes" if solver.proves else "no",
                plain(solver.what),
                ", ".join(feature.replace("_", " ") for feature in sorted(solver.features)) or "–",
            ]
            for solver in own
        ),
    )
    yield "## Options of methods\n"
    yield "Given as `--set KEY=VALUE`, or as `SolveOptions(method_options={…})`.\n"
    for solver in own:
        if solver.method_options:
            yield f"### {code(solver.name)} ({', '.join(solver.kinds)})\n"
            yield from table(
                ["option", "default", "allowed", "what it does"],
                (
                    [code(key), code(str(option.default)), plain(option.allowed), plain(option.what)]
                    for key, option in solver.method_options.items()
                ),
            )


# Python

API = {
    "Solving and checking": (
        *("solve", "verify", "SolveOptions", "Result", "Verification", "Diagnosis"),
        "clusterplan.solvers.common.result.ObjectiveRecord",
    ),
    "Frontiers": (
        *("pareto", "Frontier", "AllocationFrontier", "SchedulingFrontier"),
        "clusterplan.solvers.common.result.AnyFrontier",
    ),
    "Batches and comparisons": (
        *("solve_many", "compare", "BatchOptions", "Record", "Comparison"),
        *("what_if", "WhatIf"),
        *(
            "clusterplan.planner.batch.comparison_rows.SolverSummary",
            "clusterplan.planner.batch.comparison_rows.Profile",
        ),
    ),
    "Instances": (
        *("load", "parse_instance", "save", "load_catalogue", "Instance", "AllocationInstance"),
        *("StagingInstance", "ConsolidationInstance", "SchedulingInstance", "MixInstance"),
        "HardwareCatalogue",
    ),
    "Builders": ("Allocation", "Staging", "Consolidation", "Scheduling", "Mix"),
    "Importers": (
        *("import_slurm", "import_kubernetes", "import_flux", "import_openb", "import_philly"),
        *("import_slurm_elastic", "import_kubernetes_elastic", "import_tiresias"),
        *("import_gavel", "import_gavel_consolidation", "import_pollux", "import_sailor"),
        *("import_pipedream", "import_dnn_partitioning", "import_trace", "import_sacct", "import_muri"),
        *("import_tensors", "import_pairs", "import_serving"),
    ),
    "Pages, plots and exports": ("report", "plot", "export_plan"),
    "Predictions": ("predict", "Prediction", "module_model"),
    "Fits": ("fit_speed", "fit_loss", "SpeedFit", "LossFit"),
    "Errors": (
        *("ClusterplanError", "InstanceError", "clusterplan.instances.common.errors.Fault", "OptionError"),
        *("RefusedError", "UnavailableError", "TooLargeError", "SolveError"),
    ),
}
"""The public names by area, each a page; those that are not listed come after these."""
PLUG_INS = {
    "Solvers": (
        "clusterplan.solvers.common.base.Solver",
        "clusterplan.solvers.common.base.Outcome",
        "clusterplan.solvers.common.base.MethodOption",
        "clusterplan.solvers.common.base.Clock",
    ),
    "Formulations": (
        "clusterplan.formulations.common.formulation.Formulation",
        "clusterplan.formulations.common.objective.Objective",
        "clusterplan.formulations.common.objective.Violation",
    ),
    "Staging": (
        "clusterplan.formulations.staging.formulation.StagingFormulation",
        "clusterplan.formulations.staging.formulation.GraphFormulation",
        "clusterplan.formulations.staging.graph_order.Classes",
        "clusterplan.formulations.staging.graph_order.Tensor",
        "clusterplan.formulations.staging.stages.Stage",
        "clusterplan.formulations.staging.stages.stage_of",
        "clusterplan.formulations.staging.stages.min_units",
    ),
    "Scheduling policies": (
        "clusterplan.solvers.scheduling.policies.contract.Policy",
        "clusterplan.solvers.scheduling.policies.contract.KeyPolicy",
        "clusterplan.solvers.scheduling.policies.contract.RemainingTimePolicy",
        "clusterplan.solvers.scheduling.view.View",
        "clusterplan.solvers.scheduling.view.Knowledge",
        "clusterplan.solvers.scheduling.view.ForbiddenKnowledgeError",
        "clusterplan.solvers.scheduling.own_policy.policy_solver",
        "clusterplan.solvers.scheduling.policy_solvers.PolicySolver",
        "clusterplan.solvers.scheduling.policy.Policy",
        "clusterplan.solvers.scheduling.search.event_loop.Rule",
        "clusterplan.solvers.scheduling.search.event_loop.PriorityScheduler",
    ),
}
"""What plug-ins are made of, by their full names."""
MEMBERS = {
    "StagingFormulation": "stage, stage_time_s, rate_usd_per_hour, plan_cost_usd, violations, evaluate",
    "GraphFormulation": "classes, stage, stage_parts, restricted_to_one_order, parts_of_stages",
}
"""Of a class that has much else: the members that solvers of other packages use."""


def python() -> Iterator[tuple[str, Iterator[str]]]:
    """Return the name and lines of each page of the reference: an overview, and one for each area."""
    import clusterplan

    public = set(clusterplan.__all__)
    listed = {name for names in API.values() for name in names}
    areas = {title: [n for n in names if "." in n or n in public] for title, names in API.items()}
    areas["More"] = sorted(public - listed)
    pages = {
        title: [name if "." in name else f"clusterplan.{name}" for name in names]
        for title, names in areas.items()
        if names
    }
    yield "api", _overview(pages)
    for title, names in pages.items():
        yield _slug(title), _area(title, names)
    yield "api-plug-ins", _plug_ins()


def _slug(title: str) -> str:
    """Return the name of the page of an area."""
    return "api-" + "-".join(re.findall("[a-z]+", title.lower()))


def _overview(pages: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Return the page that lists all names, by area."""
    yield "# Python\n"
    yield "All names are imported from `clusterplan`, unless they are written with their module. Importing it"
    yield "loads no solver: each name is imported when it is first used. Fields of instances and results are"
    yield "listed with their types and defaults under [documents](../reference/schema.md).\n"
    for title, names in pages.items():
        yield f"## [{title}]({_slug(title)}.md)\n"
        yield from _summary(names)
    yield "## [Contracts of plug-ins](api-plug-ins.md)\n"
    yield from _summary([name for names in PLUG_INS.values() for name in names])
    yield "```{toctree}\n:hidden:\n"
    yield from map(_slug, pages)
    yield "api-plug-ins\n```\n"


def _area(title: str, names: Sequence[str]) -> Iterator[str]:
    """Return the page of an area: its names as a table, then each in full."""
    yield f"# {title}\n"
    yield from _summary(names)
    yield from _in_full(names)


def _plug_ins() -> Iterator[str]:
    """Return the page of the contracts of plug-ins."""
    yield "# Contracts of plug-ins\n"
    yield "How to use them: [](../guides/add-a-solver.md) and [](../guides/scheduling-policies.md). A solver"
    yield "of another package imports `Solver`, `Outcome`, `MethodOption` and `Clock` from"
    yield "`clusterplan.solvers.base`. What it solves is a {py:class}`clusterplan.Instance`, as its"
    yield "formulation presents it.\n"
    for title, names in PLUG_INS.items():
        yield f"## {title}\n"
        yield from _summary(names)
        yield from _in_full(names)


def _summary(names: Iterable[str]) -> Iterator[str]:
    """Return a table of names with their first lines, each a link to its full text."""
    yield "```{eval-rst}\n.. autosummary::\n   :nosignatures:\n"
    yield from (f"   {'~' if name.count('.') == 1 else ''}{name}" for name in names)
    yield "```\n"


def _in_full(names: Iterable[str]) -> Iterator[str]:
    """Return the full text of each name."""
    yield "```{eval-rst}"
    for name in names:
        yield from _documented(name)
    yield "```\n"


def _documented(path: str) -> Iterator[str]:
    """Return the directive for a name and what it stands for."""
    module, _, name = path.rpartition(".")
    thing = getattr(import_module(module), name)
    if not isinstance(thing, type):
        yield f".. autofunction:: {path}"
    elif issubclass(thing, Exception):
        yield f".. autoexception:: {path}"
        if thing.__base__ is not Exception:
            yield "   :show-inheritance:"
    else:
        yield f".. autoclass:: {path}"
        yield f"   :members: {MEMBERS.get(name, '')}".rstrip()
    yield ""


# Measured results


def measured() -> Iterator[tuple[str, Iterator[str]]]:
    """Return the name and lines of a page for each report of a benchmark, and of one for other tables."""
    for report in sorted(RESULTS.glob("*.md")):
        include = f"```{{include}} ../../benchmarks/results/{report.name}\n:relative-images:\n```\n"
        yield report.stem, iter([include])
    others = [
        table
        for table in sorted(RESULTS.glob("*.csv"))
        if not (RESULTS / f"{table.stem.partition('-')[0]}.md").exists()
    ]
    if others:
        yield "others", _tables(others)


def _tables(files: Sequence[Path]) -> Iterator[str]:
    """Return a page of results that have no report, with what their benchmark says of itself."""
    yield "# Other measured results\n"
    for file in files:
        script = RESULTS.parent / f"{file.stem.partition('-')[0]}.py"
        about = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) if script.exists() else None
        yield f"## {file.stem.replace('-', ' ').capitalize()}\n"
        yield plain((about or "").partition("\n\n")[0]) + "\n"
        yield f"```{{csv-table}}\n:file: ../../benchmarks/results/{file.name}\n:header-rows: 1\n```\n"


def _write(name: str, lines: Iterable[str], written: set[Path]) -> None:
    """Write a page if it changed, so that the next build has less to do."""
    path, text = GENERATED / f"{name}.md", NO_EDIT + "\n".join(lines)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    written.add(path)


def generate(app: Sphinx | None = None) -> None:
    """Write all pages, and remove those that are no longer among them."""
    del app
    GENERATED.mkdir(exist_ok=True)
    written: set[Path] = set()
    _write("cli", command_line(), written)
    _write("solvers", solvers(), written)
    for name, lines in python():
        _write(name, lines, written)
    for kind, lines in documents():
        _write(f"schema-{kind}", lines, written)
    for name, lines in measured():
        _write(f"measured-{name}", lines, written)
    for path in set(GENERATED.glob("*.md")) - written:
        path.unlink()


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx looks for its sources."""
    app.connect("builder-inited", generate)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
