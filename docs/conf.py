"""The documentation as a site that opens from disk: `make docs` writes docs/_build/index.html."""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

import reference  # noqa: E402

import seq2seq_attn  # noqa: E402

project = "seq2seq_attn"
author = "the authors of seq2seq_attn"
copyright = "2026, the authors of seq2seq_attn"
version = release = seq2seq_attn.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_build", "_generated/parts"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}

html_theme = "furo"
html_title = f"seq2seq_attn {release}"
html_extra_path = ["demo-report.html"]
html_copy_source = False
html_show_sphinx = False

# Written from the package and the repository before the pages are read, so that no copy can be out of date.
reference.write(DOCS / "_generated")


def _relink(app, name, source):
    """Links of a page to others outside docs/ lead to their copies in the site."""
    if not name.startswith("_generated/"):
        source[0] = reference.relinked(source[0], Path("docs"), DOCS)


def _to_rst(app, what, name, value, options, lines):
    """Docstrings are plain text with `code`, lists and doctests, where |x|, x* and x_ are no markup."""
    result: list[str] = []
    for line in lines:
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(`[^`]+`)", line)
            line = "".join(
                f"`{part}`" if part.startswith("`") and part.endswith("`") and len(part) > 2
                else re.sub(r"([|*\\]|_(?!\w))", r"\\\1", part)
                for part in parts
            )  # fmt: skip
        is_item, before = line.startswith("- "), result[-1] if result else ""
        if before and ((is_item and not before.startswith(("- ", "  "))) or (before.startswith(("- ", "  ")) and line
                       and not line.startswith(("- ", "  ")))):  # fmt: skip
            result.append("")
        result.append(line)
    lines[:] = result


def setup(app):
    app.connect("source-read", _relink)
    app.connect("autodoc-process-docstring", _to_rst)
