"""Words with factors: what a line becomes, and which lines are refused."""

import numpy as np
import pytest
import torch

from seq2seq_attn.corpora.encoded import EncodedLines
from seq2seq_attn.corpora.factored import FactoredConfig
from seq2seq_attn.corpora.text_config import TextConfig
from seq2seq_attn.corpora.vocabulary import EOS, PAD, UNK
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.writing import write_bytes
from seq2seq_attn.strict import parse

LINES = ["dogs|NOUN|pl run|VERB|pl", "a|DET|sg dog|NOUN|sg runs|VERB|sg", "", "cats|NOUN|pl sleep|VERB|pl"]


def build(lines=LINES, **options):
    text = options.pop("text", {"tokenizer": "word"})
    return parse(FactoredConfig, {"factors": 2, "text": text} | options).build(lines)


def test_a_line_is_one_row_of_ids_for_each_word_and_its_factors():
    source = build()
    words, *factors = source.codec.vocabulary, *source.factors
    expected = [
        [words["dogs"], factors[0]["NOUN"], factors[1]["pl"]],
        [words["run"], factors[0]["VERB"], factors[1]["pl"]],
    ]
    assert source.encode(LINES[0]).tolist() == [*expected, [EOS] * 3]
    assert source.size == (4 + 7, 4 + 3, 4 + 2)
    assert [len(item) for item in source.items(["", LINES[0]])] == [0, 3]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character", "word"])
def test_every_piece_of_a_word_has_the_factors_of_the_word(kind):
    source = build(text={"tokenizer": kind, "vocabulary_size": {"bpe": 26, "unigram": 20}.get(kind)})
    for line in filter(None, LINES):
        pieces, word_of = source.codec.pieces(" ".join(source.words(line))), source.word_indices(line)
        ids, (_, *factors) = source.encode(line), source.split(line)
        assert len(pieces) == len(ids) - 1 >= len(source.words(line))
        for piece, label, word, row in zip(pieces, source.labels(line), word_of, ids, strict=False):
            values = [each[word] for each in factors]
            assert label == "|".join([piece, *values])
            assert [
                known.lookup_tokens([index])[0] for known, index in zip(source.factors, row[1:], strict=True)
            ] == values


def test_columns_say_the_same_as_bars_and_another_separator():
    source, other = build(), build([line.replace("|", "_") for line in LINES], separator="_")
    columns = "dogs run\tNOUN VERB\tpl pl"
    assert source.encode(columns).tolist() == source.encode(LINES[0]).tolist()
    assert other.encode(LINES[0].replace("|", "_")).tolist() == source.encode(LINES[0]).tolist()
    assert source.difference(other) is not None
    assert source.difference(build()) is None


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("dogs|NOUN|pl run|VERB", "'run|VERB'"),
        ("dogs|NOUN|pl|x run|VERB|pl", r"'dogs\|NOUN\|pl\|x'"),
        ("dogs||pl", r"'dogs\|\|pl'"),
        ("dogs", "'dogs'"),
        ("dogs run\tNOUN VERB", "1 columns"),
        ("dogs run\tNOUN VERB\tpl", "2 words, and 1 values of factor 2"),
    ],
)
def test_more_or_fewer_factors_than_words_are_refused_with_line_and_value(line, value):
    source = build()
    with pytest.raises(UserError, match=value):
        source.encode(line)
    with pytest.raises(UserError, match=f"line 3: .*{value.split(',')[0]}"):
        build([*LINES[:2], line])


def test_unknown_values_and_what_is_spelled_like_a_special_token_are_unknown():
    source = build()
    rows = source.encode("dogs|X|pl mice|NOUN|</s> dogs|NOUN|sg").tolist()
    assert [[index == UNK for index in row] for row in rows[:3]] == [[0, 1, 0], [1, 0, 1], [0, 0, 0]]
    assert source.unknown_words("dogs|X|pl mice|NOUN|</s> dogs|NOUN|sg") == ["dogs|X|pl", "mice|NOUN|</s>"]
    count = source.count_unknown(["dogs|X|pl dog|NOUN|sg", ""])
    assert tuple(count) == (1, 2)


def test_batches_are_padded_cut_and_selected():
    source = build()
    items = EncodedLines.of(source.items([LINES[1], LINES[0]]))
    batch = source.collate(items)
    assert batch.tokens.shape == (2, 4, 3)
    assert batch.lengths.tolist() == [4, 3]
    assert batch.tokens[1, 3].tolist() == [PAD] * 3
    assert batch.is_token.tolist() == [[True] * 4, [True] * 3 + [False]]
    own = batch.select(torch.tensor([1]))
    assert type(own) is type(batch)
    assert own.tokens[0].tolist() == source.encode(LINES[0]).tolist()
    np.testing.assert_array_equal(source.cut(source.encode(LINES[1]), 1), source.encode(LINES[1])[[0, -1]])
    assert source.cut(source.labels(LINES[1]), 1) == ["a|DET|sg", "</s>"]


def test_a_saved_source_reads_the_same(tmp_path):
    config = parse(FactoredConfig, {"factors": 2, "text": {"tokenizer": "word", "lowercase": True}})
    source = config.build(LINES)
    for name, content in source.files("source").items():
        write_bytes(tmp_path / name, content)
    assert config.load(tmp_path, "source").difference(source) is None
    (tmp_path / "source.factor-2.txt").unlink()
    with pytest.raises(UserError, match=r"source\.factor-2\.txt"):
        config.load(tmp_path, "source")


def test_options_that_are_left_out_are_those_of_the_text():
    text = parse(TextConfig, {"tokenizer": "character", "lowercase": True, "target_language": "de"})
    assert FactoredConfig().completed(text).text.tokenizer == "character"
    own = FactoredConfig(text=parse(TextConfig, {"tokenizer": "word"}))
    assert own.completed(text) is own
