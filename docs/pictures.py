"""Pictures of pages of the bundled examples, for README and documentation: ``make pictures``.

Needs Chromium, and Pillow, which the extra ``dev`` brings along.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

PICTURES = Path(__file__).parent / "_static" / "pages"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
COLOURS = 96
PAGES: dict[str, tuple[tuple[str, ...], str, tuple[int, int]]] = {
    "consolidation": (
        (
            "solve example:tiresias-testbed --output result.json",
            "report example:tiresias-testbed result.json --output page.html",
        ),
        "page.html",
        (1000, 640),
    ),
    "allocation": (
        (
            "solve example:gavel-three-gpu-types --output result.json",
            "report example:gavel-three-gpu-types result.json --output page.html",
        ),
        "page.html",
        (1000, 740),
    ),
    "staging": (
        ("pareto example:opt-350-three-gpus --output frontier",),
        "frontier/frontier.html",
        (1000, 760),
    ),
    "what-if": (
        ("solve example:tiresias-testbed --what-if drain=empty-0 --what-if add=2xempty --output page.html",),
        "page.html",
        (1000, 720),
    ),
}
"""Name of the picture → commands, the page that they write, and the size of the window."""


def main() -> None:
    """Write every picture, or those that are named."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"needs a browser: {', '.join(BROWSERS)}")
    PICTURES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PAGES:
        commands, page, (width, height) = PAGES[name]
        with tempfile.TemporaryDirectory() as folder:
            for command in commands:
                words = [sys.executable, "-m", "clusterplan", *command.split(), "--quiet"]
                allowed = {"solve", "pareto"}
                words = words if command.split()[0] in allowed else words[:-1]
                subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - above
            shot = Path(folder, "shot.png")
            options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
            options += ["--virtual-time-budget=9000", f"--window-size={width},{height}"]
            where = Path(folder, page).as_uri()
            subprocess.run(  # noqa: S603 - the browser that was found
                [browser, *options, f"--screenshot={shot}", where], check=True, stderr=subprocess.DEVNULL
            )
            few = Image.open(shot).convert("RGB").quantize(COLOURS)
            few.save(PICTURES / f"{name}.png", optimize=True)
        print(PICTURES / f"{name}.png")


if __name__ == "__main__":
    main()
