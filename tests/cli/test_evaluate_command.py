"""`evaluate`: scores of a run, and of any system's output."""

import csv
import json
import subprocess
import sys

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.files.plain import to_json

REFERENCES = ["the cat sat on the mat", "a dog ran to the big house", "they saw it there at once"]
GOOD = ["the cat sat on a mat", "a dog ran to the big house", "they saw it here at once"]
BAD = ["the cat is on a mat", "one dog went to a house", "they see it"]


@pytest.fixture
def files(tmp_path):
    for name, lines in {"references": REFERENCES, "good": GOOD, "bad": BAD}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


@pytest.fixture
def good(files):
    return ["--hypotheses", files / "good", "--references", files / "references"]


def test_a_run_is_scored_on_its_own_test_set(program, trained, toy):
    answer = program("evaluate", trained)
    assert answer.code == 0
    translations = (trained / "test.translations.txt").read_text()
    assert translations == program("translate", trained, toy / "test.src").out
    scores = json.loads((trained / "metrics.json").read_text())["test"]
    assert json.loads(program("evaluate", trained, "--json").out) == scores
    gold = [toy / "test.src", toy / "test.tgt", "--gold", toy / "test.align", "--json"]
    assert scores["aer"] == json.loads(program("align", trained, *gold).out)["aer"]
    assert next((band["low"], band["high"]) for band in scores["by_length"]) == (1, 2)
    for shown in ("BLEU ", "chrF2 ", "TER ", "AER ", f"{scores['aer']:.3f}", scores["bleu"]["signature"]):
        assert shown in answer.out


def test_options_are_the_arguments_of_the_function(program, good, files):
    options = [
        "--references", files / "bad", "--source", files / "bad", "--baseline", files / "bad",
        "--lc-tok", files / "good", "--metrics", "wer", "--metrics", "bleu",
        "--lowercase", "--tokenize", "char", "--language", "de",
    ]  # fmt: skip
    found = json.loads(program("evaluate", *good, *options, "--json").out)
    expected = s2s.evaluate(
        GOOD, [REFERENCES, BAD], source=BAD, baseline=BAD, lc_tok=GOOD,
        metrics=["wer", "bleu"], lowercase=True, tokenize="char", language="de",
    )  # fmt: skip
    assert found == json.loads(to_json(expected))
    assert {"wer", "bleu", "bleu_lc_tok", "by_length", "difference", "randomization"} <= set(found)


def test_runs_are_repeated_options_and_the_scores_of_lines_a_table(program, good, files):
    options = [*good, "--hypotheses", files / "bad", "--per-line", files / "lines.tsv"]
    answer = json.loads(program("evaluate", *options, "--json").out)
    expected = s2s.evaluate([files / "good", files / "bad"], REFERENCES, per_line=True)
    assert answer == json.loads(to_json(expected))
    with (files / "lines.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [{key: str(value) for key, value in line.items()} for line in expected["per_line"]["lines"]] == rows
    assert "BLEU per line" in program("evaluate", *options).out


@pytest.mark.parametrize("option", ["--hypotheses", "--references", "--source", "--baseline", "--lc-tok"])
def test_scores_of_lines_replace_no_file_that_is_read(refused, good, tmp_path, option):
    (tmp_path / "own").write_text("a\n")
    (tmp_path / "link").symlink_to(tmp_path / "own")
    assert "own" in refused("evaluate", *good, option, tmp_path / "link", "--per-line", tmp_path / "own")
    assert (tmp_path / "own").read_text() == "a\n"


def test_the_lines_of_a_run_are_scored_and_not_kept_in_its_scores(program, trained):
    answer = json.loads(program("evaluate", trained, "--per-line", trained.parent / "lines.tsv", "--json").out)
    scores = json.loads((trained / "metrics.json").read_text())["test"]
    assert {key: value for key, value in answer.items() if key != "per_line"} == scores
    translations = (trained / "test.translations.txt").read_text().splitlines()
    matches = [line["exact_match"] for line in answer["per_line"]["lines"]]
    assert len(matches) == len(translations)
    assert sum(matches) / len(matches) == pytest.approx(scores["exact_match"]["value"])


def test_files_are_scored_without_torch(files):
    arguments = ["evaluate", "--hypotheses", str(files / "good"), "--references", str(files / "references")]
    script = f"""
import sys
from seq2seq_attn.cli import main
try:
    main({arguments})
finally:
    assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["run", "--hypotheses", "h"],
        ["--hypotheses", "h"],
        ["run", "--baseline", "b"],
        ["--links", "l"],
        ["--links", "l", "--gold", "g", "--per-line", "f"],
        ["--links", "l", "--gold", "g", "--references", "r"],
        ["--links", "l", "--gold", "g", "--tokenize", "zh"],
        ["run", "--tokenize", "zh"],
        ["run", "--language", "de"],
        ["run", "--lowercase"],
        ["run", "--first-word", "0"],
        ["--hypotheses", "h", "--references", "r", "--first-word", "1"],
        ["--hypotheses", "h", "--references", "r", "--plugin", "missing.py"],
    ],
)
def test_either_a_run_or_files(refused, given):
    assert "evaluate takes RUN, --plugin and --per-line; or --hypotheses FILE" in refused("evaluate", *given)


@pytest.mark.parametrize(
    ("option", "value", "neighbor"), [("--tokenize", "13b", "'13a'"), ("--metrics", "blue", "'bleu'")]
)
def test_an_unknown_name_has_its_neighbor(refused, good, option, value, neighbor):
    assert neighbor in refused("evaluate", *good, option, value)


def test_gold_that_counts_words_from_1_is_refused_unless_told(program, refused, tmp_path):
    files = {"links": "0-0 1-1\n1-0\n", "gold": "1-1 2p2\n2-1\n", "zero": "0-0 1p1\n1-0\n", "later": "1-1 2-2\n2-1\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    def given(gold, *more, links="links"):
        return "evaluate", "--links", tmp_path / links, "--gold", tmp_path / gold, *more

    message = refused(*given("gold"))
    assert "seems to count words from 1" in message
    assert "--first-word 1" in message
    shifted = program(*given("gold", "--first-word", 1))
    assert (shifted.code, shifted.out) == (0, program(*given("zero")).out)
    assert program(*given("gold", "--first-word", 0)).out != shifted.out
    assert program(*given("gold", links="later")).code == 0, "neither file has a link to a first word"
    assert "has links with word 0" in refused(*given("zero", "--first-word", 1))


def test_comet_needs_the_source_and_its_package(refused, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "comet", None)
    for name in ("ours", "theirs", "source", "model.ckpt"):
        (tmp_path / name).write_text("a b c d\n")
    files = "--hypotheses", tmp_path / "ours", "--references", tmp_path / "theirs", "--comet", tmp_path / "model.ckpt"
    assert "give them as the source" in refused("evaluate", *files)
    assert "pip install unbabel-comet" in refused("evaluate", *files, "--source", tmp_path / "source")
