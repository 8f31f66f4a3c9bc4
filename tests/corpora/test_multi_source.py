"""Several sources in a line: what they become, and which lines are refused."""

import pytest
import torch

from seq2seq_attn.corpora.encoded import EncodedLines
from seq2seq_attn.corpora.multi_source import MultiSourceConfig
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.writing import write_bytes
from seq2seq_attn.strict import parse

TEXTS = {"texts": [{"tokenizer": "character"}, {"tokenizer": "word"}]}
LINES = ["run\tV PST", "cat\tN PL DAT", "", "\tV", "go\t"]


@pytest.fixture
def source():
    return parse(MultiSourceConfig, TEXTS).build(LINES)


def test_each_source_has_its_own_tokenizer_and_ends_by_itself(source):
    first, second = source.codecs
    assert source.encode("rat\tPL V") == [*first.encode("rat"), *second.encode("PL V")]
    assert source.labels("rat\tPL V") == ["r", "a", "t", "</s>", "PL", "V", "</s>"]
    assert source.encode("\tV") == [EOS, *second.encode("V")]
    assert list(source.items(["", "\t"])) == [[], []]
    assert source.size == (first.size, second.size)
    assert source.unknown_words("rxt\tPL X") == ["rxt", "X"]


def test_words_are_those_of_all_sources_with_an_end_between_them(source):
    line = "a cat\tN PL"
    assert source.words(line) == ["a", "cat", "</s>", "N", "PL"]
    words = source.words(line)
    labels = source.labels(line)
    assert [words[index] for index in source.word_indices(line)] == ["a", "cat", "cat", "cat", "cat", "</s>", "N", "PL"]
    assert len(source.word_indices(line)) == len(labels) - source.marks
    assert source.words("\tV") == ["</s>", "V"]
    assert source.word_indices("\tV") == [0, 1]


@pytest.mark.parametrize("line", ["run", "run\tV\tPST"])
def test_more_or_fewer_texts_are_refused_with_line_and_value(source, line):
    with pytest.raises(UserError, match=f"{line!r}".replace("\\", r"\\")):
        source.encode(line)
    with pytest.raises(UserError, match="line 2: 'run"):
        parse(MultiSourceConfig, TEXTS).build([LINES[0], line])


def test_a_batch_is_taken_apart_into_its_sources_and_put_together_again(source):
    lines = ["run\tV PST", "go\t", "\tN PL DAT"]
    batch = source.collate(EncodedLines.of(source.items(lines)))
    parts = batch.parts()
    for part, codec, texts in zip(
        parts, source.codecs, zip(*(line.split("\t") for line in lines), strict=True), strict=True
    ):
        assert [row[mask].tolist() for row, mask in zip(part.tokens, part.is_token, strict=True)] == list(
            map(codec.encode, texts)
        )
        assert part.tokens.shape[1] == part.lengths.max()
    together = torch.cat([part.tokens for part in parts], dim=1).gather(1, batch.places())
    assert torch.equal(together[batch.is_token], batch.tokens[batch.is_token])
    own = batch.select(torch.tensor([2, 2, 1]))
    assert own.tokens.shape == (3, 5)
    assert own.each.tolist() == [[1, 4], [1, 4], [3, 1]]
    assert own.lengths.tolist() == [5, 5, 4]


def test_what_is_too_long_loses_its_last_tokens_and_no_end(source):
    line = "run\tV PST"
    for limit, labels in {
        6: ["r", "u", "n", "</s>", "V", "PST", "</s>"],
        5: ["r", "u", "n", "</s>", "V", "</s>"],
        3: ["r", "u", "</s>", "</s>"],
    }.items():
        assert source.cut(source.labels(line), limit) == labels
        assert len(source.cut(source.encode(line), limit)) == len(labels) == limit + source.marks
    assert source.collate([source.cut(source.encode(line), 3)]).each.tolist() == [[3, 1]]


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_saved_source_reads_the_same(is_shared, tmp_path):
    config = parse(MultiSourceConfig, {"texts": [TEXTS["texts"][0]] * 2, "shared": is_shared})
    source = config.build(LINES)
    for name, content in source.files("source").items():
        write_bytes(tmp_path / name, content)
    again = config.load(tmp_path, "source")
    assert again.difference(source) is None
    assert len(set(again.codecs)) == (1 if is_shared else 2)
    assert ("x" in source.codecs[0].vocabulary, "D" in source.codecs[0].vocabulary) == (False, is_shared)
