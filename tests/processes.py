"""What tests ask about processes that others have started."""

from __future__ import annotations

import subprocess
import time
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


def all_end(pids: set[int]) -> bool:
    """Return whether all these processes end within ten seconds."""
    deadline = time.monotonic() + 10
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not any(map(is_running, pids))
