"""Formulas as MathML, written when the site is built: reading them takes no script and no network.

Docutils brings the converter from LaTeX; a formula that it does not understand is a warning, and so breaks a
build with ``-W``.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

log = logging.getLogger(__name__)


def _mathml(node: nodes.Element, block: bool) -> str:
    text = node.astext().strip()
    try:
        return str(tex2mathml(text, as_block=block))
    except MathError as error:
        log.warning("formula that cannot be converted: %s (%s)", text, error, location=node)
        return f"<code>{text}</code>"


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{_mathml(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
