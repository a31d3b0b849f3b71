"""The page that every report is made from: one file that needs nothing else, and no network.

Names in instances are untrusted. The templates escape all text; data for scripts is JSON in which no
character can end the script; and a content policy lets only the scripts run that the page was made with.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2

HERE = Path(__file__).parent
IN_SCRIPTS = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def render(
    template: str,
    *,
    scripts: Sequence[str],
    data: Mapping[str, Any],
    **context: Any,
) -> str:
    """Return a page.

    Parameters
    ----------
    template
        Name of a packaged template that extends `base.html.j2`.
    scripts
        Packaged scripts that follow Plotly and `page.js`.
    data
        What the scripts read: `figures` by the id of their element, and whatever else a script wants.
    context
        What the template shows.
    """
    texts = [_packaged(PLOTLY)] if data.get("figures") else []
    texts += [_packaged(name) for name in ("page.js", *scripts)]
    page = _environment().get_template(template)
    policy, style = _policy(texts), _packaged("page.css")
    return page.render(policy=policy, style=style, scripts=texts, data=to_json(data), **context)


PLOTLY = "plotly-basic.min.js"
"""Plotly's own bundle of lines, bars and points, as npm has it in `plotly.js-basic-dist-min`; MIT license."""


def to_json(data: Any) -> str:
    """Return JSON that can stand inside a script element."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(IN_SCRIPTS)


def _policy(scripts: Sequence[str]) -> str:
    """Return a content policy that forbids the network, and every script but these."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _packaged(name: str) -> str:
    return (HERE / "assets" / name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([HERE / "templates", HERE / "assets"]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
