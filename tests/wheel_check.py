"""Run the command of an installed wheel on the examples, from another folder. Used by `make wheel`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Check the environment named first with the examples in the folder named second."""
    command = Path(sys.argv[1]).resolve() / "bin" / "clusterplan"
    examples = Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(examples, folder, dirs_exist_ok=True)
        files = sorted(path.name for path in Path(folder).glob("*.yaml"))
        names = [f"example:{Path(file).stem}" for file in files]
        for inputs in (files, names):
            run = subprocess.run(
                [command, "solve", *inputs, "--format", "json"],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            results = [json.loads(line) for line in run.stdout.splitlines()]
            assert run.returncode in (0, 5), (run.returncode, run.stderr)
            assert len(results) == len(inputs)
            assert all(result["plan"] for result in results)
        Path(folder, "result.json").write_text(json.dumps(results[0]))
        subprocess.run([command, "verify", names[0], "result.json"], cwd=folder, check=True)
        # Pages need their templates, scripts and styles, and workers the package in processes of their own.
        comparison = ["compare", "example:heterps-ctr", "--solvers", "exact,greedy", "--output", "compared"]
        frontier = ["pareto", "example:opt-350-three-gpus", "--output", "frontier"]
        for words, page in ((comparison, "compared/comparison.html"), (frontier, "frontier/frontier.html")):
            subprocess.run([command, *words, "--quiet"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            assert "</html>" in Path(folder, page).read_text(encoding="utf-8")
    print(f"the wheel solved {len(files)} examples twice and verified a result; its pages are whole")


if __name__ == "__main__":
    main()
