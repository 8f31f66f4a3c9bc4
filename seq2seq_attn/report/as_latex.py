r"""The comparison as LaTeX tables with the rules of booktabs, to be taken in with \input."""

from __future__ import annotations

import re
from collections.abc import Sequence

from seq2seq_attn.report.column import Cell, Column
from seq2seq_attn.report.columns import columns
from seq2seq_attn.report.results import Results
from seq2seq_attn.report.slug import slug
from seq2seq_attn.report.table import notes

HEAD = r"""% Needs \usepackage{booktabs,adjustbox}; XeLaTeX or LuaLaTeX where names go beyond the Latin alphabet."""

TABLE = r"""\begin{table*}
\centering
\begin{adjustbox}{max width=\textwidth}
\begin{tabular}{l%(alignment)s}
\toprule
%(header)s \\
\midrule
%(rows)s
\bottomrule
\end{tabular}
\end{adjustbox}
\caption{%(caption)s}
\label{tab:%(label)s}
\end{table*}"""

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "–": "--",
    "[": "{[}",  # a row that begins with it would be the option of the line break above
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def as_latex(results: Results) -> str:
    """A table of what is always shown and one of what is optional; how the numbers were made stands in comments."""
    arm, *rest = columns(results)
    name = slug(results.experiment)
    tables = [
        _table([arm, *(column for column in rest if column.optional == optional)], results.experiment, label)
        for optional, label in ((False, name), (True, f"{name}-more"))
        if any(column.optional == optional for column in rest)
    ]
    making = [f"% {note}" for note in notes(results, ())]
    return "\n".join([HEAD, *making, *tables, ""])


def escape(text: str) -> str:
    """The text as LaTeX prints it: specials escaped, a minus sign before a number, a dash between two."""
    escaped = "".join(SPECIAL.get(character, character) for character in text)
    return re.sub(r"(?<=\d)-(?=\d)", "--", re.sub(r"(?<!\w)-(?=\d)", "$-$", escaped))


def _table(shown: Sequence[Column], experiment: str, label: str) -> str:
    rows = zip(*(column.cells for column in shown), strict=True)
    meanings = "; ".join(column.meaning for column in shown if column.meaning)
    return TABLE % {
        "alignment": "r" * (len(shown) - 1),
        "header": " & ".join(escape(column.header) for column in shown),
        "rows": "\n".join(rf"{' & '.join(map(_cell, row))} \\" for row in rows),
        "caption": escape(f"{experiment}. {meanings}."),
        "label": label,
    }


def _cell(cell: Cell) -> str:
    detail = rf" {{\footnotesize {escape(cell.detail)}}}" if cell.detail else ""
    return escape(cell.value) + detail
