"""Scores of the outputs of any system."""

import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import sacrebleu

import seq2seq_attn as s2s
from seq2seq_attn.cli import main
from seq2seq_attn.comparison.arms import Arm, differences
from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import CorpusCounts, bleu_counting

REFERENCES = ["the cat sat on the mat", "a dog ran to the big house", "they saw it there at once"]
GOOD = ["the cat sat on a mat", "a dog ran to the big house", "they saw it here at once"]
BAD = ["the cat is on a mat", "one dog went to a house", "they see it"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, lines in {"references": REFERENCES, "good": GOOD, "bad": BAD}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))


def test_lists_and_files_get_the_scores_of_sacrebleu(files):
    scores = s2s.evaluate(GOOD, REFERENCES)
    for key in ("bleu", "chrf", "ter"):
        expected = getattr(sacrebleu, f"corpus_{key}")(GOOD, [REFERENCES]).score
        assert scores[key]["value"] == pytest.approx(expected)
    assert scores["exact_match"]["value"] == pytest.approx(100 / 3)
    assert s2s.evaluate("good", "references") == s2s.evaluate("good", REFERENCES) == scores
    assert scores.to_records()[0] == {
        "score": "BLEU", "value": scores["bleu"]["value"], "about": scores["bleu"]["signature"],
    }  # fmt: skip


def test_everything_that_is_scored_is_shown_as_the_command_shows_it(files, capsys):
    scores = s2s.evaluate("good", "references", source="bad", baseline="bad")
    options = ["--hypotheses", "good", "--references", "references", "--source", "bad", "--baseline", "bad"]
    with pytest.raises(SystemExit):
        main(["evaluate", *options])
    assert capsys.readouterr().out == f"{scores}\n"
    difference = scores["bleu"]["value"] - sacrebleu.corpus_bleu(BAD, [REFERENCES]).score
    assert f"BLEU difference  {difference:+7.2f}  95 % interval" in repr(scores)
    assert f">{difference:+.2f}</td>" in scores._repr_html_()
    assert "BLEU 1-10" in repr(scores)


def test_lines_with_the_same_source_are_drawn_together(files):
    def compared(**sources):
        return s2s.evaluate(GOOD * 3, REFERENCES * 3, baseline=BAD * 3, **sources)

    together, apart = compared(source=["x", "y", "z"] * 3), compared()
    for test in "difference", "randomization":
        assert together[test]["difference"] == apart[test]["difference"]
        assert ("|sources:3|" in together[test]["signature"], "sources" in apart[test]["signature"]) == (True, False)
    assert together["randomization"]["p_value"] > 2 * apart["randomization"]["p_value"]
    widths = [found["difference"]["high"] - found["difference"]["low"] for found in (together, apart)]
    assert widths[0] > widths[1]


def test_a_model_s_scores_are_shown_in_the_same_way(model):
    scores = model.evaluate()
    assert scores == model.metrics["test"]
    assert f"AER              {scores['aer']:7.3f}  " in repr(scores)


def test_the_language_selects_the_tokenizer_unless_it_is_given():
    lines = ["汤姆追逐杰瑞"], ["汤姆追赶杰瑞"]
    for language in ("zh", "cmn", "Chinese"):
        assert "|tok:zh|" in s2s.evaluate(*lines, language=language)["bleu"]["signature"]
    assert "|tok:none|" in s2s.evaluate(*lines, language="zh", tokenize="none")["bleu"]["signature"]


def test_several_references_are_paths_or_lists(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    for path, lines in zip(paths, (REFERENCES, BAD), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines))
    found = s2s.evaluate(GOOD, paths, source=GOOD, baseline=BAD)
    assert found == s2s.evaluate(GOOD, [REFERENCES, BAD], source=GOOD, baseline=BAD)
    assert found["bleu"]["value"] == pytest.approx(sacrebleu.corpus_bleu(GOOD, [REFERENCES, BAD]).score)
    assert found["by_length"][0]["score"] == found["bleu"]["value"]
    assert found["difference"]["signature"].startswith("nrefs:2|")
    assert found["difference"]["difference"] == pytest.approx(found["bleu"]["value"] - 100)
    with pytest.raises(s2s.UserError, match="references 2 has 1 lines and references 1 has 3"):
        s2s.evaluate(GOOD, [REFERENCES, ["one"]])


@pytest.mark.parametrize("source", [None, ["x"] * 3])
def test_one_sentence_decides_nothing(source):
    """One line, or several with the same source."""
    count = 1 if source is None else 3
    scores = s2s.evaluate(GOOD[:count], REFERENCES[:count], source=source, baseline=BAD[:count])
    assert set(scores["difference"]) == {"difference", "untested"}
    assert "randomization" not in scores
    shown = repr(scores).splitlines()[-1]
    assert "a single sentence decides nothing" in shown
    assert "p =" not in shown


def test_the_language_of_lc_tok_may_be_spelt_in_any_way_but_must_have_rules(files):
    lines = ["L'eau coule ici et là"], ["L'or coule ici et là"]
    lowercased = ["l' eau coule ici et là"]
    scores = [s2s.evaluate(*lines, lc_tok=lowercased, language=name) for name in ("fr", "fra", "French")]
    assert scores[0] == scores[1] == scores[2]
    assert scores[0]["bleu"]["value"] < scores[0]["bleu_lc_tok"]["value"]
    assert "moses-tokenize.fr|" in scores[0]["bleu_lc_tok"]["signature"]
    with pytest.raises(s2s.UserError, match=r"language: the rules of Moses are for .* 'da' is none of them"):
        s2s.evaluate(["a"], ["a"], lc_tok=["a"], language="dan")


@pytest.mark.parametrize("bad", [None, float("nan"), 3])
@pytest.mark.parametrize("name", ["hypotheses", "references", "source", "baseline"])
def test_what_is_not_text_is_named_with_its_line(files, name, bad):
    given = {"hypotheses": ["a", "b"], "references": ["a", "b"], "source": ["a", "b"]} | {name: ["a", bad]}
    with pytest.raises(s2s.UserError, match=rf"{name}, line 2: {bad} is not text"):
        s2s.evaluate(**given)


def test_numbers_of_lines_that_differ_are_named(files):
    with pytest.raises(s2s.UserError, match="hypotheses has 2 lines and references has 3"):
        s2s.evaluate(GOOD[:2], REFERENCES)
    with pytest.raises(s2s.UserError, match="good has 3 lines and references has 2"):
        s2s.evaluate("good", REFERENCES[:2])
    with pytest.raises(s2s.UserError, match="nowhere: no such file"):
        s2s.evaluate("nowhere", "references")


@pytest.fixture(scope="module")
def trained():
    """Three outputs of two systems for forty sentences each, and their references; the second is worse."""
    draw = random.Random(1)
    references = [" ".join(draw.choices("abcdefgh", k=draw.randint(5, 17))) for _ in range(40)]

    def output(rate):
        return [" ".join("x" if draw.random() < rate else word for word in line.split()) for line in references]

    return [output(rate) for rate in (0.2, 0.22, 0.21)], [output(rate) for rate in (0.3, 0.31, 0.33)], references


def test_several_runs_of_two_systems_have_the_joint_test_of_compare(trained):
    ours, theirs, references = trained
    found = s2s.evaluate(ours, references, baseline=theirs)
    each = [sacrebleu.corpus_bleu(run, [references]).score for run in ours]
    assert found["bleu"]["runs"] == pytest.approx(each)
    assert found["bleu"]["value"] == pytest.approx(sum(each) / 3)
    arms = {}
    for name, runs in {"ours": ours, "theirs": theirs}.items():
        begun = [SimpleNamespace(metrics={"initial_weights": name}) for _ in runs]
        data = SimpleNamespace(train="t", longest_training=50)
        training = SimpleNamespace(batch_size=1, batch_unit="sentences")
        config = SimpleNamespace(data=data, text=None, training=training)
        counts = {"bleu": CorpusCounts.of(bleu_counting(Expected([references])), runs)}
        arms[name] = Arm([SimpleNamespace(seed=seed, config=config) for seed in range(3)], begun, [], counts)
    (compared,), signatures = differences(arms, [("ours", "theirs")])
    joint = compared.joint
    assert found["joint"] == {
        "difference": compared.difference, "low": joint.low, "high": joint.high, "p_value": joint.p_value,
        "degrees_of_freedom": joint.degrees_of_freedom, "detectable": joint.detectable,
        "signature": signatures["joint"],
    }  # fmt: skip
    assert (found["difference"]["low"], found["difference"]["high"]) == (compared.low, compared.high)
    assert found["randomization"]["p_value"] == compared.randomization.p_value
    shown = repr(found)
    assert "mean of 3 runs, standard deviation" in shown
    assert f"95 % interval [{joint.low:+.2f}, {joint.high:+.2f}] over training runs and sentences" in shown
    assert "of these runs alone: 95 % interval" in shown


def test_where_there_is_no_joint_test_the_reason_is_said_and_the_others_are_there(trained):
    ours, theirs, references = trained
    uneven = s2s.evaluate(ours, references, baseline=theirs[0])
    assert "a single run of a system" in uneven["joint"]["untested"]
    assert "randomization" not in uneven
    assert "no test over training runs: a single run" in repr(uneven)
    few = s2s.evaluate([run[:29] for run in ours], references[:29], baseline=[run[:29] for run in theirs])
    assert "30 different sentences, and these are 29" in few["joint"]["untested"]
    copies = s2s.evaluate([ours[0], ours[0]], references, baseline=theirs)
    assert "copies" in copies["joint"]["untested"]
    single = s2s.evaluate(ours[0], references, baseline=theirs[0])
    assert "joint" not in single
    assert "runs" not in single["bleu"]
    assert single == s2s.evaluate([ours[0]], references, baseline=[theirs[0]])


def test_the_mean_by_source_length_is_that_of_the_runs(trained):
    ours, _, references = trained
    bands = [s2s.evaluate(run, references, source=references)["by_length"] for run in ours]
    for place, band in enumerate(s2s.evaluate(ours, references, source=references)["by_length"]):
        assert band["score"] == pytest.approx(sum(each[place]["score"] for each in bands) / 3)


def test_scores_per_line_are_records_of_every_output(files):
    found = s2s.evaluate(Path("good"), "references", baseline=[BAD, GOOD], per_line=True)
    lines = found["per_line"]["lines"]
    assert [each["output"] for each in lines] == ["good"] * 3 + ["baseline 1"] * 3 + ["baseline 2"] * 3
    assert lines[1] == {"output": "good", "line": 2, "bleu": 100.0, "chrf": 100.0, "ter": 0.0, "exact_match": 100.0} | {
        key: pytest.approx(lines[1][key]) for key in ("bleu", "chrf")
    }
    assert lines[:3] == [{**each, "output": "good"} for each in lines[6:]]
    assert "BLEU per line" in repr(found)
    assert "smooth:exp" in found["per_line"]["signatures"]["bleu"]
    without = s2s.evaluate(Path("good"), "references", baseline=[BAD, GOOD])
    assert found == without | {"per_line": found["per_line"]}


def test_a_run_of_two_systems_or_of_another_length_is_named(files):
    good, bad = Path("good"), Path("bad")
    with pytest.raises(s2s.UserError, match="good: given twice"):
        s2s.evaluate([good, bad, good], "references")
    with pytest.raises(s2s.UserError, match="good: given twice"):
        s2s.evaluate([good, bad], "references", baseline=good)
    assert s2s.evaluate(good, "references", baseline=good)["difference"]["p_value"] == 1
    Path("short").write_text("one\n")
    with pytest.raises(s2s.UserError, match="short has 1 lines and references has 3"):
        s2s.evaluate([good, Path("short")], "references")
    with pytest.raises(s2s.UserError, match="baseline 2 has 2 lines and references has 3"):
        s2s.evaluate(good, "references", baseline=[BAD, BAD[:2]])
