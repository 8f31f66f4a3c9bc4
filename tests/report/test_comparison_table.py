"""The comparison table, for the terminal and as Markdown: cells computed by hand."""

import io
import re

import pytest
from rich.console import Console

from seq2seq_attn.report.charts import breakdown_chart
from seq2seq_attn.report.table import markdown, terminal
from seq2seq_attn.results.results import Results


def shown(results, width):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(terminal(results, width))
    return console.file.getvalue()


@pytest.fixture
def load(values, write):
    """A function that loads the results after a change of the JSON values."""

    def load(change=lambda results: None):
        change(values["results.json"])
        return Results.load(write(values) / "results.json")

    return load


def tables(text):
    """Each table before the breakdowns as lists of cells: header, rule, rows."""
    found = re.findall(r"(?:^\|.*\n)+", text.partition("## Where the arms differ")[0], re.MULTILINE)
    return [[re.split(r" (?<!\\)\| ", line[2:-2]) for line in table.splitlines()] for table in found]


def table_rows(text):
    """The cells of each line, the tables beside each other: header, rule, rows."""
    first, *others = tables(text)
    return [sum((part[place][1:] for part in others), row) for place, row in enumerate(first)]


def test_markdown_cells_equal_those_computed_by_hand(load):
    header, rule, *rows = table_rows(markdown(load()))
    assert header == [
        "Arm", "BLEU", "AER", "Difference", "p", "1-10", "11+", "Training",
        "Parameters", "Detectable", "chrF difference", "chrF", "TER", "Exact", "Entropy", "Perplexity",
        "95 %", "95 % sentences", "95 % seeds", "Tokens/s",
    ]  # fmt: skip
    assert rule == ["---"] + ["---:"] * 19
    assert rows == [
        ["distracted (C at every step)", "20.0 ± 0.5", "–", "baseline", "", "40.0", "12.3", "59 s",
         "1,234,567", "", "", "31.0 ± 0.4", "71.0 ± 1.2", "1.2 ± 0.2", "–", "9.50 ± 0.30",
         "[17.6, 22.5]", "[18.9, 21.1]", "[15.5, 24.6]", "5,100"],
        ["mean of states", "18.0 ± 0.3", "0.800 ± 0.000", "-2.0 [-4.2, +0.1]", "0.062", "38.0", "10.0", "2.5 min",
         "999", "–", "–", "30.0 ± 0.5", "72.0 ± 0.6", "–", "3.25 ± 0.00", "8.75 ± 0.20",
         "–", "[17.0, 19.0]", "[15.3, 20.7]", "5,000"],
        ["注意力", "45.3 ± 0.8", "0.123 ± 0.013", "+25.2 [+22.5, +27.9]", "0.004", "47.5", "44.4", "2.0 h",
         "2,000,000", "4.1", "+24.5 [+23.0, +26.0]", "55.5 ± 0.2", "40.1 ± 0.9", "30.5 ± 2.0", "0.88 ± 0.10",
         "3.12 ± 0.05", "–", "[44.0, 46.5]", "[38.5, 52.0]", "3,215"],
    ]  # fmt: skip


def test_a_table_in_markdown_has_at_most_nine_columns_and_all_but_the_first_are_folded(load):
    text = markdown(load())
    assert [len(rows[0]) for rows in tables(text)] == [8, 9, 5]
    assert len(tables(text.partition("<details>")[0])) == 1


def test_the_terminal_shows_at_most_eight_columns_and_no_signatures(load):
    text = shown(load(), 400)
    assert text.splitlines()[2].split() == ["Arm", "BLEU", "AER", "Difference", "p", "1-10", "11+", "Training"]
    assert "higher is better; 12 test sentences, mean over 2 seeds ± standard deviation" in text
    assert "Signature" not in text
    assert "commit" not in text


def test_the_notes_explain_the_columns_and_give_the_provenance(load):
    text = " ".join(markdown(load()).split())
    assert "Seeds: 1, 2 " in text
    assert "Signature of BLEU: nrefs:1|case:mixed|tok:zh" in text
    assert "Signature of chrF: nc:6" in text
    assert "Signature of p: ar:10000" in text
    assert "corrected for 2 comparisons (Holm)" in text
    assert "seq2seq_attn 0.1.0, commit abc1234, on two cores" in text


def test_the_terminal_shows_the_same_numbers_as_the_first_table_in_markdown(load):
    text = shown(load(), 230)
    for row in tables(markdown(load()))[0][2:]:
        for cell in row[1:]:
            for number in re.findall(r"[-+]?[\d,.]*\d", cell):
                assert number in text


@pytest.mark.parametrize("width", [120, 100, 80, 60, 40])
def test_no_number_is_truncated_in_a_narrow_terminal(load, width):
    text = shown(load(), width)
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= width
    for cell in ("± 0.8", "[+22.5, +27.9]", "0.004", "44.4", "0.123", "± 0.013", "2.5 min"):
        assert cell in text


def test_names_of_arms_are_printed_verbatim(load):
    def rename(results):
        name = "a|b [bold]c[/bold] <i>d</i> < 1"
        results["by_length"]["arms"][name] = results["by_length"]["arms"].pop(results["arms"][1]["name"])
        results["arms"][1]["name"] = results["comparisons"][0]["arm"] = name

    results = load(rename)
    assert "a|b [bold]c[/bold]" in shown(results, 120)
    assert r"| a\|b [bold]c[/bold] \<i>d\</i> < 1 | 18.0 ± 0.3 |" in markdown(results)


def test_one_seed_has_no_standard_deviation(load):
    def single(results):
        for arm in results["arms"]:
            arm["seeds"] = [7]

    text = markdown(load(single))
    assert "±" not in "".join(line for line in text.splitlines() if line.startswith("|"))
    assert "Seeds: 7" in text


def test_seeds_that_differ_between_arms_are_listed_by_arm(load):
    def another(results):
        results["arms"][1]["seeds"] = [1, 2, 3]

    assert "Seeds: distracted (C at every step): 1, 2; mean of states: 1, 2, 3; 注意力: 1, 2" in markdown(load(another))


def test_the_main_metric_comes_first_with_its_own_name_digits_and_meaning(load):
    def another(results):
        chrf, *others = results["metrics"][1], results["metrics"][0], *results["metrics"][2:]
        results["metrics"] = [chrf | {"digits": 3}, *others]
        for arm in results["arms"]:
            arm["scores"]["chrf"] |= {"low": 29.0, "high": 56.0}
        results["comparisons"] = []

    text = markdown(load(another))
    header, _, *rows = table_rows(text)
    assert (header[1], rows[2][1]) == ("chrF", "55.500 ± 0.200")
    assert "- chrF: F2 of character n-grams, higher is better; mean over seeds ± standard deviation" in text
    assert "chrF of the sentences with this many source words" in text


def test_the_first_length_that_is_shown_explains_all_of_them(load):
    def another(results):
        for groups in results["by_length"]["arms"].values():
            groups[0]["sentences"] = 1  # too few to be shown beside the others

    shown, hidden = markdown(load(another)).split("<details>")
    assert "of the sentences with this many source words" in shown
    assert "of the sentences with this many source words" not in hidden


def without(*keys):
    """A change that removes scores in these metrics, and the speed, from all arms."""

    def change(results):
        for arm in results["arms"]:
            arm.pop("tokens_per_second")
            for key in keys:
                arm["scores"].pop(key, None)

    return change


@pytest.mark.parametrize(
    ("change", "absent"),
    [
        (without("aer"), {"AER", "Tokens/s"}),
        (without("perplexity", "attention_entropy"), {"Entropy", "Perplexity", "Tokens/s"}),
        (lambda results: results.update(comparisons=[]), {"Difference", "p", "Detectable", "chrF difference"}),
    ],
)
def test_what_is_not_known_of_any_arm_has_no_column(load, change, absent):
    before, after = (set(table_rows(markdown(results))[0]) for results in (load(), load(change)))
    assert before - after == absent


def test_a_metric_of_one_arm_has_a_column(load):
    def one(results):
        lowercased = results["metrics"][0] | {"key": "bleu_lc_tok", "label": "BLEU lc"}
        results["metrics"] = [results["metrics"][0], lowercased, *results["metrics"][1:]]
        results["arms"][2]["scores"]["bleu_lc_tok"] = {"mean": 46.04, "std": 0.26}

    rows = table_rows(markdown(load(one)))
    assert [row[2] for row in rows] == ["BLEU lc", "---:", "–", "–", "46.0 ± 0.3"]


def test_widened_arms_are_named_with_their_size(load):
    assert "widened" not in markdown(load())

    def match(results):
        results["arms"][0]["matched_hidden_size"], results["arms"][1]["matched_hidden_size"] = 145, 208

    note = "widened to match the largest arm: distracted (C at every step) to 145, mean of states to 208\n"
    assert note in markdown(load(match))


def test_the_training_of_an_arm_that_still_improved_is_marked(load):
    header, _, *rows = table_rows(markdown(load(lambda results: results["arms"][1].update(unconverged=[2]))))
    assert [row[header.index("Training")] for row in rows] == ["59 s", "2.5 min still improving", "2.0 h"]


@pytest.mark.parametrize(("p", "cell"), [(0.0, "< 0.001"), (0.00099, "< 0.001"), (0.001, "0.001"), (1.0, "1.000")])
def test_a_p_value_is_never_rounded_to_zero(load, p, cell):
    def change(results):
        results["comparisons"][0]["randomization"]["p_holm"] = p

    assert table_rows(markdown(load(change)))[3][4] == cell


@pytest.mark.parametrize(("seconds", "cell"), [(0.4, "0 s"), (60, "1.0 min"), (3599, "60.0 min"), (3600, "1.0 h")])
def test_the_unit_of_training_time_depends_on_its_size(load, seconds, cell):
    def change(results):
        results["arms"][0]["train_seconds"] = seconds

    assert table_rows(markdown(load(change)))[2][7] == cell


def test_the_score_of_a_single_sentence_has_no_interval(all_values, write):
    """Its resamples are all the same."""
    group = all_values["results.json"]["where"]["breakdowns"][0]["arms"]["注意力"][0]
    group.update(sentences=4, sources=1)
    for score in group["scores"].values():
        score.update(low=score["value"], high=score["value"])
    results = Results.load(write(all_values) / "results.json")
    assert "| 注意力 | 30.0 chrF 41.5 | 40.0 [39.0, 41.5], chrF 50.0 [49.5, 50.8] |" in markdown(results)
    chart = breakdown_chart(results, results.where.breakdowns[0])
    texts = [value.text for series in chart.series for value in series.values if series.name == "注意力"]
    assert ["95 %" in text for text in texts] == [False, True]


def test_markdown_has_one_table_per_breakdown(all_values, write):
    text = markdown(Results.load(write(all_values) / "results.json")).partition("## Where the arms differ")[2]
    assert re.findall(r"^### (.*)$", text, re.MULTILINE) == [
        "Source length", "Rarest source word", "Entropy of the weights", "Repetition and omission",
        "Agreement of links",
    ]  # fmt: skip
    for row in (
        "| Arm | 1-10 (7) | 11+ (5) |",
        "| Arm | 1-5 (31 of 12 words) | 51+ (1,230 of 8 words) |",
        "| 注意力 | 30.0 [29.0, 31.5], chrF 41.5 [41.0, 42.2] | 40.0 [39.0, 41.5], chrF 50.0 [49.5, 50.8] |",
        "| 注意力 | 60.0 [59.0, 61.5], chrF 62.0 [61.5, 62.8]; to 0.5 bits: 50 of 6 words | – |",
        "| mean of states | – | 90.0 % [83.8, 96.2] |",
        "| 注意力 | 25.0 | 87.5 |",
    ):
        assert row.rstrip("|") in text


def test_the_agreement_of_the_links_of_many_arms_is_in_tables_of_nine_columns(all_values, write):
    results = all_values["results.json"]
    arms = [f"arm {number}" for number in range(12)]
    first, *_ = results["arms"]
    groups = next(iter(results["by_length"]["arms"].values()))
    results |= {"arms": [first | {"name": arm} for arm in arms], "comparisons": [], "contrasts": []}
    results["by_length"]["arms"] = dict.fromkeys(arms, groups)
    rates = [[row * 12 + column for column in range(12)] for row in range(12)]
    agreement = {"arms": arms, "f1": [[rate / 1000 for rate in row] for row in rates]}
    results["where"] = {"breakdowns": [], "rates": [], "agreement": agreement}
    text = markdown(Results.load(write(all_values) / "results.json")).partition("### Agreement of links")[2]
    found = [each.splitlines() for each in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]
    assert [rows[0] for rows in found] == [
        "| Arm | " + " | ".join(part) + " |" for part in (arms[:8], arms[8:])
    ]  # fmt: skip
    for row, arm in enumerate(arms):
        cells = [cell for rows in found for cell in rows[2 + row].split(" | ")[1:]]
        assert [cell.removesuffix(" |") for cell in cells] == [f"{rate / 10:.1f}" for rate in rates[row]]
        assert all(rows[2 + row].startswith(f"| {arm} |") for rows in found)


def test_a_table_without_anything_learned_has_no_p_value(load):
    def untrained(results):
        for arm in results["arms"]:
            arm["scores"]["bleu"] |= {"mean": 0.9, "low": 0.8, "high": 1.0}

    text = markdown(load(untrained))
    assert not {"p", "Detectable"} & set(table_rows(text)[0])
    assert "- No arm has 1 BLEU or more: nothing was learned" in text
    assert "Signature of p" not in text
