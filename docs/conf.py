"""How the documentation site is built: ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from pydantic import BaseModel
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import clusterplan

project = "clusterplan"
version = release = clusterplan.__version__
copyright = "the authors of clusterplan, MIT licence"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "offline_math",
    "generated_pages",
]
exclude_patterns = ["_build", "_ext"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "attrs_inline"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

default_role = "literal"
smartquotes = False  # two hyphens begin an option
autosummary_generate = False  # its tables alone; generated_pages writes the pages
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"exclude-members": "model_config"}
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_attr_annotations = False
# Attributes as one list: most are fields of data classes, which have no page of their own.
napoleon_custom_sections = [("Attributes", "params_style")]

# Names in signatures that have no page here: the standard library, other projects, and type aliases.
nitpicky = True
nitpick_ignore_regex = [
    ("py:class", r"(collections\.abc|contextlib|pathlib|typing|enum)\..*"),
    ("py:class", r"(Any|Path|pd\.DataFrame|ABC|Floats)"),
    ("py:class", r"(clusterplan\..*\.)?(InstanceT|EntryT|FormulationT_contra)"),
    ("py:class", r"(clusterplan\.formulations\.common\.milp_model\.)?MilpModel"),
    ("py:class", r"clusterplan\.instances\.common\.(fields\.Model|kind\.Builder|servers\.AnyServer)"),
    ("py:class", r"clusterplan\.instances\.common\.speed\..*"),
    ("py:class", r"clusterplan\.planner\.study\.(Scenario|Row)"),
    ("py:class", r"clusterplan\.instances\.prediction\..*"),
    ("py:class", r"fractions\.Fraction"),
    ("py:class", r"clusterplan\.instances\.consolidation\.(instance\.Server|job\.PlacementJob)"),
    (
        "py:class",
        r"clusterplan\.instances\.allocation\.(job_table\.JobTable|job\..*|fits\.measurements\..*)",
    ),
    ("py:class", r"clusterplan\.instances\.scheduling\.(jobs|configurations|instance)\..*"),
    ("py:class", r"clusterplan\.(formulations|solvers)\.scheduling\.(formulation|engine)\..*"),
    ("py:class", r"clusterplan\.planner\.batch\.comparison_rows\.ComparisonRow"),
    ("py:class", r"numpy\.(bool|dtype|float64|int64|ndarray)"),
    # Pieces of types with brackets in them, as `Attributes` of data classes have them.
    ("py:(class|obj)", r"(dict|list|tuple|typing\.Literal)\[.*"),
]

html_theme = "pydata_sphinx_theme"
html_title = f"clusterplan {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
html_sidebars = {"index": []}
html_theme_options: dict[str, Any] = {
    "logo": {"text": "clusterplan"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True


def _signature(app: Sphinx, what: str, name: str, thing: Any, *rest: Any) -> tuple[str, str | None] | None:
    """Leave the fields of a model out of its signature; the page of its document lists them."""
    del app, name, rest
    return ("", None) if what == "class" and issubclass(thing, BaseModel) else None


def _dashes(app: Sphinx, tree: nodes.document, name: str) -> None:
    """Write the dashes between a field and its meaning, which Sphinx leaves to its clever quotes."""
    del app, name
    for text in list(tree.findall(nodes.Text)):
        if text.startswith(" -- "):
            text.parent.replace(text, nodes.Text(" – " + text[4:]))


def setup(app: Sphinx) -> None:
    """Register what is only needed here."""
    app.connect("autodoc-process-signature", _signature)
    app.connect("doctree-resolved", _dashes)
