"""Text that is put aside before it is tokenized, numbered by the source, and restored in the translation."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.learning import train_codecs
from seq2seq_attn.corpora.placeholders import Placed, PlaceholderReport, Placeholders
from seq2seq_attn.corpora.text_config import TextConfig
from seq2seq_attn.errors import UserError

KINDS = ("url", "email", "number", "tag", "code=[A-Z]{2}-[0-9]+")
SOURCES = ["see http://a.de/x?y=1, by ann@b.org .", "AB-7 costs <b>1,000.5</b> or 20 ⟨x1⟩", "nothing here"] * 4
TARGETS = ["ann@b.org : siehe http://a.de/x?y=1 .", "20 oder <b>1,000.5</b> für AB-7 ⟨x1⟩, 30", "hier nichts"] * 4
TOKENIZERS = ["word", "moses", "character", "bpe", "unigram"]
EXACT = ["character", "bpe", "unigram"]


def train(tokenizer, **options) -> tuple[Codec, Codec]:
    text = {"tokenizer": tokenizer, "target_language": "de", "placeholders": KINDS, **options}
    return train_codecs(ParallelCorpus(SOURCES, TARGETS, "corpus"), TextConfig(**text))


@pytest.fixture(scope="module", params=TOKENIZERS)
def codecs(request):
    return train(request.param)


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("url", "(http://a.b/c_(d)?e=f&g), www.x.org. ftp://y", ["http://a.b/c_(d)?e=f&g", "www.x.org", "ftp://y"]),
        ("email", "to a.b+c@d-e.org.", ["a.b+c@d-e.org"]),
        ("number", "1, 2.50 x3 4th 1,000.5. 7% $8 -9", ["1", "2.50", "1,000.5", "7", "8", "9"]),
        ("tag", '<a href="b c">d</a> 1 < 2 > 1 ⟨x1⟩ <br/>', ['<a href="b c">', "</a>", "⟨x1⟩", "<br/>"]),
        ("code=[A-Z]{2}-[0-9]+", "AB-7 AB7", ["AB-7"]),
    ],
)
def test_a_pattern_finds_what_it_is_named_after(kind, text, found):
    assert list(Placeholders([kind]).values(text)) == found


def test_a_target_has_the_numbers_of_its_source(codecs):
    """In another order, and without the text that the source does not have."""
    source, target = codecs
    symbol = re.compile("⟨[a-z]+[1-9]⟩")
    read = [[piece for piece in source.pieces(line) if symbol.fullmatch(piece)] for line in SOURCES[:3]]
    assert read == [["⟨url1⟩", "⟨email1⟩"], ["⟨code1⟩", "⟨tag1⟩", "⟨number1⟩", "⟨tag2⟩", "⟨number2⟩", "⟨tag3⟩"], []]
    pairs = zip(SOURCES[:3], TARGETS, strict=False)
    written = [[piece for piece in target.given(one).pieces(two) if symbol.fullmatch(piece)] for one, two in pairs]
    assert written == [
        ["⟨email1⟩", "⟨url1⟩"],
        ["⟨number2⟩", "⟨tag1⟩", "⟨number1⟩", "⟨tag2⟩", "⟨code1⟩", "⟨tag3⟩"],
        [],
    ]


def test_the_source_is_restored_in_the_translation(codecs):
    """With numbers that training never had."""
    _, target = codecs
    source = "<i>77</i> or 5 , see www.new.com/z"
    codec = target.given(source)
    ids = target.vocabulary.lookup_indices(["⟨number2⟩", "⟨tag2⟩", "⟨number1⟩", "⟨url1⟩"])
    assert codec.decode(ids).replace(" ", "") == "5</i>77www.new.com/z"


@pytest.mark.parametrize("tokenizer", EXACT)
def test_encoding_and_decoding_is_the_identity(tokenizer):
    source, target = train(tokenizer)
    for one, two in zip(SOURCES, TARGETS, strict=True):
        assert source.given(one).decode(source.encode(one)) == one
        assert target.given(one).decode(target.given(one).encode(two)) == two
    assert not list(target.changes(TARGETS))


WORDS = st.sampled_from(
    [
        "a",
        "http://a.de",
        "www.b.c",
        "5",
        "6,5",
        "<b>",
        "<i x='7'>",
        "⟨url1⟩",
        "⟨url2⟩",
        "⟨number1⟩",
        "⟨tag3⟩",
        "AB-1",
        ".",
        " ",
    ]
)


@given(st.lists(WORDS, max_size=12).map("".join), st.lists(WORDS, max_size=12).map("".join))
@example("⟨url2⟩ http://a.de", "http://a.de")
@example("<a href='⟨number1⟩'> 5 <b>", "5")
def test_any_text_is_restored_even_where_it_looks_like_a_symbol(line, other):
    placeholders = Placeholders(KINDS)
    values = placeholders.values(line)
    assert placeholders.restored(placeholders.masked(line), values) == line
    assert len(set(values.values())) == len(values)
    if not re.search("⟨[a-z]+[0-9]⟩", other):
        assert placeholders.restored(placeholders.masked(other, line), values) == other


def test_more_than_nine_of_a_kind_stay_text():
    line = " ".join(map(str, range(11, 25)))
    masked = Placeholders(["number"]).masked(line)
    assert masked == " ".join([*(f"⟨number{n}⟩" for n in range(1, 10)), *map(str, range(20, 25))])


def test_pieces_come_from_the_words_of_the_line(codecs):
    """A tag with a blank in it is two words of the line, and one piece."""
    source, _ = codecs
    line = 'nothing <a href="x y"> here 77 .'
    words = [line.split()[index] for index in source.word_indices(line)]
    assert len(words) == len(source.pieces(line))
    of = dict(zip(source.pieces(line), words, strict=True))
    assert (of["⟨tag1⟩"], of["⟨number1⟩"]) == ("<a", "77")
    assert 'y">' not in words


def test_what_is_read_of_a_source_has_no_placeholders():
    assert Placeholders(["url", "tag"]).read("SEE <b>www.a.de</b>, 5") == "SEE , 5"


def test_case_is_kept_in_what_is_put_aside():
    source, _ = train("word", lowercase=True)
    line = "See http://A.de/X"
    assert source.pieces(line) == ["see", "⟨url1⟩"]
    assert source.given(line).decode(source.encode(line)).endswith("http://A.de/X")


def test_a_codec_is_read_back_with_its_placeholders(codecs, tmp_path):
    for codec in codecs:
        for name, content in codec.files("source").items():
            (tmp_path / name).write_bytes(content)
        again = Codec.load(tmp_path, "source")
        assert again.rules() == codec.rules()
        assert again.encode(SOURCES[1]) == codec.encode(SOURCES[1])
    plain = train("word", placeholders=())[0]
    assert plain.difference(train("word")[0]) is not None
    assert b"placeholders" not in plain.files("source")["source.tokenizer.json"]
    damaged = codec.files("source")["source.tokenizer.json"].replace(b'"email"', b'"mail"')
    (tmp_path / "source.tokenizer.json").write_bytes(damaged)
    with pytest.raises(UserError, match=r"source.*mail"):
        Codec.load(tmp_path, "source")


def test_samples_of_a_target_have_the_numbers_of_its_source():
    import numpy as np

    _, target = train("bpe")
    drawn = target.sample(TARGETS[:2], 0.5, np.random.default_rng(1), SOURCES[:2])
    for one, two, ids in zip(SOURCES, TARGETS, drawn, strict=False):
        assert target.given(one).decode(ids) == two


@pytest.mark.parametrize(
    "names",
    [["link"], ["url", "url"], ["x1=[0-9]"], ["x=[0-9"], ["x=([0-9])"]],
)
def test_what_is_no_pattern_is_refused(names):
    with pytest.raises(ValueError, match=names[-1].partition("=")[0]):
        TextConfig(placeholders=names)


def test_a_protected_symbol_is_no_part_of_a_placeholder():
    with pytest.raises(ValueError, match="⟨url1⟩"):
        TextConfig(placeholders=["url"], protected=["⟨"])
    with pytest.raises(ValueError, match="<de>"):
        TextConfig(placeholders=["tag"], protected=["<de>"])


def test_placeholders_are_counted():
    placeholders = Placeholders(["number"])
    assert placeholders.placed("1 2 1", ["⟨number1⟩", "x", "⟨number3⟩", "⟨number1⟩"]) == (
        Placed("⟨number1⟩", "1", 2, 2),
        Placed("⟨number2⟩", "2", 1, 0),
        Placed("⟨number3⟩", None, 0, 1),
    )
    report = PlaceholderReport()
    report.add(placeholders.placed("1 2 3", ["⟨number1⟩", "⟨number3⟩", "⟨number3⟩", "⟨number9⟩"]))
    assert (report.total, report.kept, report.missing, report.repeated, report.without_source) == (3, 1, 1, 1, 1)
