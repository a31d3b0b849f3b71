"""Files of importers that hold one mapping.

Reading text that is packed by gzip, within limits.

YAML 1.2 as plain data.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.files import reading
from clusterplan.instances.files.reading import read_mapping, read_text


def test_a_file_that_holds_a_mapping(tmp_path: Path) -> None:
    """Anything else is refused in the words of the caller."""
    file = tmp_path / "x.json"
    file.write_text('{"a": 1}', encoding="utf-8")
    assert read_mapping(file) == {"a": 1}
    file.write_text("[1]", encoding="utf-8")
    with pytest.raises(InstanceError, match=r"x\.json: is no price list$"):
        read_mapping(file, "is no price list")


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ("a\nb\nä".encode("latin-1"), "line 3: is not text (UTF-8); a YAML, JSON or CSV file is needed"),
        (b"\x89PNG\n\0", "is not text (UTF-8); a YAML, JSON or CSV file is needed"),
        ("a,b".encode("utf-16"), "is text in UTF-16; save it as UTF-8"),
    ],
)
def test_text_in_another_encoding(tmp_path: Path, raw: bytes, fault: str) -> None:
    """It is said which, or in which line; on demand a sign stands for what is no UTF-8."""
    file = tmp_path / "x.csv"
    file.write_bytes(raw)
    with pytest.raises(InstanceError) as caught:
        read_text(file)
    assert str(caught.value) == f"{file}: {fault}"
    if fault.startswith("line"):
        assert read_text(file, errors="replace") == "a\nb\n\ufffd"


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_packed_text_is_unpacked(tmp_path: Path) -> None:
    """Only the ending of its name decides."""
    assert read_text(write(tmp_path / "a.csv.gz", gzip.compress("a,ü\n".encode()))) == "a,ü\n"
    assert read_text(write(tmp_path / "a.csv", b"a,b\n")) == "a,b\n"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"a,b\n", "is not in gzip's format, or damaged"),
        (gzip.compress(b"a,b\n", mtime=0)[:-9], "is cut short, or holds more than one file"),
        (
            gzip.compress(b"a", mtime=0) + gzip.compress(b"b", mtime=0),
            "is cut short, or holds more than one file",
        ),
        (gzip.compress(b"a" * 101, mtime=0), "holds more than 100 bytes; unpack it"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (gzip.compress(b"\xff", mtime=0), "is not text"),
    ],
)
def test_what_cannot_be_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, what: str
) -> None:
    """Damaged, cut, joined and too large ones are refused."""
    monkeypatch.setattr(reading, "MAX_UNPACKED_BYTES", 100)
    with pytest.raises(InstanceError, match=what):
        read_text(write(tmp_path / "a.csv.gz", content))
