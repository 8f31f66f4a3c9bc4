"""The demo's models in the package: whole, found by name, never written to, and as good as their records say."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

import seq2seq_attn as s2s
from seq2seq_attn.comparison.demo import demo_grid
from seq2seq_attn.config import PairFiles
from seq2seq_attn.corpora.embedded import TOM_AND_JERRY
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import SUMS, read_sums
from seq2seq_attn.runs import SHIPPED, corpora, find_run, lexicon, shipped_runs
from seq2seq_attn.runs.cache import cached_pairs
from seq2seq_attn.runs.folder import check_files, read_config, read_metrics
from seq2seq_attn.strict import merge

NAMES = ["attention", "distracted", "transformer"]
SENTENCES = ["Tom chases Jerry", "the lazy girl was kicked by Spike .", "can Mary kick a big fox ?"]
TRANSLATED = ["汤姆 追逐 杰瑞 。", "懒 女孩 被 斯派克 踢 了 。", "玛丽 能 踢 一 只 大 狐狸 吗 ？"]
AT_LEAST = {"attention": 99.0, "distracted": 20.0, "transformer": 99.0}


@pytest.fixture(scope="module")
def models():
    return {name: s2s.load(f"demo/{name}", "cpu") for name in NAMES}


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents():
    return {path: path.read_bytes() for path in SHIPPED.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_recorded_and_as_recorded(name):
    folder = SHIPPED / name
    assert check_files(folder) == []
    assert {path.name for path in folder.iterdir()} == {*read_sums(folder), SUMS}
    assert sum(path.stat().st_size for path in folder.iterdir()) < 3e6


def test_they_are_all_that_the_package_ships_and_no_path_of_the_machine_that_made_them():
    assert list(shipped_runs()) == [f"demo/{name}" for name in NAMES]
    for path, content in contents().items():
        assert path.suffix == ".safetensors" or (b'": "/' not in content and b": /" not in content), path


def test_the_readme_has_the_checksums_of_the_weights_and_their_scores():
    readme = (SHIPPED / "README.md").read_text(encoding="utf-8")
    for name in NAMES:
        (checksum,) = read_sums(SHIPPED / name)["model.safetensors"]
        score = read_metrics(SHIPPED / name)["test"]["bleu"]["value"]
        assert f"| {score:.2f} | `{checksum[:16]}` |" in next(
            line for line in readme.splitlines() if line.startswith(f"| `demo/{name}`")
        )


def test_the_models_that_attend_translate_these_sentences_so(models):
    assert models["attention"].translate(SENTENCES).sentences == TRANSLATED
    assert models["transformer"].translate(SENTENCES).sentences == ["汤姆 追逐 杰瑞", *TRANSLATED[1:]]


@pytest.mark.parametrize("name", NAMES)
def test_bleu_on_a_tenth_of_the_test_set_is_that_of_the_record(models, name):
    test = corpora.read_test(models[name].config.data.test).pairs
    sample = slice(0, None, 10)
    found = models[name].translate(test.source[sample], say=lambda _: None).sentences
    scored = sacrebleu.corpus_bleu(found, [test.target[sample]], tokenize="zh", force=True)
    assert scored.score >= AT_LEAST[name]
    recorded = read_metrics(SHIPPED / name)["test"]["bleu"]["value"]
    np.testing.assert_allclose(scored.score, recorded, atol=4.0)


def test_a_folder_of_the_same_name_is_what_the_name_means(elsewhere):
    shutil.copytree(SHIPPED / "distracted", elsewhere / "demo")
    assert find_run(Path("demo")) == Path("demo")
    assert s2s.load("demo").config.model.context.kind == "fixed"
    with pytest.raises(UserError, match=r"demo/attention: not a run folder.*rename yours"):
        find_run(Path("demo/attention"))
    (elsewhere / "demo/config.yaml").unlink()
    with pytest.raises(UserError, match=r"demo: not a run folder.*rename yours"):
        s2s.load("demo")


def test_names_of_the_package_and_no_others(elsewhere):
    assert find_run(Path("demo")) == find_run(Path("./demo/attention")) == SHIPPED / "attention"
    with pytest.raises(UserError, match=r"demo/atention: neither.*demo/attention, demo/distracted, demo/transformer"):
        s2s.load("demo/atention")
    with pytest.raises(UserError, match="runs/demo: not a run folder"):
        s2s.load("runs/demo")


def test_every_way_of_using_them_leaves_the_package_as_it_is(models, monkeypatch):
    short = PairFiles(source=TOM_AND_JERRY / "validation.en", target=TOM_AND_JERRY / "validation.zh")
    monkeypatch.setattr(lexicon, "cached_pairs", lambda _, *others: cached_pairs(short, *others))  # for speed
    before = contents()
    model = models["attention"]
    with pytest.raises(UserError, match=r"nothing is written.*verify demo/attention --score"):
        model.evaluate()
    assert model.translate(SENTENCES[:1], shortlist=50, say=lambda _: None).sentences == TRANSLATED[:1]
    assert not s2s.verify("demo/distracted").is_wrong
    assert contents() == before


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_whole_test_set_is_translated_as_recorded(name):
    """On the kind of processor that they were made on, line by line; a minute each."""
    assert not s2s.verify(f"demo/{name}", score=True).is_wrong


def test_their_corpus_is_in_the_package():
    data = read_config(SHIPPED / "attention").data
    assert data.test.alignments.parent == TOM_AND_JERRY
    assert data.train.source.exists()


def test_a_user_without_a_home_folder_translates(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert s2s.load("demo").translate(SENTENCES[:1]).sentences == TRANSLATED[:1]


def test_two_of_them_are_arms_of_the_demo_trained_on_sentences_of_all_lengths():
    all_lengths = {"data": {"max_training_length": None}, "training": {"max_epochs": 8, "monitor": "loss"}}
    all_lengths |= {"text": {"match_known_forms": True}}  # for what users type; the corpus has known words only
    arms = {run.arm: run.config.model_dump(mode="json") for run in demo_grid().runs}
    for name, arm in ("attention", "additive attention"), ("distracted", "distracted (C at every step)"):
        assert read_config(SHIPPED / name).model_dump(mode="json") == merge(arms[arm], all_lengths)
