"""What tests ask about processes that others have started."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def descendants(pid: int) -> set[int]:
    """Return the processes that a process has started, and those that these have."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()[1:]]
    own = {child for child, parent in pairs if parent == pid}
    return own.union(*(descendants(child) for child in own))


def is_running(pid: int) -> bool:
    """Return whether there is such a process, and it is more than an entry in a table."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]
    except OSError:
        return False


def happens(what: Callable[[], bool], within_s: float = 30) -> bool:
    """Return whether something becomes true in time; return as soon as it is."""
    deadline = time.monotonic() + within_s
    while not what() and time.monotonic() < deadline:
        time.sleep(0.01)
    return what()


def all_end(pids: set[int]) -> bool:
    """Return whether all these processes end within ten seconds."""
    return happens(lambda: not any(map(is_running, pids)), within_s=10)
