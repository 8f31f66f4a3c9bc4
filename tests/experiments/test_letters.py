"""The experiments on letters: the parallel text that each `prepare.py` writes, error rates, and several languages."""

import gzip
import runpy
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from seq2seq_attn.comparison.experiment import experiment_grid, read_experiment
from seq2seq_attn.corpora.tokenizers import Character
from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.results.results import Results
from seq2seq_attn.results.test_sets import mean_difference
from seq2seq_attn.strict import read_yaml

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments"


def prepared(name, folder, files):
    """What `prepare.py` of an experiment writes beside these files, by path, as lists of lines."""
    for path, text in files.items():
        (folder / path).write_bytes(gzip.compress(text.encode()))
    runpy.run_path(str(EXPERIMENTS / name / "prepare.py"))["main"]([str(folder)])
    written = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".gz")
    return {str(path.relative_to(folder)): path.read_bytes().decode().split("\n")[:-1] for path in written}


def numbered_word(number):
    """`aaaa` for 0, `aaab` for 1, and so on."""
    return "".join(chr(ord("a") + number // 26**power % 26) for power in (3, 2, 1, 0))


def test_a_word_of_cmudict_is_in_one_part_with_all_its_pronunciations(tmp_path, capsys):
    words = [numbered_word(number) for number in range(15_000)]
    entries = [line for word in words for line in (f"{word} AH0 B", f"{word}(2) AH1 B")]
    entries += [f"{word}(3) EY1 # place" for word in words if word.endswith("a")]
    entries += ["a.d. EY2 D", "on-line AA1"]
    written = prepared("pronunciation", tmp_path, {"cmudict.dict.gz": "\n".join(entries)})
    assert capsys.readouterr().out.startswith("15,000 words; 2 left out")
    parts = {part: written[f"{part}.letters"] for part in ("train", "validation", "test")}
    assert [len(set(lines)) for lines in parts.values()] == [330, 2_670, 12_000]
    assert sorted(set().union(*parts.values())) == [" ".join(word) for word in words]
    # Stress is gone, and with it a pronunciation that differed in nothing else.
    trained = zip(written["train.letters"], written["train.phones"], strict=True)
    expected = [
        (word, phones)
        for word in sorted(set(parts["train"]))
        for phones in ["AH B", "EY"]
        if phones == "AH B" or word.endswith("a")
    ]
    assert list(trained) == expected
    assert set(written["validation.phones"]) == set(written["test.phones"]) == {"AH B"}
    assert written["test.phones.2"] == ["EY" if word.endswith("a") else "" for word in parts["test"]]


def test_the_letters_of_a_korean_syllable_are_tokens(tmp_path):
    written = prepared(
        "pronunciation-2020", tmp_path, {"kor_train.tsv.gz": "가감\tk a̠ ɡ a̠ m\n", "kor_dev.tsv.gz": "é\te\n"}
    )
    (letters,) = written["kor/train.letters"]
    assert letters.split() == list(unicodedata.normalize("NFD", "가감"))
    assert len(letters.split()) == 5
    assert unicodedata.normalize("NFC", letters.replace(" ", "")) == "가감"
    assert written["kor/train.phones"] == ["k a̠ ɡ a̠ m"]
    assert written["kor/validation.letters"] == ["e ́"]


LEMMAS = {  # with the form and the features: two blanks, a no-break space, a combining mark, a capital as of a tag
    "German": ("Aa machen", "Aa\u00a0gemacht", "V.PTCP;PST"),
    "Arabic": ("ثُقْب  أَسْوَد", "ثُقُوب  السَّوْدَاء", "N;PL;DEF;NOM"),
    "Navajo": ("yidlą́", "yiidlą́", "V;REAL;IPFV/PROG;1;DU/PL"),
    "Hungarian": ("N", "N-ről", "N;ON+ABL;SG"),
}


@pytest.mark.parametrize("language", LEMMAS)
def test_a_feature_is_one_token_and_every_character_of_lemma_and_form_another(tmp_path, language):
    lemma, form, features = LEMMAS[language]
    written = prepared("inflection", tmp_path, {f"{language}-train-high.gz": f"{lemma}\t{form}\t{features}\n"})
    (source,), (target,) = written[f"{language}/high.lemmas"], written[f"{language}/high.forms"]
    known = read_yaml(EXPERIMENTS / "inflection/letters.yaml")["text"]["protected"]
    tokenizer = Character(known)
    pieces = tokenizer.encode(source)
    tags = [f"<{feature}>" for feature in features.split(";")]
    assert pieces[: len(tags)] == tags
    assert len(pieces) == len(tags) + len(lemma)
    assert tokenizer.decode(pieces[len(tags) :]) == lemma
    assert tokenizer.decode(tokenizer.encode(target)) == target == form


def test_error_rates_count_the_nearest_of_several_pronunciations():
    metrics = runpy.run_path(str(EXPERIMENTS / "pronunciation/metrics.py"))
    first = ["EY", "K AE T", "T AH M EY T OW", "R IY D"]
    second = ["AH", "", "T AH M AA T OW", "R EH D IH"]
    ours = ["AH", "K AE", "T UH M AA T OW", "R EH D"]
    expected = Expected([first, second])
    # Words 2, 3 and 4 are wrong. Edits of the nearest: 0 of 1 phone, 1 of 3, 1 of 6, 1 of 3.
    assert metrics["WER"].score(ours, expected).value == 75
    assert metrics["PER"].score(ours, expected).value == pytest.approx(100 * 3 / 13)
    assert metrics["WER"].score(second[:1], Expected([first[:1], second[:1]])).value == 0


def cells(table):
    """The rows of a table in Markdown, below its header."""
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]


def test_a_score_over_all_languages_is_their_mean_of_the_arms_that_all_of_them_have():
    languages = runpy.run_path(str(EXPERIMENTS / "languages.py"))
    arabic, finnish, german = (
        Results.load(EXPERIMENTS / f"inflection/results/{name}/results.json")
        for name in ("arabic", "finnish", "german")
    )
    contrasts = [("hard, monotonic", "additive"), ("additive", "an arm without runs")]
    rows = cells(languages["over_all"]({"ar": arabic, "fi": finnish}, arabic.main, "C at every step", contrasts))
    assert [row[0] for row in rows] == [*(arm.name for arm in arabic.arms), "hard, monotonic against additive"]
    for (_, shown, *_), *arms in zip(rows, arabic.arms, finnish.arms, strict=False):
        first, second = (results.score(arm) for results, arm in zip((arabic, finnish), arms, strict=True))
        mean, std = (first.mean + second.mean) / 2, (first.std**2 + second.std**2) ** 0.5 / 2
        assert shown == f"{mean:.1f} ± {std:.1f}"
    difference = mean_difference([arabic, finnish], "additive", "C at every step", arabic.main.key).difference
    assert rows[1][2].startswith(f"{difference:+.1f} [")
    object.__setattr__(german, "arms", german.arms[:2])  # as before its third arm has run
    both = {"ar": arabic, "de": german}
    assert [row[0] for row in cells(languages["over_all"](both, arabic.main, "C at every step", contrasts))] == [
        "C at every step", "additive"
    ]  # fmt: skip
    (_, *of_arabic), (_, *of_german) = cells(languages["by_language"](both, arabic.main))
    assert all(of_arabic)
    assert [bool(cell) for cell in of_german] == [True, True, False]


def test_runs_that_agree_have_no_deviation_and_a_single_run_has_none_to_show():
    languages = runpy.run_path(str(EXPERIMENTS / "languages.py"))
    arabic = Results.load(EXPERIMENTS / "inflection/results/arabic/results.json")
    arm, key = arabic.arms[0], arabic.main.key
    alike = replace(arm, name="alike", scores={key: replace(arm.scores[key], mean=4.0, std=0.0)})
    object.__setattr__(arabic, "arms", (alike, replace(alike, name="alone", seeds=(1,))))
    ((_, *shown),) = cells(languages["by_language"]({"ar": arabic}, arabic.main))
    assert shown == ["4.0 ± 0.0", "4.0"]


@pytest.mark.parametrize(("file", "forms"), [("experiment", "high"), ("medium", "medium"), ("low", "low")])
def test_the_files_of_another_language_are_beside_those_of_the_experiment(monkeypatch, file, forms):
    languages = runpy.run_path(str(EXPERIMENTS / "languages.py"))
    experiment = EXPERIMENTS / f"inflection/{file}.yaml"
    monkeypatch.chdir(ROOT)
    finnish = read_experiment(experiment)
    assert languages["named_language"](finnish.runs[0].config) == "finnish"
    german = experiment_grid(languages["in_language"]("german", experiment))
    assert german.experiment.name == f"{finnish.experiment.name}-german"
    place = Path("data/downloaded/inflection-2017/german")
    for run, other in zip(german.runs, finnish.runs, strict=True):
        data = run.config.data
        assert (data.train.source, data.train.target) == (place / f"{forms}.lemmas", place / f"{forms}.forms")
        assert data.test.target == place / "test.forms"
        assert run.config.model_copy(update={"data": other.config.data}) == other.config
