"""Files are written whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.output.files import write_all, write_file


def test_a_file_is_replaced_as_a_whole_and_its_folder_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "page.html"
    write_file(path, "<p>ä\n")
    write_file(path, "<p>\ud800\n")  # half of a surrogate pair
    assert path.read_bytes() == b"<p>\\ud800\n"
    assert [found.name for found in path.parent.iterdir()] == ["page.html"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    write_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there").read_text() == "new"


def test_what_is_no_regular_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.append(pipe.read_text()))
    reader.start()
    write_file(pipe, "text")
    reader.join()
    assert seen == ["text"]
    assert pipe.is_fifo()


def test_what_cannot_be_written_is_an_option_error_and_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OptionError, match="cannot be written"):
        write_file(tmp_path, "")
    write_file(tmp_path / "f", "old")
    with pytest.raises(OptionError, match="cannot be written"):
        write_file(tmp_path / "f" / "page.html", "")

    def full(path: Path, raw: bytes) -> None:
        path.open("wb").close()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OptionError, match="No space left"):
        write_file(tmp_path / "f", "new")
    assert (tmp_path / "f").read_text() == "old"
    assert [*tmp_path.iterdir()] == [tmp_path / "f"]


def test_control_characters_stay_in_pages_alone(tmp_path: Path) -> None:
    paths = write_all(tmp_path, {"a.html": "\x1b[1m", "a.csv": "\x1b[1m"})
    assert paths == [tmp_path / "a.html", tmp_path / "a.csv"]
    assert paths[0].read_text() == "\x1b[1m"
    assert "\x1b" not in paths[1].read_text()
