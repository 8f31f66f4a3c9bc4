"""The table as CSV and LaTeX: the numbers of results.json, and the cells of the Markdown table."""

import csv
import io
import re

import pytest

from seq2seq_attn.report.as_csv import as_csv
from seq2seq_attn.report.as_latex import as_latex, escape
from seq2seq_attn.report.results import Results
from seq2seq_attn.report.table import markdown


@pytest.fixture
def results(folder):
    return Results.load(folder / "results.json")


def records(results):
    return list(csv.DictReader(io.StringIO(as_csv(results))))


def numbers(records, *headers):
    return [[float(record[header]) if record[header] else None for header in headers] for record in records]


def test_the_csv_file_holds_the_numbers_of_results_json_to_the_last_digit(results, values):
    rows, arms = records(results), values["results.json"]["arms"]
    assert [row["Arm"] for row in rows] == [arm["name"] for arm in arms]
    assert numbers(rows, "BLEU", "BLEU std") == [[arm["bleu"]["mean"], arm["bleu"]["std"]] for arm in arms]
    assert numbers(rows, "95 % seeds low", "95 % seeds high") == [
        [arm["bleu"]["seeds_low"], arm["bleu"]["seeds_high"]] for arm in arms
    ]
    assert numbers(rows, "1-10", "11+") == [[band["bleu"] for band in arm["bleu_by_length"]] for arm in arms]
    assert numbers(rows, "AER", "AER std") == [[None, None], [0.8, 0.0], [0.1234, 0.0126]]
    assert numbers(rows, "Parameters", "Training seconds", "Tokens/s") == [
        [arm["parameters"], arm["train_seconds"], arm["tokens_per_second"]] for arm in arms
    ]
    pairs = values["results.json"]["comparisons"]
    assert numbers(rows, "Difference", "Difference low", "Difference high", "p rand.", "p boot.", "Detectable") == [
        [None] * 6,
        *(
            [p["bleu_difference"], p["low"], p["high"], p["randomisation"]["p_holm"], p["p_holm"], p["detectable"]]
            for p in pairs
        ),
    ]
    assert numbers(rows, "p seeds", "Detectable seeds") == [[None, None], [None, None], [0.0043, 4.06]]


def test_the_intervals_of_the_length_bands_stand_in_the_csv_file_where_they_are_known(values, write):
    for arm in values["results.json"]["arms"]:
        arm["bleu_by_length"][0] |= {"bleu_low": arm["bleu_by_length"][0]["bleu"] - 1, "bleu_high": 99.0}
    rows = records(Results.load(write(values) / "results.json"))
    assert numbers(rows, "1-10 low", "1-10 high") == [[39.0, 99.0], [37.0, 99.0], [46.5, 99.0]]
    assert "11+ low" not in rows[0]


def test_the_latex_tables_have_the_cells_of_the_markdown_table(results):
    plain = {r"\\": "", "$-$": "-", "$<$": "<", r"$\pm$": "±", "--": "–", "{[}": "["}
    cells = {}
    for line in as_latex(results).splitlines():
        if " & " in line and not line.startswith("%"):
            text = re.sub(r"\{\\footnotesize (.*?)\}(?= |$)", r"\1", line)
            for latex, character in plain.items():
                text = text.replace(latex, character)
            arm, *rest = (cell.strip() for cell in re.split(r" & ", text))
            cells.setdefault(arm, []).extend(cell.replace("\\%", "%") for cell in rest)
    lines = [line for line in markdown(results).splitlines() if line.startswith("| ") and "---" not in line]
    for line in lines:
        arm, *rest = (cell.strip() for cell in line[2:-2].split(" | "))
        rest = [cell.replace("1-10", "1–10") for cell in rest]
        assert sorted(cells[arm]) == sorted(rest)


def test_every_row_of_a_latex_table_has_a_cell_for_each_column(results):
    for table in as_latex(results).split(r"\begin{tabular}")[1:]:
        columns = re.match(r"\{(l r*|lr*)\}", table)[1]
        rows = [line for line in table.split(r"\bottomrule")[0].splitlines() if line.endswith(r"\\")]
        assert len(rows) == 4
        assert {row.count(" & ") for row in rows} == {len(columns) - 1}


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("50 % of A&B_c #1 {x} $5", r"50 \% of A\&B\_c \#1 \{x\} \$5"),
        (r"a\b ~ ^", r"a\textbackslash{}b \textasciitilde{} \textasciicircum{}"),
        ("-12.3 [-12.8, +0.1]", r"$-$12.3 {[}$-$12.8, +0.1]"),
        ("11-20", "11--20"),
        ("tom-and-jerry", "tom-and-jerry"),
        ("0.5 ± 0.1 < 1 | –", r"0.5 $\pm$ 0.1 $<$ 1 \textbar{} --"),
        ("注意力", "注意力"),
    ],
)
def test_what_latex_takes_for_a_command_is_escaped(text, latex):
    assert escape(text) == latex
