"""A task that is impossible without copying: names that training never had, which are the words of a translation."""

import json

import pytest
from plain_recipe import NO_DROPOUT, constant

import seq2seq_attn as s2s
from seq2seq_attn.api.model import Model
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.errors import UserError
from seq2seq_attn.export.html import live_page
from seq2seq_attn.runs.corpora import learn_front_ends
from seq2seq_attn.strict import parse

LETTERS = "bcdfghklmnprst"
NAMES = [f"{a}{v}{b}" for v in "aeiou" for a in LETTERS for b in LETTERS]
POINTER = {"head": {"kind": "pointer_generator"}}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """`greet A and B` is answered by `hello B , A`; every name occurs in one pair alone, so it is in no vocabulary."""
    folder = tmp_path_factory.mktemp("copied")
    names = iter(NAMES)
    for part, count in (("train", 96), ("test", 16)):
        pairs = [(next(names), next(names)) for _ in range(count)]
        (folder / f"{part}.source").write_text("".join(f"greet {a} and {b}\n" for a, b in pairs))
        (folder / f"{part}.target").write_text("".join(f"hello {b} , {a}\n" for a, b in pairs))
    return folder


def values(files, **changes):
    pairs = {part: {side: f"{files}/{part}.{side}" for side in ("source", "target")} for part in ("train", "test")}
    return {
        "data": {"train": pairs["train"], "validation": pairs["test"], "test": pairs["test"]},
        "text": {"tokenizer": "word", "joint": True, "minimum_frequency": 3, "copy_slots": 2},
        "model": {
            "embedding_size": 12,
            "encoder": {"hidden_size": 12},
            "decoder": {"kind": "bahdanau", "hidden_size": 16},
            "dropout": NO_DROPOUT,
            **POINTER,
        },
        "training": {
            "max_epochs": 8,
            "batch_size": 8,
            "validate_every": 8,
            "accelerator": "cpu",
            "monitor": "loss",
            **constant(0.03),
        },
        "search": {"beam_size": 3},
        "evaluation": {"tokenize": "none", "metrics": ["exact_match"]},
        **changes,
    }


@pytest.fixture(scope="module")
def model(files, tmp_path_factory) -> Model:
    return s2s.train(values(files), tmp_path_factory.mktemp("runs") / "pointer", silent=True)


SOURCE, TARGET = "greet Zaphod and Trillian", "hello Trillian , Zaphod"


def test_names_that_training_never_had_are_written(model):
    assert model.metrics["test"]["exact_match"]["value"] > 95
    assert model.translate([SOURCE, "greet Ada and Bob"]).sentences == [TARGET, "hello Bob , Ada"]


def test_every_search_writes_the_word_and_not_its_slot(model):
    by_beam = [model.translate([SOURCE], beam_size=size) for size in (1, 2)]
    assert [each.sentences for each in by_beam] == [[TARGET]] * 2
    (best,) = model.translate([SOURCE], beam_size=4, n_best=4)
    assert TARGET in [each.text for each in best.candidates]
    assert not any("copy" in each.text for each in best.candidates)
    (drawn,) = model.translate([SOURCE], sampling=True, temperature=0.01, n_best=2)
    assert [each.text for each in drawn.candidates] == [TARGET] * 2
    assert model.translate([SOURCE], ensemble=[model]).sentences == [TARGET]
    (begun,) = model.translate([SOURCE], prefixes=["hello Zaphod"], constraints=[["Trillian"]])
    assert begun.text.startswith("hello Zaphod")
    assert "Trillian" in begun.text


def test_attention_alignment_scores_and_steps_have_the_word(model):
    (found,) = model.translate([SOURCE], weights=True)
    assert json.loads(json.dumps(found.record))["translations"][0]["tokens"] == [*TARGET.split(), "</s>"]
    assert found.unknown == ("Zaphod", "Trillian")
    (aligned,) = model.align([(SOURCE, TARGET)])
    assert {(3, 1), (1, 3)} <= aligned.links
    copied, other = (
        score.log_probability for score in model.score([(SOURCE, TARGET), (SOURCE, "hello Arthur , Zaphod")])
    )
    assert copied > -2 > -5 > other
    steps = model.steps(SOURCE)
    assert (steps.text, steps.tokens) == (TARGET, [*TARGET.split(), "</s>"])
    assert steps.log_probability == pytest.approx(copied, abs=1e-4)
    assert steps.steps[1].likely[0].token == "Trillian"
    assert sum(each.probability for each in steps.steps[1].likely) == pytest.approx(1, abs=1e-3)
    assert model.attention(SOURCE, TARGET).target == (*TARGET.split(), "</s>")
    assert model.steps(SOURCE.split(), prefix=["hello", "Zaphod"]).tokens[1] == "Zaphod"


def test_a_slot_that_the_source_does_not_fill_is_never_written(model):
    (best,) = model.translate(["greet Ada and and"], beam_size=5, n_best=5)
    likely = [each for each in best.candidates if each.log_probability > -80]
    assert likely
    assert not any("⟨copy" in each.text for each in likely)


def test_what_does_not_suit_copied_words_is_refused_in_one_line(model, files):
    with pytest.raises(UserError, match=r"avoid: 'dear Zaphod' has 'dear'"):
        model.translate([SOURCE], avoid=("dear Zaphod",))
    with pytest.raises(UserError, match=r"mine: has text\.copy_slots"):
        live_page({"mine": model.trained})
    pointer = {"model": POINTER}
    for changes, words in (
        ({"text": {"tokenizer": "word"}, **pointer}, r"text\.joint=true"),
        (
            {"source": {"kind": "factored"}, "model": {**POINTER, "encoder": {"kind": "factored"}}},
            r"text\.copy_slots needs a source of text",
        ),
        ({"model": {"head": {"kind": "pointer_generator", "slots": 5}}}, r"slots=5 and text\.copy_slots=2"),
    ):
        with pytest.raises(UserError, match=words):
            parse(Config, values(files, **changes))


def test_slots_that_no_source_of_the_training_fills_are_refused(files, tmp_path):
    text = {"tokenizer": "word", "joint": True, "copy_slots": 2}
    with pytest.raises(UserError, match=r"copy_slots=2 would never be trained.*minimum_frequency=2"):
        s2s.train(values(files, text=text), tmp_path / "run", silent=True)
    assert not (tmp_path / "run").exists()
    # By default the vocabulary of 450 pairs has no room for their 900 names, and a sample does not have all words.
    config = parse(Config, values(files, text=text))
    lines = [f"greet {a} and {b}" for a, b in zip(NAMES[:450], NAMES[450:900], strict=True)]
    for corpus, pairs in ((ParallelCorpus(lines, lines), None), (ParallelCorpus(lines[:9], lines[:9]), 450)):
        source, _ = learn_front_ends(config, corpus, pairs)
        assert source.vocabulary.slots == 2


@pytest.mark.parametrize("option", ["head", "coverage_loss"])
def test_a_model_without_attention_has_nothing_to_copy_or_cover(files, tmp_path, option):
    given = values(files)
    given["model"] = {**given["model"], "context": {"kind": "fixed"}}
    if option == "coverage_loss":
        given["model"]["head"] = {"kind": "softmax"}
        given["training"]["coverage_loss"] = 1.0
    with pytest.raises(UserError, match=rf"{option}.*attention"):
        s2s.train(given, tmp_path / "run", silent=True)
