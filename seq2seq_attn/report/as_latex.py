r"""The comparison as LaTeX tables with the rules of booktabs, to be taken in with \input."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from seq2seq_attn.report.column import Cell, Column
from seq2seq_attn.report.columns import columns
from seq2seq_attn.report.table import notes
from seq2seq_attn.report.where_tables import where_tables
from seq2seq_attn.results.results import Results
from seq2seq_attn.results.slug import slug

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
    """A table of what is always shown, one of what is optional, and those of where the arms differ.

    How the numbers were made stands in comments.
    """
    making = [f"% {note}" for note in notes(results, ())]
    return "\n".join([HEAD, *making, *_comparison(results), *_where(results), ""])


def escape(text: str) -> str:
    """The text as LaTeX prints it: specials escaped, a minus sign before a number, a dash between two."""
    escaped = "".join(SPECIAL.get(character, character) for character in text)
    return re.sub(r"(?<=\d)-(?=\d)", "--", re.sub(r"(?<!\w)-(?=\d)", "$-$", escaped))


def _comparison(results: Results) -> Iterator[str]:
    arm, *rest = columns(results)
    name = slug(results.experiment)
    for optional, label in ((False, name), (True, f"{name}-more")):
        shown = [column for column in rest if column.optional == optional]
        if shown:
            meanings = "; ".join(column.meaning for column in shown if column.meaning)
            yield _table([arm, *shown], f"{results.experiment}. {meanings}.", label)


def _where(results: Results) -> Iterator[str]:
    for table in where_tables(results):
        caption = f"{results.experiment}, {table.name}. {table.meaning} {table.in_cells}".rstrip()
        yield _table(table.columns, caption, f"{slug(results.experiment)}-{slug(table.name)}")


def _table(shown: Sequence[Column], caption: str, label: str) -> str:
    rows = zip(*(column.cells for column in shown), strict=True)
    return TABLE % {
        "alignment": "r" * (len(shown) - 1),
        "header": " & ".join(escape(column.header) for column in shown),
        "rows": "\n".join(rf"{' & '.join(map(_cell, row))} \\" for row in rows),
        "caption": escape(caption),
        "label": label,
    }


def _cell(cell: Cell) -> str:
    detail = rf" {{\footnotesize {escape(cell.detail)}}}" if cell.detail else ""
    return escape(cell.value) + detail
