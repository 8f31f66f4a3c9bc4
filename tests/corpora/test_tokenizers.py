import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from seq2seq_attn.corpora.tokenizers import Character, Moses, SentencePiece, Word, word_of_character
from seq2seq_attn.errors import UserError

LINES = [
    "A man in an orange hat starring at something.",
    "A Boston Terrier is running on lush green grass in front of a white fence.",
    "Five people wearing winter jackets and helmets stand in the snow.",
    "People are fixing the roof of a house.",
    "A man in light colored clothing photographs a group of men.",
    "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
    "Leute reparieren das Dach eines Hauses.",
]
text = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n"))


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def trained(request) -> SentencePiece:
    return SentencePiece.train(LINES, 85, request.param)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def normalizing(request) -> SentencePiece:
    return SentencePiece.train(LINES, 83, request.param, normalization="nmt_nfkc")


def tokenizers() -> list:
    subwords = SentencePiece.train(LINES, 83), SentencePiece.train(LINES, 83, normalization="nmt_nfkc")
    return [Word(), Moses("en"), Character(), *subwords]


@pytest.mark.parametrize("tokenizer", tokenizers(), ids=lambda tokenizer: tokenizer.kind)
class TestEveryTokenizer:
    def test_gives_no_piece_for_a_blank_line(self, tokenizer):
        assert tokenizer.encode("") == tokenizer.encode(" \t ") == []
        assert tokenizer.word_indices(" \t ") == []
        assert tokenizer.decode([]) == ""

    @given(line=text)
    @example(line="½x ﬁne…  汤姆\u3000杰瑞 ")
    @example(line=" a\x00b \x1f c")
    @settings(max_examples=60)
    def test_names_for_each_piece_a_word_of_the_line_in_order(self, tokenizer, line):
        pieces, indices = tokenizer.encode(line), tokenizer.word_indices(line)
        assert len(indices) == len(pieces)
        assert indices == sorted(indices)
        assert all(0 <= index < len(line.split()) for index in indices)

    def test_is_rebuilt_from_its_options(self, tokenizer):
        again = type(tokenizer)(**tokenizer.options())
        assert [again.encode(line) for line in LINES] == [tokenizer.encode(line) for line in LINES]


SYMBOLS = ["<2de>", "<NUM1>", "⟨x⟩"]


def protecting() -> list:
    text, options = [*LINES, "<2de> <NUM1>"], {"protected": SYMBOLS}
    subwords = [SentencePiece.train(text, size, model, **options) for size, model in ((89, "bpe"), (90, "unigram"))]
    nfkc = SentencePiece.train(text, 89, normalization="nfkc", **options)
    return [Word(SYMBOLS), Moses("en", SYMBOLS), Character(SYMBOLS), *subwords, nfkc]


@pytest.mark.parametrize("tokenizer", protecting(), ids=lambda tokenizer: tokenizer.kind)
class TestProtectedSymbols:
    @given(parts=st.lists(st.sampled_from([*SYMBOLS, "A man", " ", "hat", ".", "<2", "⟨", "<unk>"]), max_size=8))
    @settings(max_examples=60)
    def test_are_pieces_of_their_own_wherever_they_stand(self, tokenizer, parts):
        line = "".join(parts)
        wanted = re.findall("|".join(SYMBOLS), line)
        pieces = tokenizer.encode(line)
        assert [piece for piece in pieces if piece in SYMBOLS] == wanted
        assert re.findall("|".join(SYMBOLS), tokenizer.decode(pieces)) == wanted
        assert len(tokenizer.word_indices(line)) == len(pieces)

    def test_keep_their_case(self, tokenizer):
        assert tokenizer.lowercase("<NUM1>A Man<num1>") == "<NUM1>a man<num1>"

    def test_are_saved(self, tokenizer):
        again = type(tokenizer)(**tokenizer.options())
        assert again.encode("A <NUM1>man") == tokenizer.encode("A <NUM1>man")
        assert again.lowercase("<NUM1>A") == "<NUM1>a"

    def test_are_whole_in_a_segmentation_drawn_at_random(self, tokenizer):
        drawn = tokenizer.sample(["<2de> A man wearing<NUM1>"] * 20, 0.5, np.random.default_rng(1))
        for pieces in drawn:
            assert [piece for piece in pieces if piece in SYMBOLS] == ["<2de>", "<NUM1>"]


def test_the_white_space_between_two_words_belongs_to_the_second():
    assert word_of_character(" ab  c ") == [0, 0, 0, 1, 1, 1, 1]


def test_words_are_separated_by_white_space():
    assert Word().encode("two  dogs\tplay .") == ["two", "dogs", "play", "."]
    assert Word().decode(["two", "dogs", "play", "."]) == "two dogs play ."
    assert Word().word_indices("two  dogs\tplay .") == [0, 1, 2, 3]


@given(text)
@example("a ▁b▁▁ c ")
def test_characters_reproduce_the_line_exactly(line):
    assume(line.strip())
    assert Character().decode(Character().encode(line)) == line


def test_a_space_is_a_character_and_belongs_to_the_next_word():
    assert Character().encode("if so") == ["i", "f", "▁", "s", "o"]
    assert Character().word_indices("if so") == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("language", "line", "pieces"),
    [
        (
            "en",
            "Mr. Smith's dog can't swim, can it?",
            ["Mr.", "Smith", "'s", "dog", "can", "'t", "swim", ",", "can", "it", "?"],
        ),
        ("en", 'He said "no" & left...', ["He", "said", '"', "no", '"', "&", "left", "..."]),
        (
            "de",
            "Es kostet 3,50 Euro (z.B. hier).",
            ["Es", "kostet", "3,50", "Euro", "(", "z.B.", "hier", ")", "."],
        ),
        ("fr", "L'homme n'a pas d'eau.", ["L'", "homme", "n'", "a", "pas", "d'", "eau", "."]),
    ],
)
def test_moses_tokenizes_and_detokenizes_by_the_rules_of_the_language(language, line, pieces):
    moses = Moses(language)
    assert moses.encode(line) == pieces
    assert moses.decode(pieces) == line


def test_moses_pieces_have_the_index_of_their_word():
    assert Moses("en").word_indices("Don't stop, Mr. Smith!") == [0, 0, 1, 1, 2, 3, 3]


def test_moses_pieces_have_the_index_of_their_word_even_if_control_characters_are_dropped():
    assert Moses("en").encode("a\x00b, c\x01d") == ["ab", ",", "cd"]
    assert Moses("en").word_indices("a\x00b, c\x01d") == [0, 0, 1]


@pytest.mark.parametrize("language", ["fra", "fre", "fr-FR", "French"])
def test_moses_has_the_rules_of_a_language_in_any_spelling(language):
    assert Moses(language).encode("L'homme") == ["L'", "homme"]
    assert Moses(language).options() == {"language": "fr"}


def test_moses_refuses_a_language_without_rules():
    with pytest.raises(UserError, match=r"the rules of Moses are for the languages as, bn, .*; 'da' is none of them"):
        Moses("dan")


@given(line=text)
@example(line="５ m²… A ﬁne ½ cup　ｶﾞ 汤姆，杰瑞！？：")
@example(line="  Cours\u202f! \t a▁b▅\0 <s> \r ⁇ \u2028 ")
@settings(max_examples=200)
def test_sentencepiece_reproduces_every_line_exactly(trained, line):
    assume(line.strip() and not {ord(each) for each in line} & {0xF0000, 0xF0009, 0xF2581, 0xF2585})
    assert trained.decode(trained.encode(line)) == line


@given(line=text)
@example(line="A ﬁne ½ cup… 汤姆，杰瑞")
@settings(max_examples=60)
def test_sentencepiece_reproduces_the_normalized_line(normalizing, line):
    assume("▁" not in line)
    once = normalizing.decode(normalizing.encode(line))
    assert normalizing.decode(normalizing.encode(once)) == once
    if line.isascii() and line.isprintable():
        assert once == " ".join(line.split())


@pytest.mark.parametrize(
    ("normalization", "pieces"),
    [
        ("identity", "▁Ａ，…▁▁²"),
        ("nfkc", "▁A,...▁2"),
        ("nmt_nfkc", "▁A,...▁2"),
        ("nfkc_cf", "▁a,...▁2"),
        ("nmt_nfkc_cf", "▁a,...▁2"),
    ],
)
def test_sentencepiece_rewrites_text_by_the_rules_that_are_asked_for(normalization, pieces):
    assert "".join(SentencePiece.train(LINES, 83, normalization=normalization).encode("Ａ，…  ²")) == pieces


def test_characters_beyond_the_coverage_have_no_piece():
    rare = [*LINES * 10, "x汤y"]
    assert "汤" in SentencePiece.train(rare, 83).vocabulary()
    assert "汤" not in SentencePiece.train(rare, 83, character_coverage=0.999).vocabulary()


def test_bpe_learns_the_same_from_a_line_of_any_length_as_from_its_sentences():
    lines = LINES * 100
    assert len(" ".join(lines)) > 30_000
    assert SentencePiece.train([" ".join(lines)], 83).model == SentencePiece.train(lines, 83).model


@pytest.mark.parametrize("model", ["bpe", "unigram"])
@pytest.mark.parametrize(
    "line",
    ["语" * 70_000 + "汤", "Jerry " * 2_000 + "汤", "汤 ▅", "汤\0", "汤\t", "汤▁", "汤 <s> </s>", "<unk>汤<pad>"],
    ids=lambda line: repr(line[-9:]),
)
def test_sentencepiece_learns_from_all_of_the_text(model, line):
    for normalization in ("nmt_nfkc", "identity"):
        learned = SentencePiece.train([*LINES, line], 90, model, normalization=normalization)
        assert not {"汤", "▁汤"}.isdisjoint(learned.vocabulary().get_itos())
    line = line[-50:]
    known = [piece for piece in learned.encode(line) if piece in learned.vocabulary()]
    assert learned.decode(known) == line


def test_sentencepiece_pieces_have_the_index_of_their_word(trained, normalizing):
    line = " ½ of  ﬁne roofs"
    for tokenizer, words in {
        trained: ["▁▁½", "▁of", "▁▁ﬁne", "▁roofs"],
        normalizing: ["▁1⁄2", "▁of", "▁fine", "▁roofs"],
    }.items():
        pieces, indices = tokenizer.encode(line), tokenizer.word_indices(line)
        assert ["".join(p for p, i in zip(pieces, indices, strict=True) if i == word) for word in range(4)] == words


@pytest.mark.parametrize("model", ["bpe", "unigram"])
def test_sentencepiece_trained_twice_gives_the_same_bytes(model):
    assert SentencePiece.train(LINES, 85, model).model == SentencePiece.train(LINES, 85, model).model


@pytest.mark.parametrize("model", ["bpe", "unigram"])
def test_sentencepiece_reports_the_largest_possible_vocabulary(model):
    with pytest.raises(
        UserError, match=r"vocabulary size 5000 is too large for 7 lines; set text\.vocabulary_size to at most \d+$"
    ) as error:
        SentencePiece.train(LINES, 5000, model)
    most = int(str(error.value).split()[-1])
    assert len(SentencePiece.train(LINES, most, model).vocabulary()) == most


def test_sentencepiece_reports_the_smallest_possible_vocabulary():
    with pytest.raises(
        UserError, match=r"too small for the characters alone; set text\.vocabulary_size to at least"
    ) as error:
        SentencePiece.train(LINES, 9)
    fewest = int(re.findall(r"\d+", str(error.value))[1])
    assert len(SentencePiece.train(LINES, fewest).vocabulary()) == fewest


def test_sentencepiece_refuses_text_that_is_all_blank():
    with pytest.raises(UserError, match="no text to learn pieces from"):
        SentencePiece.train(["", " "], 50)


def test_sentencepiece_vocabulary_has_the_ids_of_the_model(trained):
    vocabulary = trained.vocabulary()
    assert len(vocabulary) == 85
    assert vocabulary.get_itos()[:4] == ["<unk>", "<pad>", "<s>", "</s>"]
    for line in LINES:
        pieces = trained.encode(line)
        assert vocabulary.lookup_indices(pieces) == trained._processor.encode(line)


def samples(tokenizer, lines, alpha, seed=1):
    return list(tokenizer.sample(lines, alpha, np.random.default_rng(seed)))


def test_a_sampled_segmentation_is_of_the_same_line_and_is_repeated_by_its_seed(trained):
    sampled = samples(trained, LINES, 0.3)
    assert [trained.decode(pieces) for pieces in sampled] == LINES
    assert [trained.decode(pieces) for pieces in samples(trained, [" a\tman  ▁"], 0.3)] == [" a\tman  ▁"]
    assert sampled == samples(trained, LINES, 0.3)
    assert sampled != samples(trained, LINES, 0.3, seed=2)
    assert sampled != [trained.encode(line) for line in LINES]


def test_chunks_of_lines_are_sampled_independently_and_none_is_lost(trained, monkeypatch):
    monkeypatch.setattr(SentencePiece, "_CHUNK", 3)
    sampled = samples(trained, [LINES[1], "", LINES[3]] * 3, 0.3)
    assert [trained.decode(pieces) for pieces in sampled] == [LINES[1], "", LINES[3]] * 3
    assert len({tuple(pieces) for pieces in sampled[::3]}) == 3


def test_bpe_without_any_merge_consists_of_characters():
    bpe = SentencePiece.train(LINES, 85, "bpe")
    (pieces,) = samples(bpe, [LINES[3]], alpha=1.0)
    assert pieces == list("▁" + LINES[3].replace(" ", "▁"))


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_unigram_samples_segmentations_in_proportion_to_their_probabilities_to_the_power_alpha(alpha):
    unigram = SentencePiece.train(LINES, 85, "unigram")
    scores = {piece: unigram._processor.get_score(i) for i, piece in enumerate(unigram.vocabulary().get_itos())}

    def segmentations(rest):
        """Each segmentation of the text with its log-probability."""
        if not rest:
            return [((), 0.0)]
        return [
            ((rest[:end], *tail), scores[rest[:end]] + score)
            for end in range(1, len(rest) + 1)
            if rest[:end] in scores
            for tail, score in segmentations(rest[end:])
        ]

    found = dict(segmentations("▁jackets"))
    weights = {pieces: np.exp(alpha * score) for pieces, score in found.items()}
    assert len(weights) > 3
    draws = Counter(map(tuple, samples(unigram, ["jackets"] * 5000, alpha)))
    for pieces, weight in weights.items():
        assert draws[pieces] / 5000 == pytest.approx(weight / sum(weights.values()), abs=0.03)


def test_fixed_rules_have_one_segmentation():
    assert samples(Word(), ["a b", "c"], 0.5) == [["a", "b"], ["c"]]


def test_a_line_of_what_only_python_takes_for_white_space_has_no_pieces():
    tokenizer = SentencePiece.train(LINES, 83, "bpe")
    assert (tokenizer.encode("\x85"), tokenizer.word_indices("\x85")) == ([], [])
    assert list(tokenizer.sample(["\x85", " "], 0.1, np.random.default_rng(1))) == [[], []]
