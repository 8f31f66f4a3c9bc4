"""`evaluate`: scores of a run, and of any system's output."""

import json
import subprocess
import sys

import pytest
import sacrebleu

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


def test_files_get_the_scores_of_sacrebleu_with_its_signatures(program, good):
    scores = json.loads(program("evaluate", *good, "--json").out)
    assert scores["bleu"]["value"] == pytest.approx(sacrebleu.corpus_bleu(GOOD, [REFERENCES]).score)
    assert scores["chrf"]["value"] == pytest.approx(sacrebleu.corpus_chrf(GOOD, [REFERENCES]).score)
    assert scores["ter"]["value"] == pytest.approx(sacrebleu.corpus_ter(GOOD, [REFERENCES]).score)
    assert scores["exact_match"]["value"] == pytest.approx(100 / 3)
    text = program("evaluate", *good).out
    for name in ("bleu", "chrf", "ter", "exact_match"):
        assert scores[name]["signature"] in text
        assert f"{scores[name]['value']:.2f}" in text


def test_sources_add_the_first_metric_by_length(program, good, files):
    bands = json.loads(program("evaluate", *good, "--source", files / "bad", "--json").out)["by_length"]
    assert bands == [{"low": 1, "high": 10, "sentences": 3, "score": pytest.approx(sacrebleu_of(GOOD))}]


def test_chosen_metrics_are_computed_and_the_first_one_is_that_of_the_difference(program, good, files):
    chosen = "--metrics", "wer", "--metrics", "bleu"
    scores = json.loads(program("evaluate", *good, *chosen, "--baseline", files / "bad", "--json").out)
    assert list(scores)[:2] == ["wer", "bleu"]
    assert scores["difference"]["signature"].startswith("nrefs:1|bs:1000|seed:12345|case:mixed|unit:word|")
    assert "WER difference" in program("evaluate", *good, *chosen, "--baseline", files / "bad").out
    found = program("evaluate", *good, "--metrics", "blue")
    assert found.code == 2
    assert "did you mean 'bleu'" in found.err


def sacrebleu_of(hypotheses):
    return sacrebleu.corpus_bleu(hypotheses, [REFERENCES]).score


def test_a_baseline_adds_the_difference_with_its_interval(program, good, files):
    pair = json.loads(program("evaluate", *good, "--baseline", files / "bad", "--json").out)["difference"]
    assert pair["difference"] == pytest.approx(sacrebleu_of(GOOD) - sacrebleu_of(BAD))
    assert pair["low"] < pair["difference"] < pair["high"]
    shown = program("evaluate", *good, "--baseline", files / "bad").out
    assert f"{pair['difference']:+.2f}" in shown
    # Three sentences, all in favor of one system: 2 of the 8 sign patterns are as extreme.
    assert "approximate randomization p = 0.2" in shown


def test_lowercased_references_add_the_bleu_of_that_flavour(program, tmp_path):
    (tmp_path / "hypotheses").write_text("Zwei Hunde, die im Schnee spielen.\n")
    (tmp_path / "references").write_text("Zwei Hunde, die im Schnee rennen.\n")
    (tmp_path / "lc").write_text("zwei hunde , die im schnee spielen .\n")
    scores = program(
        "evaluate", "--hypotheses", tmp_path / "hypotheses", "--references", tmp_path / "references",
        "--lc-tok", tmp_path / "lc", "--language", "de", "--json",
    )  # fmt: skip
    scores = json.loads(scores.out)
    assert scores["bleu_lc_tok"]["value"] == pytest.approx(100)
    assert scores["bleu"]["value"] < 90


def test_several_references_and_case(program, good, files):
    both = json.loads(program("evaluate", *good, "--references", files / "bad", "--json").out)
    for key, score in {
        "bleu": sacrebleu.corpus_bleu,
        "chrf": sacrebleu.corpus_chrf,
        "ter": sacrebleu.corpus_ter,
    }.items():
        assert both[key]["value"] == pytest.approx(score(GOOD, [REFERENCES, BAD]).score)
        assert both[key]["signature"].startswith("nrefs:2|")
    (files / "references").write_text("".join(f"{line.upper()}\n" for line in REFERENCES))
    scores = json.loads(program("evaluate", *good, "--lowercase", "--json").out)
    assert scores["bleu"]["value"] == pytest.approx(sacrebleu_of(GOOD))
    assert "|case:lc|" in scores["bleu"]["signature"]


def test_a_single_sentence_has_a_difference_and_no_test(program, tmp_path):
    for name, line in {"h": GOOD[0], "r": REFERENCES[0], "b": BAD[0]}.items():
        (tmp_path / name).write_text(f"{line}\n")
    arguments = ["--hypotheses", tmp_path / "h", "--references", tmp_path / "r", "--baseline", tmp_path / "b"]
    shown = program("evaluate", *arguments).out.splitlines()[-1]
    assert shown.startswith("BLEU difference")
    assert shown.endswith("a single sentence decides nothing: there is no interval and no p-value; give more")


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
    assert "evaluate takes RUN and --plugin; or --hypotheses FILE and --references" in refused("evaluate", *given)


def test_files_of_different_lengths_are_refused_with_both_counts(refused, good, tmp_path):
    (tmp_path / "short").write_text("one\ntwo\n")
    for option in ("--source", "--lc-tok", "--baseline"):
        message = refused("evaluate", *good, option, tmp_path / "short")
        assert "short has 2 lines" in message
        assert "references has 3" in message


def test_an_unknown_tokenizer_names_its_neighbor(refused, good):
    assert "'13a'" in refused("evaluate", *good, "--tokenize", "13b")


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
