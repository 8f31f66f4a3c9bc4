"""The results of a model as records: translations, scores, links and weights."""

import math
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import seq2seq_attn as s2s
from seq2seq_attn import ops
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import GoldCorpus
from seq2seq_attn.search import SearchOptions
from seq2seq_attn.strict import parse


def test_distinct_translations_are_the_first_of_each_text(model, monkeypatch):
    plain = type(model.trained).shown

    def same(self, *given):
        """As if two segmentations had the same text: b is written as a."""
        text, replaced = plain(self, *given)
        return text.replace("b", "a"), replaced

    monkeypatch.setattr(type(model.trained), "shown", same)
    whole = model.translate(["a b c"], beam_size=8, n_best=8)
    (first,) = whole
    texts = [each.text for each in first.candidates]
    different = list(dict.fromkeys(texts))
    assert len(different) < len(texts)
    (found,) = model.translate(["a b c"], beam_size=8, n_best=3, distinct=True)
    assert [each.text for each in found.candidates] == different[:3]
    assert len(model.translate(["a b c"], n_best=8, temperature=1, distinct=True)[0].candidates) < 8


def test_translations_are_those_of_the_search_with_its_scores_and_weights(model):
    found = model.translate(["a b c", "", "c a"], beam_size=4, n_best=3, weights=True)
    assert found.sentences == ["c b a", "", "a c"]
    options = model.config.search.model_copy(update={"beam_size": 4, "n_best": 3})
    searched = model.trained.search(["a b c", "", "c a"], options, with_weights=True)
    decode = model.trained.target.decode
    assert found.n_best == [[decode(each.tokens) for each in best] for best in searched]
    assert found.scores == [searched[0][0].score, None, searched[2][0].score]
    np.testing.assert_array_equal(found.weights[2], searched[2][0].weights)
    assert found.weights[1] is None
    assert found[0].attention.source == ("a", "b", "c", "</s>")


def test_translation_in_bf16_says_that_it_is_slow_on_a_processor_without_it(model, monkeypatch):
    monkeypatch.setattr(ops, "has_onednn", lambda dtype: dtype == torch.float32)
    with pytest.warns(UserWarning, match="bf16 is 5 to 20 times slower than fp32 on this processor"):
        model.translate(["a b c"], precision="bf16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.translate(["a b c"], precision="fp32")
        monkeypatch.setattr(ops, "has_onednn", lambda dtype: True)
        model.translate(["a b c"], precision="bf16")


def test_models_translate_and_score_together(model, compared):
    other = compared.model("attention")
    found = model.translate(["a b c", "b"], n_best=2, ensemble=[other], weights=True)
    pairs = [(each.source, candidate.text) for each in found for candidate in each.candidates]
    together, *singles = (model.score(pairs, ensemble=[other]), model.score(pairs), other.score(pairs))
    for ours, *theirs in zip(together, *singles, strict=True):
        probabilities = np.exp([each.log_probabilities for each in theirs])
        np.testing.assert_allclose(ours.log_probabilities, np.log(probabilities.mean(axis=0)), atol=1e-4)
    searched = [candidate.log_probability for each in found for candidate in each.candidates]
    assert searched == pytest.approx(together.log_probabilities, abs=1e-4)
    np.testing.assert_allclose(found[0].attention.weights.sum(axis=1), 1, atol=1e-5)


def test_a_model_is_prepared_for_inference_once_and_its_ensemble_again(model, compared):
    prepared = model.trained.for_inference()
    assert prepared.for_inference() is prepared
    assert prepared.translate(["a b c", "b"]) == model.trained.translate(["a b c", "b"])
    together = prepared.averaged_with([compared.model("attention").trained])
    assert together.for_inference() is not together


def test_what_is_no_text_and_no_model_is_refused_by_its_place(model):
    nan = float("nan")  # an empty cell of a table
    for attempt, message in (
        (lambda: model.translate(["a", None]), "sentence 1: None is not text; give a string"),
        (lambda: model.translate([nan], glossary={"a": "b"}), "sentence 0: nan is not text"),
        (lambda: model.translate(["a", None], split_sentences=True), "sentence 1: None is not text"),
        (lambda: model.translate(["a"], prefixes=[nan]), "prefix 0: nan is not text"),
        (lambda: model.translate(["a"], constraints=[["b", 3]]), "sentence 0, constraint 1: 3 is not text"),
        (lambda: model.score([("a", "a"), ("b", nan)]), "pair 1, side 1: nan is not text"),
        (lambda: model.align([(3, "a")]), "pair 0, side 0: 3 is not text"),
        (lambda: model.translate(["a"], candidates=3), "candidates: only minimum Bayes risk chooses among them"),
        (lambda: model.translate(["a"], beem_size=3), r"unknown key 'beem_size' \(did you mean 'beam_size'\?\)"),
        (lambda: model.translate(["a"], ensemble=["runs/x"]), "ensemble: 'runs/x' is not a model; load each run"),
    ):
        with pytest.raises(s2s.UserError, match=message):
            attempt()


def test_one_intervention_instead_of_a_list_is_refused(model):
    with pytest.raises(s2s.UserError, match=r"interventions is one mapping, .* give \[mapping\]"):
        model.steps("a b c", interventions={"replace": "nothing", "step": 1})


def test_models_on_two_devices_are_refused(model, compared):
    other = compared.model("attention")
    other.trained.translator.to("meta")
    with pytest.raises(s2s.UserError, match="are on cpu and meta; load all of them on one device"):
        model.translate(["a"], ensemble=[other])


def test_options_of_sampling_and_of_minimum_bayes_risk_are_those_of_the_configuration(model):
    drawn = model.translate(["a b c"], temperature=0.9, top_k=5, top_p=0.8, seed=4, mbr="bleu", candidates=6, n_best=2)
    config = {"temperature": 0.9, "top_k": 5, "top_p": 0.8, "seed": 4, "mbr": "bleu", "candidates": 6, "n_best": 2}
    options = parse(SearchOptions, config)
    searched = model.trained.search(["a b c"], options)[0]
    assert [(each.text, each.score) for each in drawn[0].candidates] == [
        (model.trained.target.decode(each.tokens), each.score) for each in searched
    ]
    with pytest.raises(s2s.UserError, match="top_p"):
        model.translate(["a"], top_p=0)


def columns(records):
    """As `pandas.DataFrame` reads them: every record has the same keys."""
    return {key: [record[key] for record in records] for key in dict.fromkeys(key for each in records for key in each)}


def test_records_make_a_table(model):
    table = columns(model.translate(["a b", ""], beam_size=4, n_best=2).to_records())
    assert table["sentence"] == [0, 0, 1]
    assert table["rank"] == [1, 2, 1]
    assert table["translation"][0] == "b a"
    assert [score is None for score in table["score"]] == [False, False, True]
    scores = columns(model.score([("a b", "b a"), ("a", "")]).to_records())
    assert scores["tokens"] == [3, None]
    assert [value is None for value in scores["log_probability"]] == [False, True]
    aligned = model.align([("a b", "b a")])
    assert columns(aligned.to_records())["links"] == [str(aligned[0])]


def test_lines_are_read_only_as_they_are_needed(model):
    read = []

    def batches():
        for line in ("a", "b", "c"):
            read.append(line)
            yield [line]

    stream = model.stream(batches())
    assert next(stream).text == "a"
    assert read == ["a"]


def test_the_score_of_a_translation_is_that_of_its_search(model):
    found = model.translate(["b c a"])[0]
    (score,) = model.score([("b c a", found.text)])
    assert score.log_probability == pytest.approx(found.candidates[0].log_probability, abs=1e-4)
    assert sum(score.log_probabilities) == pytest.approx(score.log_probability, abs=1e-5)
    assert score.tokens == ["a", "c", "b", "</s>"]


def test_links_agree_with_gold_as_the_evaluation_says(model, backwards):
    folder, _ = backwards
    pairs = zip((folder / "source").read_text().splitlines(), (folder / "target").read_text().splitlines(), strict=True)
    found = model.align(pairs)
    assert found.agreement(folder / "align").error_rate == pytest.approx(model.metrics["test"]["aer"])
    assert str(found[3]) == " ".join(f"{i}-{j}" for i, j in sorted(found[3].links))
    turned = model.align([("a b c", "c b a")], reverse=model, symmetrize="intersection")
    assert turned.links[0] <= model.align([("a b c", "c b a")]).links[0]


def test_attention_is_that_of_the_given_translation_or_of_the_best(model):
    given, found = model.attention("a b", "b a"), model.attention("a b")
    np.testing.assert_allclose(given.weights, found.weights, atol=1e-5)
    assert given.target == found.target == ("b", "a", "</s>")
    words = model.attention("a b", words=True)
    assert (words.source, words.target) == (("a", "b"), ("b", "a"))
    np.testing.assert_allclose(words.weights, given.weights[:2, :2], atol=1e-5)
    assert len(words.to_records()) == 4


def test_the_plot_has_the_tokens_on_its_axes(model):
    axes = model.attention("a b c").plot().axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c", "</s>"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["c", "b", "a", "</s>"]


def test_a_model_with_one_head_aligns_by_it(model):
    pairs = [("a b c", "c b a"), ("", "a"), ("c a", "a c"), ("a b", "")]
    links = [{(2, 0), (1, 1), (0, 2)}, set(), {(1, 0), (0, 1)}, {(0, 0)}]  # those of a side without tokens are missed
    found = model.align_heads(pairs, GoldCorpus(links, links))
    assert {each.agreement for each in found} == {model.align(pairs).agreement(GoldCorpus(links, links))}
    assert repr(found).endswith(f"head 0, AER {found[0].agreement.error_rate:.3f}")
    assert found.best[:2] == (0, 0)
    assert columns(found.to_records())["layer"] == [0, 0, None]
    assert model.align(pairs, layer=0, head=0).links == model.align(pairs).links


@pytest.mark.parametrize("options", [{"row": "reads"}, {"threshold": 2.0}, {"threshold": math.nan}])
def test_links_by_an_unknown_rule_are_refused(model, options):
    (name,) = options
    with pytest.raises(UserError, match=name):
        model.align([("a b", "b a")], **options)
    with pytest.raises(UserError, match=name):
        model.align_heads([("a b", "b a")], GoldCorpus([set()], [set()]), **options)


def test_maps_of_all_heads_have_the_tokens_on_their_axes(model):
    maps = model.attention_maps("a b", "b a")
    np.testing.assert_allclose(maps.cross.layers[0][0], model.attention("a b", "b a").weights, atol=1e-6)
    assert model.attention_maps("a b").cross.target == maps.cross.target == ("b", "a", "</s>")
    axes = maps.plot().axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "</s>"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a", "</s>"]


def test_self_attention_of_a_decoder_has_its_inputs_as_columns():
    maps = s2s.load("demo/transformer", "cpu").attention_maps("Tom runs", "汤姆 跑")
    axes = maps.plot("decoder").axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["<s>", "汤姆", "跑 (<unk>)"]
    assert axes.images[0].get_array().tolist() == maps.decoder.layers[0][0].tolist()
    assert maps.encoder.source == maps.encoder.target == ("Tom", "runs (<unk>)", "</s>")


def test_what_a_notebook_shows_is_escaped_and_leaves_text_and_page_their_colors(model, compared):
    matrix = s2s.view([[0.25, 0.75], [1.0, 0.0]], ["<b>", "x"], ["&", "y"])
    pages = [
        matrix._repr_html_(),
        model._repr_html_(),
        model.translate(["a b", ""], n_best=2)._repr_html_(),
        compared._repr_html_(),
        compared.table()._repr_html_(),
    ]
    assert "&lt;b&gt;" in pages[0]
    assert "--w:0.75" in pages[0]
    assert "general" in pages[1]
    assert "distracted" in pages[3]
    for page in pages:
        assert "color:inherit" in page
        assert "color:#" not in page
        assert "background:#" not in page


def test_a_model_without_weights_says_so(compared):
    model = compared.model("distracted")
    with pytest.raises(s2s.UserError, match="does not attend to single source words"):
        model.attention("a b")
    with pytest.raises(s2s.UserError, match="does not attend to single source words"):
        model.attention_maps("a b", "b a")
    assert len(model.translate(["a b"]).sentences) == 1


def test_steps_are_those_of_one_hypothesis_whatever_the_run_searches_for(model):
    search = SearchOptions(beam_size=6, n_best=5, mbr="chrf", candidates=6)
    config = model.config.model_copy(update={"search": search})
    other = replace(model, trained=replace(model.trained, config=config))
    assert other.steps("a b c", beam_size=1).tokens == model.steps("a b c", beam_size=1).tokens
    assert other.steps("a b c").tokens == model.steps("a b c", beam_size=6).tokens


def test_mistakes_are_named(model):
    for mistake, words in (
        (lambda: model.translate("a b"), "translate takes a list"),
        (lambda: model.translate(Path("a.txt")), r"translate takes a list of sources, got the path a\.txt"),
        (lambda: model.translate(["a"], beam_size=2, n_best=3), "n_best=3 needs a beam"),
        (lambda: model.translate(["a"])[0].attention, "weights=True"),
        (lambda: model.attention("a", ""), "blank"),
        (lambda: model.attention_maps("a", ""), "blank"),
        (lambda: model.attention("a", "a", beam_size=3), "beam_size: options of a search, and nothing is searched"),
        (lambda: model.attention_maps("a", "a", n_best=2, beam_size=3), "n_best, beam_size: options of a search"),
        (lambda: model.steps("a", "a", beam_size=3), "beam_size: options of a search, and nothing is searched"),
        (lambda: model.attention("a", words=True, ensemble=[model]), "weights between words are those of one model"),
        (lambda: model.attention_maps("a", ensemble=[model]), "unknown key 'ensemble'"),
        (lambda: model.attention_maps("a", "a").plot("encoder"), "no self-attention in its encoder"),
        (lambda: model.attention_maps("a", "a").plot("source"), "cross, encoder, decoder"),
        (lambda: model.align([("a", "a")], head=0), "head 0 needs the number of its layer"),
        (lambda: model.score(["ab"]), "pair 0: 'ab' is not a pair"),
    ):
        with pytest.raises(s2s.UserError, match=words):
            mistake()


def test_a_long_sentence_is_cut_with_a_warning(model):
    limit = model.config.data.max_length
    with pytest.warns(UserWarning, match=f"line 2: {limit + 1} tokens, cut"):
        model.translate(["a", "a " * (limit + 1)], beam_size=1, max_length=2)


def test_weights_are_not_shown_for_words_that_a_search_does_not_read(model):
    limit = model.config.data.max_length
    long, just = "a " * (limit + 1), "a " * limit
    for shown in (model.attention_maps, partial(model.attention, words=True)):
        with pytest.raises(s2s.UserError, match=f"{limit + 1} tokens, and a search reads the first {limit};"):
            shown(long, beam_size=1, max_length=2)
        shown(just, beam_size=1, max_length=2)
        shown(long, "a")
    with pytest.warns(UserWarning, match="cut"):
        assert len(model.attention(long, beam_size=1, max_length=2).source) == limit + 1  # with </s>


def test_loading_draws_no_orthogonal_matrices(model, monkeypatch):
    monkeypatch.setattr(torch.linalg, "qr", None)
    assert s2s.load(model.folder).translate(["a b"]).sentences == ["b a"]


def test_half_a_surrogate_pair_is_refused_by_its_place(model):
    with pytest.raises(s2s.UserError, match=r"sentence 1: '\\ud800' at character 2 is half a surrogate pair"):
        model.translate(["a", "b \ud800 c"])


@pytest.mark.parametrize(
    ("name", "dtype"), [("demo", torch.bfloat16), ("demo", torch.float16), ("demo/transformer", torch.float64)]
)
def test_the_default_dtype_of_torch_changes_no_translation(name, dtype):
    """The weights have this dtype then, so that log-probabilities change by its rounding errors."""
    sentences = ["Tom chases Jerry", "Jerry sees the old cat ."]
    options = [{"beam_size": 1}, {"beam_size": 3, "n_best": 2}, {"temperature": 0.5, "seed": 1}]
    loaded = s2s.load(name)
    expected = [loaded.translate(sentences, **each) for each in options]
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        found = [s2s.load(name).translate(sentences, **each) for each in options]
    finally:
        torch.set_default_dtype(before)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.sentences == theirs.sentences
        assert ours.scores == pytest.approx(theirs.scores, abs=0.05)
