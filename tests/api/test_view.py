"""AttentionViews of the attention of any model: labels, words, links, measures, pages, and what is refused."""

import base64
import json
import zlib

import numpy as np
import pytest
import torch

import seq2seq_attn as s2s
from seq2seq_attn.evaluation.alignment import GoldCorpus

SOURCE, TARGET = ["▁The", "▁ti", "ger", "▁sleeps", "</s>"], ["▁Der", "▁Ti", "ger", "</s>"]
WEIGHTS = np.random.default_rng(1).dirichlet(np.ones(5), size=(2, 3, 4))  # (layers, heads, T, S)


@pytest.mark.parametrize(
    ("weights", "heads"),
    [
        (WEIGHTS[0, 0].tolist(), [1]),
        (torch.tensor(WEIGHTS[0, 0]), [1]),
        (WEIGHTS[0], [3]),
        (torch.tensor(WEIGHTS, dtype=torch.bfloat16), [3, 3]),
        ([WEIGHTS[0], WEIGHTS[1, :1]], [3, 1]),
        ((torch.tensor(WEIGHTS[0, 0]), torch.tensor(WEIGHTS[1, 0])), [1, 1]),
    ],
)
def test_weights_come_in_any_shape(weights, heads):
    found = s2s.view(weights, SOURCE, TARGET)
    assert [len(layer) for layer in found.layers] == heads
    np.testing.assert_allclose(found.layers[0][0], WEIGHTS[0, 0], atol=0.01)
    assert found.weights.shape == (4, 5)


@pytest.mark.parametrize(
    ("join", "labels"),
    [
        ("▁", ["▁The", "▁ti", "ger", "▁", "sleeps", "</s>"]),
        ("@@", ["The", "ti@@", "ger", "sle@@", "eps", "</s>"]),
        ("##", ["[CLS]", "The", "ti", "##ger", "sleeps", "[SEP]"]),
        ("Ġ", ["The", "Ġti", "ger", "Ġsle", "eps", "</s>"]),
        (None, ["The", "tiger", "sleeps"]),
    ],
)
def test_pieces_are_joined_to_words_by_their_marks(join, labels):
    weights = np.full((2, len(labels)), 1 / len(labels))
    words = s2s.view(weights, labels, ["x", "</s>"], join=join).words()
    assert (words.source, words.target) == (("The", "tiger", "sleeps"), ("x",))
    pieces = [1, 2, 1] if join == "##" else [1, 1, 1] if join is None else [1, 2, 2]
    np.testing.assert_allclose(words.weights[0], np.array(pieces) / len(labels))


def test_byte_level_pieces_are_decoded_and_a_mark_alone_is_no_word():
    assert s2s.view(np.eye(2), ["ĠschlÃ¤", "ft"], ["ĠçĬ", "¬"], join="Ġ").words().source == ("schläft",)
    assert s2s.view(np.eye(3), ["▁", "▁a", "b"], [*"xyz"], join="▁").words().source == ("ab",)


def test_links_and_rates_are_those_of_the_words():
    found = s2s.view(WEIGHTS, SOURCE, TARGET, join="▁", gold="0-0 1p1 2-1")
    columns = [[0], [1, 2], [3]]
    merged = np.stack([WEIGHTS[..., each].sum(axis=-1) for each in columns], axis=-1)[:, :, :3]
    merged = np.stack([merged[:, :, 0], merged[:, :, 1:3].mean(axis=2)], axis=2)
    np.testing.assert_allclose(found.words().layers, merged)
    for row in found.heads().to_records()[:3]:
        links = {(int(merged[0, row["head"], j].argmax()), j) for j in range(2)}
        hits = len(links & {(0, 0), (2, 1)}), len(links & {(0, 0), (1, 1), (2, 1)})
        assert row["aer"] == pytest.approx(1 - sum(hits) / (2 + 2))
    several = s2s.view([WEIGHTS] * 2, [SOURCE] * 2, [TARGET] * 2, join="▁", gold=["0-0 1p1 2-1"] * 2)
    assert several.heads().to_records()[0]["aer"] == found.heads().to_records()[0]["aer"]
    aligned = several.align(layer=0, head=1)
    assert aligned[1].source == "The tiger sleeps"
    assert aligned.agreement(several.gold).rates.items() <= several.heads().to_records()[1].items()
    assert isinstance(several.gold, GoldCorpus)
    assert found.head(1, 2).words().links == several.align(layer=1, head=2).links[0]


def test_without_gold_links_heads_have_entropies():
    uniform = s2s.view(np.full((2, 3, 8), 1 / 8), [*"abcdefgh"], [*"xyz"])
    assert uniform.entropy == pytest.approx(3)
    assert uniform.heads().best is None
    assert "entropy" in repr(uniform.heads())
    assert uniform.heads().to_records()[0] == {"layer": 0, "head": 0, "entropy": pytest.approx(3)}


def test_leaving_out_a_word_leaves_out_its_pieces():
    found, seen = s2s.view(WEIGHTS, SOURCE, TARGET, join="▁"), []

    def predict(readable):
        seen.extend(readable.tolist())
        return -(~readable).sum(axis=1)[:, None] * np.arange(1, 5.0)  # each label more than the one before

    measured = found.leave_one_out(predict)
    assert [sum(row) for row in seen] == [5, 4, 3, 4]  # all, and without each word; `</s>` stays
    np.testing.assert_array_equal(measured, [[1, 2, 1], [5, 10, 5]])  # two pieces: 2 + 3
    with pytest.raises(s2s.UserError, match="predict"):
        found.leave_one_out(lambda readable: np.zeros(4))
    with pytest.raises(s2s.UserError, match=r"importance, pair 0: shape \(3, 2\)"):
        found.heads(importance=[measured.T])


def shown_on(page):
    """The data of the viewer of a page."""
    packed = page.partition('id="packed">')[2].partition("</script>")[0]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def test_a_page_has_all_heads_of_all_pairs(tmp_path):
    pairs = s2s.view([WEIGHTS, WEIGHTS], [SOURCE, SOURCE], [TARGET, TARGET], join="▁", gold=["0-0", "2-1"])
    page = pairs.save(tmp_path / "attention.html").read_text(encoding="utf-8")
    assert "http" not in page.partition("<footer>")[0].replace("http-equiv", "")
    data = shown_on(page)
    assert data["sources"] == ["The tiger sleeps"] * 2
    views = data["examples"]["2"]
    names = [each["arm"] for each in views]
    assert names[:2] == ["mean of all heads", "layer 0, head 0"]
    assert len(names) == 1 + 2 * (3 + 1)
    chosen = views[names.index("layer 1, head 2")]
    np.testing.assert_allclose([step[2] for step in chosen["steps"]], WEIGHTS[1, 2], atol=1e-4)
    assert (chosen["sourceWords"], data["gold"][1]) == ([0, 1, 1, 2, 3], [[2, 1]])
    single = s2s.view(np.eye(3), ["<s>", "a", "</s>"], [*"xyz"], gold=[(0, 2)])
    data = shown_on(single.save(tmp_path / "single.html").read_text(encoding="utf-8"))
    assert [each["arm"] for each in data["examples"]["1"]] == ["mean of all heads"]
    assert data["gold"] == [[[1, 2]]]  # the word after `<s>`


def test_a_view_of_a_model_of_this_package_is_the_same_record(tmp_path):
    maps = s2s.load("demo/transformer", "cpu").attention_maps("Tom chases Jerry", "汤姆 追逐 杰瑞")
    found = s2s.view(list(maps.cross.layers), maps.cross.source, maps.cross.target)
    assert repr(found.words().heads()) == repr(maps.cross.heads())
    assert found._repr_html_() == maps.cross._repr_html_()
    pages = [each.save(tmp_path / "x.html").read_bytes() for each in (found, maps.cross)]
    assert pages[0] == pages[1]


def test_pictures_and_files_have_the_weights(tmp_path):
    found = s2s.view(WEIGHTS, SOURCE, TARGET, join="▁", gold="1-1")
    panels = found.plot().axes[:-1]
    assert [axes.images[0].get_array().tolist() for axes in panels] == [
        head.tolist() for head in WEIGHTS.reshape(6, 4, 5)
    ]
    boxes = {patch.get_bbox().bounds[:2] for patch in panels[0].patches}
    assert boxes == {(0.5, 0.5), (1.5, 0.5), (0.5, 1.5), (1.5, 1.5)}  # every piece of both words
    assert found.save(tmp_path / "x.svg").read_bytes().startswith(b"<?xml")
    record = json.loads(found.save(tmp_path / "x.jsonl").read_text(encoding="utf-8"))
    np.testing.assert_allclose(record["translations"][0]["weights"], WEIGHTS.mean(axis=(0, 1)), atol=1e-5)
    with pytest.raises(s2s.UserError, match=r"x\.pdf"):
        found.save(tmp_path / "x.pdf")


def test_a_notebook_shows_heads_and_gold_links():
    text = s2s.view(WEIGHTS, SOURCE, TARGET, gold="0-0")._repr_html_()
    assert text.count('class="gold"') == 1
    assert "▁sleeps" in text
    several = s2s.view([WEIGHTS] * 11, [SOURCE] * 11, [TARGET] * 11)._repr_html_()
    assert several.count('<div class="s2s-steps"') == 10
    assert "1 more pairs" in several


DAMAGED = WEIGHTS.copy()
DAMAGED[1, 2, 3, 0] = np.nan


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        (WEIGHTS[..., :4], {}, r"layer 0 .*\(3, 4, 4\).*4 target and 5 source labels"),
        (WEIGHTS[None], {}, "labels"),
        (DAMAGED, {}, "layer 1, head 2, row 3, column 0 is nan"),
        (-WEIGHTS, {}, "layer 0, head 0, row 0, column 0 is -"),
        (WEIGHTS * 0.9, {}, r"layer 0, head 0, row 0 sums to 0\.900.*normalized=False"),
        ("abc", {}, "'abc' is not an array"),
        (WEIGHTS, {"gold": "4-0"}, "gold link 4-0, but the pair has 4 source and 3 target words"),
        (WEIGHTS, {"join": "▁", "gold": "0-0 9-9"}, "gold link 9-9, but the pair has 3 source and 2 target words"),
        (WEIGHTS, {"join": "_"}, "join '_'"),
    ],
)
def test_what_are_no_weights_is_refused_in_one_line(weights, options, message):
    with pytest.raises(s2s.UserError, match=message):
        s2s.view(weights, SOURCE, TARGET, **options)


def test_labels_that_are_no_lists_of_strings_are_refused():
    with pytest.raises(s2s.UserError, match=r"source\.split\(\)"):
        s2s.view(np.eye(2), "a b", ["x", "y"])
    with pytest.raises(s2s.UserError, match="source label 5 is not a string"):
        s2s.view(np.eye(2), ["a", 5], ["x", "y"])
    with pytest.raises(s2s.UserError, match="2 pairs for 2 sources and 1 targets"):
        s2s.view([np.eye(2)] * 2, [["a", "b"]] * 2, [["x", "y"]])
    assert s2s.view(np.eye(2) * 0.5, ["a", "b"], ["x", "y"], normalized=False).weights[0, 0] == 0.5


def test_padding_is_left_out_and_must_have_no_weight():
    source, target = ["a", "b", "<pad>"], ["x", "</s>", "<pad>"]
    found = s2s.view(np.array([[0.5, 0.5, 0.0], [1, 0, 0], [0, 0, 0]]), source, target)
    assert (found.source, found.target) == (("a", "b"), ("x", "</s>"))
    with pytest.raises(s2s.UserError, match=r"row 1 has 0\.200 of its weight on padding"):
        s2s.view(np.array([[0.5, 0.5, 0.0], [0.8, 0, 0.2], [0, 0, 1]]), source, target)
