"""How Sphinx builds the documentation: `make docs`, with every warning an error.

The sources are the Markdown pages of the whole repository, as they stand, so a link from a page to
the README is a link to a page. What a code host would show as noise stays out of them: the tables
of contents come from the links of `docs/index.md`, and a page that it does not link is an error.
"""

from __future__ import annotations

import re
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.logging import getLogger

ROOT = Path(__file__).parents[1]
INDEX = "docs/index"

project = "normkit"
version = release = version_of("normkit")
root_doc = INDEX
include_patterns = ["*.md", "docs/**"]
# What else is there is not walked through: environments and folders of runs are large.
exclude_patterns = [
    place.name for place in ROOT.iterdir() if place.is_dir() and place.name != "docs"
]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

nitpicky = True  # a name in a docstring that leads nowhere is an error too
# These alone may: types of others, whose pages are not at hand offline, and inner types that
# people are given and never name.
nitpick_ignore_regex = [
    ("py:.*", r"(torch|collections\.abc|pathlib|rich\.console)\..*|Tensor"),
    ("py:class", r"normkit\.(lab|explanation|ops)\.\w+\.\w+"),
    ("py:class", r"normkit\.(measure\.\w+_state|layers\.valid)\.\w+"),
]
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Shape"]

html_theme = "furo"
html_title = f"normkit {release}"
html_copy_source = False
html_show_copyright = False
html_math_renderer = "mathml"
templates_path = ["templates"]
html_additional_pages = {"index": "redirect.html"}  # the folder's first page leads to docs/index

LOG = getLogger(__name__)
LINK = re.compile(r"\[([^]]+)\]\(([^)#:]+\.md)\)")
SECTION = re.compile(r"^## (.+)$", flags=re.MULTILINE)
# What reStructuredText would take for an open emphasis, (*, C), or for a substitution, |x|.
AMBIGUOUS = re.compile(r"\([^()`]*\*[^()`]*\)|\|\w+\|")
LITERAL = re.compile(r"(``.+?``)")


def contents(index: str) -> str:
    """Write the tables of contents that an index implies: a section each, of the pages it links."""
    _, *rest = SECTION.split(index)
    tables = []
    for caption, section in zip(rest[::2], rest[1::2], strict=True):
        pages = {page: f"{title} <{page}>" for title, page in LINK.findall(section)}
        entries = "\n".join(pages.values())
        tables.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n")
    return "\n".join(tables)


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Give the index its tables of contents."""
    if page == INDEX:
        source[0] += "\n" + contents(source[0])


def skip_fields(
    app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any
) -> bool | None:
    """Leave a named tuple's fields to the docstring of their class, which says what they are."""
    return True if str(thing.__doc__).startswith("Alias for field number") else None


def quote(line: str) -> str:
    """Set as code what reStructuredText would misread; what is code already stays."""
    parts = LITERAL.split(line)
    parts[::2] = [AMBIGUOUS.sub(r"``\g<0>``", part) for part in parts[::2]]
    return "".join(parts)


def quote_docstring(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, text: list[str]
) -> None:
    """Let docstrings write shapes and lengths as people do."""
    text[:] = [line if line.lstrip().startswith(">>>") else quote(line) for line in text]


def math_as_mathml(writer: Any, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, which browsers draw by themselves: nothing to fetch or to run."""
    try:
        writer.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    except MathError as error:
        LOG.warning("%s in %s", error, node.astext(), location=node)
    raise nodes.SkipNode


def find_short_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """Resolve a name that a docstring gives as its module sees it, not as users import it."""
    name = node["reftarget"]
    if node.get("refdomain") != "py" or ("." in name and not name.startswith("normkit.")):
        return None
    node["refspecific"] = True  # any documented object whose name ends like this
    last = name.rpartition(".")[2]
    return env.domains["py"].resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], last, node, content
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the pieces above to Sphinx."""
    app.connect("source-read", add_contents)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("autodoc-process-docstring", quote_docstring)
    app.connect("missing-reference", find_short_name)
    renderer = (math_as_mathml, None)
    app.add_html_math_renderer("mathml", inline_renderers=renderer, block_renderers=renderer)
    return {"parallel_read_safe": True}
