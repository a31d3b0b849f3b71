"""Load and save instance documents, with the tables that they refer to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml

from .common.base import Instance
from .common.errors import Faults, InstanceError, OptionError, shown
from .common.faults import validated
from .common.hardware import HardwareCatalogue
from .files.columns import frame_rows, is_frame
from .files.csv_tables import TableFile, by_lines
from .files.reading import (
    DOCUMENT_SUFFIXES,
    HASH,
    IS_NO_INSTANCE,
    MAX_ENTRIES,
    MAX_YAML,
    RESULT,
    TABLE_SUFFIXES,
    add_resolvers,
    fail,
    is_stream,
)
from .files.tables import MANY_ROWS, write_table
from .references import Folder, read_file, read_list
from .registry import KINDS

BUNDLED = "example:"
CATALOGUE = "catalogue:"


def _bundled(folder: str) -> dict[str, Path]:
    """Return name → path of the documents in one folder of the package."""
    root = Path(str(resources.files(__package__))) / folder
    return {path.stem: path for path in sorted(root.glob("*.yaml"))}


def _bundled_path(reference: str, source: str) -> Path:
    prefix, folder = (BUNDLED, "examples") if reference.startswith(BUNDLED) else (CATALOGUE, "catalogues")
    documents, name = _bundled(folder), reference.removeprefix(prefix)
    if name not in documents:
        raise fail(source, f"there is no such {prefix[:-1]}; there are: {', '.join(documents)}")
    return documents[name]


def _read_catalogue(folder: Folder, reference: str, source: str) -> HardwareCatalogue:
    source = f"{source}: catalogue: {reference}"
    if reference.startswith(CATALOGUE):
        return load_catalogue(reference, source)
    return load_catalogue(folder.file(reference, source), source, folder.allow_outside)


def parse_instance(
    data: Any, source: str = "document", folder: Path | None = None, allow_outside: bool = False
) -> Instance:
    """Return the instance that a document describes, given as plain data.

    Parameters
    ----------
    data
        A mapping with at least `kind`; its lists may also be pandas tables, with the columns of CSV files.
    source
        The name of the input in error messages.
    folder
        Where the tables and measurements lie that the document refers to; by default the working folder.
    allow_outside
        Whether these files may also lie elsewhere than in the folder and below it.

    Raises
    ------
    InstanceError
        If anything is wrong; the error holds the faults that were found.
    """
    if not isinstance(data, Mapping):
        raise fail(source, "is not a mapping; an instance starts with 'schema_version: 1' and 'kind: …'")
    if HASH in data:
        frontier = IS_NO_INSTANCE.format("frontier", "verify and report")
        raise fail(source, frontier if "points" in data else RESULT)
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        given = f"is {shown(kind)}" if "kind" in data else "is missing"
        raise fail(source, f"{given}; allowed: {', '.join(KINDS)}", "kind")
    if "schema_version" not in data:
        raise fail(source, "is missing; write schema_version: 1", "schema_version")
    lies_in = Folder(folder or Path(), allow_outside)
    resolved, files = _with_files(data, kind, source, lies_in)
    try:
        # A large table becomes an instance at once; anything else is plain data that is validated here.
        described = KINDS[kind].resolved(resolved, source, lies_in)
    except InstanceError as error:
        raise by_lines(error, files) from None
    if isinstance(described, Instance):
        return described
    try:
        return validated(KINDS[kind].model, described, source)
    except InstanceError as error:
        # Rows that became fewer entries, as measurements of jobs do, are no longer identified by their lines.
        alike = {key: file for key, file in files.items() if len(described[key]) == len(resolved[key])}
        raise by_lines(error, alike) from None


def _with_files(
    data: Mapping[str, Any], kind: str, source: str, folder: Folder
) -> tuple[dict[str, Any], dict[str, TableFile]]:
    """Return a document with its referenced lists and catalogue read in, and the CSV files of these lists."""
    resolved = dict(data)
    files: dict[str, TableFile] = {}
    faults = Faults()
    for key in (*KINDS[kind].lists, "catalogue"):
        given = resolved.get(key)
        try:
            if isinstance(given, str) and key == "catalogue":
                resolved[key] = _read_catalogue(folder, given, source)
            elif isinstance(given, str):
                resolved[key] = read_list(folder, given, key, source, KINDS[kind].tables is not None)
                if given.lower().endswith(".csv"):
                    called = f"{source}: {key}: {given}"
                    files[key] = TableFile(folder.file(given, called), called)
            elif is_frame(given):
                resolved[key] = frame_rows(given, f"{source}: {key}")
            elif isinstance(given, list) and len(given) > MAX_ENTRIES:
                what = f"has {len(given):,} entries; at most {MAX_ENTRIES:,} stand in a document: "
                raise fail(source, what + "put them into a CSV or Parquet table", key)
        except InstanceError as error:
            faults.add_all(error)
    faults.refuse()
    return resolved, files


def load(path: str | Path, allow_outside: bool = False, changes: Mapping[str, Any] | None = None) -> Instance:
    """Load an instance from a YAML or JSON file, or a bundled one from ``example:NAME``.

    Parameters
    ----------
    path
        The file, or ``-`` for standard input; what it refers to lies beside or below it, or for a pipe in
        the working folder.
    allow_outside
        Whether that may also lie elsewhere.
    changes
        Fields of the document that are replaced, or added.

    Raises
    ------
    InstanceError
        If the file, or a table it refers to, is missing or wrong; one fault a line.
    """
    source = str(path)
    file = _bundled_path(source, source) if source.startswith(BUNDLED) else Path(path)
    if file.suffix.lower() in TABLE_SUFFIXES:
        raise fail(source, "is a table; give the YAML or JSON document that refers to it")
    data = read_file(file, source)
    if changes and isinstance(data, Mapping):
        _check_changes(changes, data.get("kind"), source)
        data = {**data, **changes}
    return parse_instance(data, source, _folder_of(file), allow_outside)


def _check_changes(changes: Mapping[str, Any], kind: Any, source: str) -> None:
    """Refuse changes of fields that instances of this kind do not have."""
    model = KINDS[kind].model if isinstance(kind, str) and kind in KINDS else None
    for field in changes:
        if model is not None and field not in model.model_fields:
            having = ", ".join(name for name, each in KINDS.items() if field in each.model.model_fields)
            raise fail(source, f"is of {kind}; the option that sets {field!r} is only for {having}")


def _folder_of(file: Path) -> Path:
    """Return the folder for the files that a document refers to; the working folder for a pipe."""
    return Path() if is_stream(file) else file.parent


def load_catalogue(
    path: str | Path, source: str | None = None, allow_outside: bool = False
) -> HardwareCatalogue:
    """Load a hardware catalogue from a file, or a bundled one from ``catalogue:NAME``.

    Parameters
    ----------
    source
        Its name in error messages, where a document refers to it; these do not quote its content then.
    allow_outside
        Whether the table that it may refer to may lie elsewhere than beside or below it.

    Raises
    ------
    InstanceError
        If the file is missing or wrong; one fault a line.
    """
    # A catalogue that a document names may be any file of its reader: it is not quoted.
    quoting, source = source is None, source or str(path)
    file = _bundled_path(str(path), source) if str(path).startswith(CATALOGUE) else Path(path)
    data = read_file(file, source, quoting=quoting)
    if not isinstance(data, Mapping) or "types" not in data:
        raise fail(source, "is no catalogue: it has no 'types'")
    if isinstance(data["types"], str):
        folder = Folder(_folder_of(file), allow_outside)
        data = {**data, "types": read_list(folder, data["types"], "types", source)}
    return validated(HardwareCatalogue, data, source)


class _BlockDumper(yaml.SafeDumper):
    """YAML dumper that writes no aliases, and quotes text that our reader would parse as another type."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True, so that YAML writes every repeated value in full."""
        del data
        return True


add_resolvers(_BlockDumper)


def to_text(instance: Instance, suffix: str = ".yaml", references: Mapping[str, str] | None = None) -> str:
    """Return the document of an instance as YAML or JSON text; fields with default values are left out.

    Parameters
    ----------
    instance
        What to write.
    suffix
        ``.json`` for JSON; anything else is YAML.
    references
        Paths of the tables that hold lists of the document; by default lists are part of the text.
    """
    paths = dict(references or {})
    data = instance.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude=set(paths))
    data = {"schema_version": instance.schema_version, "kind": instance.kind, **data, **paths}
    if suffix == ".json":
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return yaml.dump(
        data, Dumper=_BlockDumper, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True
    )


def wants_tables(instance: Instance) -> bool:
    """Return whether lists of an instance are long enough to be saved in tables beside its document."""
    tables = KINDS[instance.kind].tables
    if tables is None:
        return False
    many = any(len(getattr(instance, key)) >= MANY_ROWS for key in tables.lists)
    return many and tables.why_not(instance) is None


def save(instance: Instance, path: str | Path, table: Literal["parquet", "csv"] | None = None) -> None:
    """Write an instance to a YAML or JSON file.

    Parameters
    ----------
    instance
        What to write.
    path
        Where to; an existing file is replaced.
    table
        Write the jobs of an allocation instance to the table NAME-jobs.parquet or NAME-jobs.csv beside
        NAME.yaml, or the servers and jobs of a consolidation instance to two tables; by default Parquet
        tables from 5,000 jobs or servers on, none for fewer.

    Raises
    ------
    InstanceError
        If a file cannot be written or has another ending.
    OptionError
        If the requested table cannot hold the jobs or servers, or the document is too large for YAML.
    """
    path = Path(path)
    if path.suffix.lower() not in DOCUMENT_SUFFIXES:
        raise fail(str(path), f"has the ending {path.suffix!r}; allowed: {', '.join(DOCUMENT_SUFFIXES)}")
    if table is None and wants_tables(instance):
        table = "parquet"
    references = {} if table is None else _save_tables(instance, path, table)
    text = to_text(instance, path.suffix.lower(), references)
    if path.suffix.lower() != ".json" and len(text) > MAX_YAML:
        most = f"at most {MAX_YAML:,} characters of YAML are read"
        raise OptionError(f"{path}: would have {len(text):,} characters, and {most}; write .json")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise fail(str(path), f"cannot be written: {error.strerror or error}") from None


def _save_tables(instance: Instance, path: Path, ending: str) -> dict[str, str]:
    """Write tables beside the document at `path`; return the file name of each by its key."""
    tables = KINDS[instance.kind].tables
    if tables is None:
        able = " and of ".join(name for name, kind in KINDS.items() if kind.tables is not None)
        raise OptionError(f"{path}: only instances of {able} are written to tables, not of {instance.kind}")
    why = tables.why_not(instance)
    if why is not None:
        raise OptionError(f"{path}: {why}")
    references = {key: f"{path.stem}-{key}.{ending}" for key in tables.lists}
    for key, table in tables.made(instance).items():
        write_table(table, path.with_name(references[key]))
    return references
