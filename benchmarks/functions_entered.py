"""How many functions of the package a small solve enters in a fresh process, and in how many files.

Few functions on the way of a solve are few places that a reader has to visit. Comprehensions are counted with
the function around them. Run with `make bench-functions`; writes `benchmarks/results/functions_entered.csv`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import CodeType, FrameType

from runner import store_cells

import clusterplan

SOLVES = (
    ("example:optimus-testbed", "auto"),
    ("example:heterps-ctr", "exact"),
    ("example:opt-350-three-gpus", "auto"),
    ("example:tiresias-testbed", "exact"),
    ("example:tiresias-three-jobs", "srsf"),
    ("example:tiresias-three-jobs", "auto"),
)
HEADER = ("instance", "method", "functions", "classes_and_modules", "files")
ROOT = Path(clusterplan.__file__).resolve().parent
FLOORS = tuple(f"{ROOT / floor}/" for floor in ("instances", "formulations", "solvers", "planner"))
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def entered(name: str, method: str) -> tuple[int, int, int]:
    """Return how many functions, bodies of classes and modules, and files a solve enters in this process."""
    found: set[CodeType] = set()

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found.add(frame.f_code)

    instance = clusterplan.load(name)
    sys.setprofile(enter)
    clusterplan.solve(instance, method)
    sys.setprofile(None)
    own = [code for code in found if str(Path(code.co_filename).resolve()).startswith(FLOORS)]
    own = [code for code in own if code.co_name not in COMPREHENSIONS]
    functions = sum(code.co_flags & 1 for code in own)  # CO_OPTIMIZED: bodies of classes and modules are not
    return functions, len(own) - functions, len({code.co_filename for code in own})


def main() -> None:
    """Count each solve in a process of its own; print and store the counts."""
    if len(sys.argv) > 1:
        print(json.dumps(entered(*sys.argv[1:])))
        return
    rows = []
    for solve in SOLVES:
        command = [sys.executable, __file__, *solve]
        counts = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603 - this file
        rows.append((*solve, *map(str, counts)))
    store_cells("functions_entered", HEADER, rows)
    for row in (HEADER, *rows):
        print("  ".join(cell.ljust(28) if index < 2 else cell.rjust(19) for index, cell in enumerate(row)))


if __name__ == "__main__":
    main()
