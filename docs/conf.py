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

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
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
        source[0] = reference.for_site(name, reference.relinked(source[0], Path("docs"), DOCS))


def _to_rst(app, what, name, value, options, lines):
    """Docstrings are plain text with `code`, lists and doctests, where |x|, x* and x_ are no markup.

    A list has items `- text` or `argument: text`, with their further lines indented. Sections, as `Args:`, are left to
    napoleon, which comes next.
    """
    if any(line.startswith(".. ") for line in lines):
        return  # inherited from torch, which writes reStructuredText
    result: list[str] = []
    in_item = in_example = in_section = False
    for line in lines:
        in_section = line in SECTIONS or (in_section and (not line or line.startswith("  ")))
        before = result[-1] if result else ""
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line))  # up to a blank line
        if in_example:
            result.append(line)
            continue
        line = _escaped(line)
        if in_section:
            result.append(line)
            in_item = False
        elif line.startswith("- ") or (in_item and re.match(r"\w+: ", line)):
            item = f"- {line.removeprefix('- ')}"
            result += [item] if in_item or not before else ["", item]
            in_item = True
        elif line.startswith("  ") and before and not before.startswith("  "):
            if not in_item:  # the line before was the first of an item
                result[-1:] = ["", f"- {before}"]
            result.append(f"  {line.strip()}")
            in_item = True
        elif line.startswith("  ") and in_item:
            result.append(f"  {line.strip()}")
        else:
            result += [line] if not line or not in_item or not before else ["", line]
            in_item = False
    lines[:] = result


SECTIONS = ("Args:", "Returns:", "Raises:", "Yields:")


def _escaped(line):
    parts = re.split(r"(`[^`]+`)", line)
    return "".join(
        f"`{part}`" if part.startswith("`") else re.sub(r"([|*\\]|_(?!\w))", r"\\\1", part) for part in parts
    )


def setup(app):
    app.connect("source-read", _relink)
    app.connect("autodoc-process-docstring", _to_rst, priority=400)  # before napoleon
