"""The table as CSV and LaTeX: the numbers of results.json and the cells of the Markdown table."""

import csv
import io
import re
from dataclasses import replace

import pytest

from seq2seq_attn.report.charts import length_chart
from seq2seq_attn.report.export import as_csv, as_latex, breakdowns_as_csv, escape_latex
from seq2seq_attn.report.table import markdown
from seq2seq_attn.results.results import Results


@pytest.fixture
def results(folder):
    return Results.load(folder / "results.json")


@pytest.fixture
def whole(all_values, write):
    """Results with breakdowns."""
    return Results.load(write(all_values) / "results.json")


def records(results, write_csv=as_csv):
    return list(csv.DictReader(io.StringIO(write_csv(results))))


def numbers(records, *headers):
    return [[float(record[header]) if record[header] else None for header in headers] for record in records]


def test_the_csv_file_contains_the_exact_numbers_of_results_json(results, values):
    rows, arms = records(results), values["results.json"]["arms"]
    assert [row["Arm"] for row in rows] == [arm["name"] for arm in arms]
    assert numbers(rows, "BLEU", "BLEU std") == [
        [arm["scores"]["bleu"]["mean"], arm["scores"]["bleu"]["std"]] for arm in arms
    ]
    assert numbers(rows, "95 % seeds low", "95 % seeds high") == [
        [arm["scores"]["bleu"]["seeds_low"], arm["scores"]["bleu"]["seeds_high"]] for arm in arms
    ]
    bands = values["results.json"]["by_length"]["arms"].values()
    assert numbers(rows, "1-10", "11+") == [[band["scores"]["bleu"]["value"] for band in arm] for arm in bands]
    assert numbers(rows, "1-10 low", "1-10 high") == [[39.0, 41.5], [37.0, 39.5], [46.5, 49.0]]
    assert numbers(rows, "AER", "AER std") == [[None, None], [0.8, 0.0], [0.1234, 0.0126]]
    assert numbers(rows, "Parameters", "Training seconds", "Tokens/s") == [
        [arm["parameters"], arm["train_seconds"], arm["tokens_per_second"]] for arm in arms
    ]
    shown = "Difference", "Difference low", "Difference high", "p", "Detectable"
    assert numbers(rows, *shown) == [
        [None] * 5,
        [-2.04, -4.16, 0.1, 0.0618, None],
        [25.22, 22.5, 27.9, 0.0043, 4.06],  # the interval and the p-value of the joint test
    ]
    assert numbers(rows, "chrF difference", "chrF difference low", "chrF difference high") == [
        [None] * 3,
        [None] * 3,
        [24.5, 23.0, 26.0],
    ]


def test_the_latex_tables_have_the_cells_of_the_markdown_tables(whole):
    plain = {r"\\": "", "$-$": "-", "$<$": "<", r"$\pm$": "±", "--": "–", "{[}": "[", r"\%": "%"}
    in_latex, in_markdown = {}, {}
    for line in as_latex(whole).splitlines():
        if " & " in line and not line.startswith("%"):
            text = re.sub(r"\{\\footnotesize (.*?)\}(?= |$)", r"\1", line)
            for latex, character in plain.items():
                text = text.replace(latex, character)
            arm, *rest = (cell.strip() for cell in re.split(r" & ", text))
            in_latex.setdefault(arm, []).extend(rest)
    for line in markdown(whole).splitlines():
        if line.startswith("| ") and "---" not in line:
            arm, *rest = (re.sub(r"(?<=\d)-(?=\d)", "–", cell.strip()) for cell in line[2:-2].split(" | "))
            in_markdown.setdefault(arm, []).extend(rest)
    assert {arm: sorted(cells) for arm, cells in in_latex.items()} == {
        arm: sorted(cells) for arm, cells in in_markdown.items()
    }


def test_every_row_of_a_latex_table_has_a_cell_for_each_column(whole):
    found = as_latex(whole).split(r"\begin{tabular}")[1:]
    assert len(found) == 2 + 3 + 1 + 1
    for table in found:
        columns = re.match(r"\{(lr+)\}", table)[1]
        rows = [line for line in table.split(r"\bottomrule")[0].splitlines() if line.endswith(r"\\")]
        assert len(rows) in (3, 4)
        assert {row.count(" & ") for row in rows} == {len(columns) - 1}


def test_a_latex_table_has_a_caption_and_a_unique_label(whole):
    text = as_latex(whole)
    labels = re.findall(r"\\label\{tab:(.*?)\}", text)
    assert labels[:4] == ["toy", "toy-more", "toy-source-length", "toy-rarest-source-word"]
    assert len(set(labels)) == len(labels) == text.count(r"\caption{")


def test_lengths_of_a_source_of_frames_are_not_in_words(whole):
    frames = replace(whole, unit="frames")
    said = re.compile(r"source words|\d words")
    for written in (markdown, breakdowns_as_csv, lambda results: str(length_chart(results))):
        in_words, in_frames = written(whole), written(frames)
        assert len(re.findall("frames", in_frames)) == len(said.findall(in_words)) > 0
        assert not said.search(in_frames)


def test_each_number_of_the_breakdowns_has_a_line_in_a_csv_file(whole, all_values):
    lines = {
        (row["table"], row["group"], row["arm"], row["measure"]): row
        for row in records(whole, write_csv=breakdowns_as_csv)
    }

    def line(*key):
        return tuple(lines[key][name] for name in ("value", "low", "high", "of", "bounds"))

    assert line("source length", "11+", "mean of states", "BLEU") == ("10.0", "9.0", "11.5", "5", "")
    assert line("source length", "1-10", "注意力", "chrF") == ("57.5", "57.0", "58.25", "7", "")
    assert line("rarest source word", "1-5", "注意力", "source words") == ("11.75", "", "", "31", "")
    sharpest = "entropy of the weights", "sharpest", "注意力", "BLEU"
    assert line(*sharpest) == ("60.0", "59.0", "61.5", "50", "to 0.5 bits")
    rate = "repetition and omission", "repeated bigrams", "distracted (C at every step)", "rate"
    assert line(*rate) == ("0.5", "0.4375", "0.5625", "70", "")
    assert line("agreement of links", "注意力", "mean of states", "F1") == ("0.25", "", "", "", "")
    where = all_values["results.json"]["where"]
    groups = sum(group is not None for table in where["breakdowns"] for arm in table["arms"].values() for group in arm)
    rates = sum(rate is not None for table in where["rates"] for arm in table["arms"].values() for rate in arm)
    bands, agreements = 3 * 2, 3  # the mean source length of a band is not known
    assert len(lines) == 2 * bands + 3 * groups + rates + agreements


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
def test_special_characters_of_latex_are_escaped(text, latex):
    assert escape_latex(text) == latex
