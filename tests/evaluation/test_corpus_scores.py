"""Scores are sacrebleu's, and the preprocessing is that of the Moses scripts."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import sacrebleu
from counted import bleu, character_errors, chrf, exact_match, expected, ter, word_errors
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer

from seq2seq_attn import __version__, evaluation
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation import corpus_scores
from seq2seq_attn.evaluation.corpus_scores import (
    Expected,
    comet,
    default_tokenizer,
    lc_norm_tok,
    sentence_comet,
    tokenizer_remark,
)
from seq2seq_attn.evaluation.counts import chrf_counting
from seq2seq_attn.evaluation.metrics import METRICS, score_translations, with_given_files

EVERY_METRIC = [bleu, chrf, ter, exact_match, word_errors, character_errors]
EVERY_MODULE = [path.stem for path in Path(evaluation.__file__).parent.glob("[a-z]*.py")]


def test_the_same_lines_are_kept_once_however_often_they_are_scored():
    """sacrebleu's tokenizers cache lines by tokenizer and line, and keep both."""
    caches = TercomTokenizer.__call__, Tokenizer13a.__call__
    lines = ["a line that no other test has"] * 3

    def kept():
        ter(lines, lines)
        bleu(lines, lines)
        return [cache.cache_info().currsize for cache in caches]

    assert kept() == kept()


def test_bleu_chrf_and_ter_equal_sacrebleus_command(references, spoil, sacrebleu_command):
    hypotheses = spoil(references, 0.3, seed=2)
    hypotheses[4] = ""
    printed = sacrebleu_command(references, [hypotheses], "-m", "bleu", "chrf", "ter", "-w", "10")
    for score, theirs in zip([f(hypotheses, references) for f in (bleu, chrf, ter)], printed, strict=True):
        assert score.value == pytest.approx(theirs["score"], abs=1e-9)
        assert score.signature == theirs["signature"]
        assert score.signature.endswith(f"version:{sacrebleu.__version__}")


def test_the_chinese_tokenizer_splits_into_characters():
    # 2-grams and up of "汤姆追逐杰瑞" against "汤姆追赶杰瑞": one character of six differs.
    assert bleu(["汤姆追逐杰瑞"], ["汤姆追赶杰瑞"], tokenize="zh").signature.split("|")[3] == "tok:zh"
    characters = bleu(["汤姆追逐杰瑞"], ["汤姆追赶杰瑞"], tokenize="zh").value
    # precisions 5/6, 3/5, 1/4 and, smoothed, half of 1/3
    assert characters == pytest.approx(100 * (5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** 0.25)
    assert bleu(["汤姆追逐杰瑞"], ["汤姆追赶杰瑞"]).value == 0


CHINESE = ["汤姆追逐杰瑞", "杰瑞跑进房子", "汤姆看见大老鼠"]


@pytest.mark.parametrize(
    ("language", "tokenize"),
    [
        ("en", "13a"), ("de", "13a"), ("vi", "13a"), ("zh", "zh"), ("yue", "zh"),
        *((code, "char") for code in ("th", "km", "lo", "my")),
    ],
)  # fmt: skip
def test_the_default_tokenizer_is_that_of_the_language(language, tokenize):
    assert default_tokenizer(language) == tokenize
    assert tokenizer_remark(tokenize, language) is None


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_japanese_and_korean_words_are_counted_where_their_package_is_installed(language, monkeypatch):
    default_tokenizer.cache_clear()
    monkeypatch.setattr(corpus_scores, "require_tokenizer", lambda name: None)
    assert default_tokenizer(language) == f"{language}-mecab"
    assert tokenizer_remark(f"{language}-mecab", language) is None
    default_tokenizer.cache_clear()

    def missing(name):
        raise UserError("no package")

    monkeypatch.setattr(corpus_scores, "require_tokenizer", missing)
    assert default_tokenizer(language) == "char"
    assert f"pip install sacrebleu[{language}]" in tokenizer_remark("char", language)
    default_tokenizer.cache_clear()


def test_a_tokenizer_that_sees_no_words_in_a_language_is_remarked_upon():
    spoilt = [line.replace("杰", "大") for line in CHINESE]
    assert bleu(spoilt, CHINESE, "13a").value == 0
    assert bleu(spoilt, CHINESE, default_tokenizer("zh")).value > 30
    assert "evaluation.tokenize=zh is meant for it" in tokenizer_remark("13a", "zh")
    assert tokenizer_remark("none", "zh") is None, "its words may be separated in the files"


def test_several_references_count_as_in_sacrebleu(references, spoil, sacrebleu_command):
    hypotheses, second = spoil(references, 0.3, seed=2), spoil(references, 0.2, seed=3)
    for metric, score in (
        (sacrebleu.corpus_bleu, bleu),
        (sacrebleu.corpus_chrf, chrf),
        (sacrebleu.corpus_ter, ter),
    ):
        found = score(hypotheses, [references, second])
        assert found.value == pytest.approx(metric(hypotheses, [references, second]).score)
        assert found.signature.startswith("nrefs:2|")
        assert found.value != score(hypotheses, second).value
    assert exact_match(["a", "b", "c"], [["a", "x", "x"], ["x", "b", "x"]]).value == pytest.approx(200 / 3)
    of_sentences = [
        sacrebleu.sentence_chrf(h, [r, s]).score for h, r, s in zip(hypotheses, references, second, strict=True)
    ]
    counting = chrf_counting(expected([references, second]))
    assert counting.score_sentences(hypotheses) == pytest.approx(of_sentences, rel=1e-14)
    with pytest.raises(UserError, match="3 hypotheses but 2 references"):
        bleu(["a", "b", "c"], [["a", "b", "c"], ["a", "b"]])


def test_a_blank_line_of_a_further_reference_is_a_missing_one():
    hypotheses, first = ["a b c d e f", "x"], ["a b c d e g", "p q r s t"]
    found = bleu(hypotheses, [first, ["a b c d e f", ""]])
    assert found.value == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [first, ["a b c d e f", None]]).score)
    assert found.signature.startswith("nrefs:var|")
    assert exact_match(["", "b"], [["a", "b"], ["", ""]]).value == 50


def test_without_case_scores_are_those_of_lowercased_lines():
    hypotheses, references = ["a cat sat on a mat", "it ran"], ["A cat sat on the Mat", "It ran"]
    lowered = [line.lower() for line in references]
    for score in (bleu, chrf, exact_match, word_errors):
        found = score(hypotheses, references, lowercase=True)
        assert found.value == score(hypotheses, lowered).value != score(hypotheses, references).value
        assert "|case:lc|" in found.signature
    found = chrf_counting(expected(references, lowercase=True)).score_sentences(hypotheses)
    assert found == chrf_counting(expected(lowered)).score_sentences(hypotheses)


def test_an_exact_match_ignores_blanks_at_both_ends():
    score = exact_match(["Tom runs.", "Tom runs. ", "tom runs.", "Tom  runs.", ""], ["Tom runs."] * 4 + [""])
    assert score.value == 60
    assert score.signature == f"nrefs:1|case:mixed|strip:yes|version:seq2seq_attn-{__version__}"


@pytest.mark.parametrize("metric", EVERY_METRIC)
def test_lines_without_their_reference_and_no_lines_are_refused(metric):
    with pytest.raises(UserError, match="3 hypotheses but 2 references"):
        metric(["a", "b", "c"], ["a", "b"])
    with pytest.raises(UserError, match="nothing to score"):
        metric([], [])


@pytest.mark.parametrize("metric", EVERY_METRIC)
def test_empty_hypotheses_get_the_worst_score(metric):
    worst = 100 if metric in (ter, word_errors, character_errors) else 0
    assert metric(["", ""], ["Tom chases Jerry.", "Jerry runs."]).value == worst


def test_an_unknown_tokenizer_is_refused_with_the_nearest_name():
    with pytest.raises(UserError, match="'13'; did you mean '13a'"):
        bleu(["a"], ["a"], tokenize="13")


def test_a_tokenizer_whose_package_is_missing_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    with pytest.raises(UserError, match=r"'ja-mecab' cannot be used: .* pip install sacrebleu\[ja\]$"):
        bleu(["a"], ["a"], tokenize="ja-mecab")


def test_bleu_warns_about_tokenized_lines_unless_they_are_expected(caplog):
    lines = ["Tom chases Jerry ."] * 100
    with caplog.at_level(logging.WARNING, logger="sacrebleu"):
        bleu(lines, lines, tokenize="none")
        assert not caplog.records
        bleu(lines, lines)
        assert "forgot to detokenize" in caplog.text


def test_scoring_never_imports_torch_and_the_package_alone_no_library():
    imports = "; ".join(f"import seq2seq_attn.evaluation.{module}" for module in EVERY_MODULE)
    libraries = {"sacrebleu", "sacremoses", "numpy", "scipy"}
    code = f"import sys, seq2seq_attn.evaluation; assert not {libraries} & set(sys.modules); {imports}"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], check=True)


@pytest.mark.parametrize(
    ("language", "raw", "processed"),
    [
        ("de", "Ein Junge im T-Shirt fährt Ski.", "ein junge im t-shirt fährt ski ."),
        ("de", "Er läuft , (sehr) schnell!", "er läuft , ( sehr ) schnell !"),
        ("de", "Ein Hund namens „Rex“ bellt.", "ein hund namens &quot; rex &quot; bellt ."),
        ("de", "Auf dem Schild steht: „Halt.“", "auf dem schild steht : &quot; halt &quot; ."),
        ("de", "Toms Bruder isst bei McDonald's", "toms bruder isst bei mcdonald &apos; s"),
        ("en", "A boy's dog runs.", "a boy &apos;s dog runs ."),
        ("en", 'A ship named "Sun" sails.', "a ship named &quot; sun &quot; sails ."),
        ("en", "5,000 people & one cat…", "5,000 people &amp; one cat ..."),
        ("en", "", ""),
    ],
)
def test_a_raw_line_is_processed_as_by_the_moses_scripts(language, raw, processed):
    assert lc_norm_tok(raw, language) == processed


def lc_tok(translations, lines):
    return METRICS["bleu_lc_tok"].score(translations, Expected([lines], language="de", lc_tok=lines))


def test_raw_output_equal_to_the_processed_reference_scores_100_and_its_signature_says_how():
    hypotheses = ["Ein Hund namens „Rex“ bellt.", "Zwei Männer, beide im T-Shirt, laufen."]
    references = [
        "ein hund namens &quot; rex &quot; bellt .",
        "zwei männer , beide im t-shirt , laufen .",
    ]
    score = lc_tok(hypotheses, references)
    assert score.value == pytest.approx(100)
    assert bleu(hypotheses, references).value < 60
    plain, steps = score.signature.split("|hyp:")
    assert plain == bleu(references, references, tokenize="none", lowercase=True).signature
    assert "tok:none" in plain
    assert steps.startswith("lowercase+moses-normalize+moses-tokenize.de|sacremoses:")
    with pytest.raises(UserError, match="1 hypotheses but 2 references"):
        lc_tok(["Ja."], ["ja .", "nein ."])


@pytest.fixture
def comet_package(monkeypatch, tmp_path):
    """A stand-in for `unbabel-comet`: its model scores a translation by the share of words that the reference has."""

    class Model:
        def predict(self, rows, progress_bar):
            predicted.append(len(rows))
            assert all(row.keys() == {"src", "mt", "ref"} for row in rows)
            assert all(row["src"] == f"source of {row['ref']}" for row in rows)
            shares = [len({*row["mt"].split()} & {*row["ref"].split()}) / len(row["ref"].split()) for row in rows]
            return SimpleNamespace(scores=shares, system_score=sum(shares) / len(shares))

    loaded, predicted = [], []

    def load_from_checkpoint(path):
        loaded.append(path)
        return Model()

    monkeypatch.setitem(sys.modules, "comet", SimpleNamespace(load_from_checkpoint=load_from_checkpoint))
    monkeypatch.setattr(corpus_scores, "version", lambda name: {"unbabel-comet": "2.2"}[name])
    corpus_scores._comet_model.cache_clear()
    path = tmp_path / "wmt22.ckpt"
    path.touch()
    yield path, loaded, predicted
    corpus_scores._comet_model.cache_clear()


def test_comet_scores_sentences_with_a_local_model_that_is_loaded_once_and_reads_them_once(comet_package):
    path, loaded, predicted = comet_package
    for _ in range(2):
        score = comet(["a b", "c"], Expected([["a x", "c d e f"]], ["source of a x", "source of c d e f"], comet=path))
        assert score.value == pytest.approx(100 * (1 / 2 + 1 / 4) / 2)
    assert score.signature == "model:wmt22|scale:100|version:unbabel-comet-2.2"
    assert loaded == [str(path)]
    of_lines = sentence_comet(
        ["a b", "c"], Expected([["a x", "c d e f"]], ["source of a x", "source of c d e f"], comet=path)
    )
    assert of_lines.values == pytest.approx([50, 25])
    assert predicted == [2]
    other = Expected([["a x", "c d e f"]], ["source of a x", "source of c d e f"], comet=path)
    assert comet(["a b", "c d"], other).value == pytest.approx(100 * (1 / 2 + 1 / 2) / 2)


def test_a_missing_comet_model_or_package_is_refused_with_the_way_out(tmp_path, monkeypatch):
    def score(name):
        return comet(["a"], Expected([["a"]], ["s"], comet=tmp_path / name))

    with pytest.raises(UserError, match=r"evaluation\.comet is the path of a COMET checkpoint"):
        score("missing.ckpt")
    (tmp_path / "m.ckpt").touch()
    with pytest.raises(UserError, match="pip install unbabel-comet"):
        score("m.ckpt")
    monkeypatch.setattr(corpus_scores, "version", lambda name: "2.2")  # installed, but something that it needs is not
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(UserError, match=r"COMET cannot be used \("):
        score("m.ckpt")


def test_comet_is_a_metric_where_sources_and_a_model_are_given(comet_package):
    path, *_ = comet_package
    lines = ["a b c d e"]
    for test, has_comet in ((Expected([lines]), False), (Expected([lines], ["source of a b c d e"], comet=path), True)):
        scores = score_translations(lines, test, with_given_files([METRICS["bleu"]], test))
        assert scores.keys() == ({"bleu", "comet"} if has_comet else {"bleu"})
    assert scores["comet"]["value"] == 100
