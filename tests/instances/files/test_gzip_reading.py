"""Reading text that is packed by gzip, within limits."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.files import gzip_reading
from clusterplan.instances.files.reading import read_text


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
    monkeypatch.setattr(gzip_reading, "MOST_UNPACKED_BYTES", 100)
    with pytest.raises(InstanceError, match=what):
        read_text(write(tmp_path / "a.csv.gz", content))
