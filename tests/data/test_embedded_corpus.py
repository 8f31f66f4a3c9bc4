"""The corpora of data/, as they were committed, and as the package finds them."""

import gzip
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from generator import word_list
from generator.grammar import Phrase
from generator.tom_and_jerry import BANDS, pairs_of_length
from make import RECIPES, SEED, main, make
from seq2seq_attn.corpora.download import known_corpora
from seq2seq_attn.corpora.embedded import EMBEDDED, glosses

FOLDER = Path(__file__).parents[2] / "data" / "tom-and-jerry"
SLOW = "tom-and-jerry"  # to generate: seconds

# The words of the constructions; all others are in the word tables.
FUNCTION_WORDS = """
    that-的 's-的 by-被 and-和 than-比 to-给 not-没有 not-不 will-会 is-正在 are-正在 is-很 are-很 is-有 are-有
    did-了 was-了 were-了 a-一 an-一 this-这 these-这些 this-今天 every-每天 yesterday-昨天 tomorrow-明天
    in-在 near-在 behind-在 outside-在 beside-在
    .-。 ,-， ?-？ ?-吗 who-谁 what-什么 where-在 where-哪里 why-为什么 how-几 many-几
    because-因为 although-虽然 although-但是 if-如果 when-当 when-时 after-之后
    but-但是 so-所以 then-然后 while-而 or-或者 yet-不过 but-， so-， then-， while-， or-， yet-，
"""


class Part:
    """One part of the committed corpus, read without the package."""

    def __init__(self, name: str) -> None:
        self.source, self.target, links = (_read(f"{name}.{side}").splitlines() for side in ("en", "zh", "align"))
        self.links = [[tuple(map(int, link.split("-"))) for link in line.split()] for line in links]

    def __iter__(self):
        sides = ([line.split(" ") for line in side] for side in (self.source, self.target))
        return zip(*sides, self.links, strict=True)


def _read(name: str) -> str:
    path = FOLDER / name
    return path.read_text("utf-8") if path.exists() else gzip.decompress((FOLDER / f"{name}.gz").read_bytes()).decode()


@pytest.fixture(scope="module")
def corpus() -> dict[str, Part]:
    return {name: Part(name) for name in ("train", "validation", "test")}


def bands(part: Part) -> list[int]:
    counts = Counter((len(line.split()) - 1) // 10 for line in part.source)
    return [counts[band] for band in range(max(counts) + 1)]


def dictionary() -> set[tuple[str, str]]:
    """All pairs of words that the lexicon and the constructions make translations."""
    known = {tuple(pair.rsplit("-", 1)) for pair in FUNCTION_WORDS.split()}
    for verb in (*word_list.DEEDS, *word_list.CHORES, *word_list.ACTIVITIES, *word_list.TRANSFERS, *word_list.SPEECH):
        *forms, chinese = verb
        known |= {(form, chinese) for form in forms} | {(verb.past, "了")}
    for noun in (*word_list.CREATURES, *word_list.THINGS):
        known |= {(form, chinese) for form in noun[:2] for chinese in noun[2:]}
    for temper in word_list.TEMPERS:
        known |= {(form, temper.chinese) for form in temper[:2]} | {(temper.positive, f"{temper.chinese}的")}
    tables = [table for table in vars(word_list).values() if isinstance(table, tuple)]
    for entry in (row for table in tables for row in table if isinstance(row, word_list.Invariable)):
        known |= {(english, entry.chinese) for english in entry.english.split()}
    return known


def test_the_generator_rebuilds_the_committed_short_sentences(corpus: dict[str, Part]) -> None:
    """The first of five bands of length, which does not depend on the others but for the final shuffle."""
    stratum = next(iter(RECIPES["tom-and-jerry"].strata(Random(SEED))))
    distinct: dict[tuple[str, ...], Phrase] = {}
    for pair in stratum.pairs:
        distinct.setdefault(pair.source, pair)
        if len(distinct) == stratum.train + stratum.validation + stratum.test:
            break
    generated = iter(distinct.values())
    for name, part in corpus.items():
        pairs = islice(generated, getattr(stratum, name))
        committed = {" ".join(source): (target, links) for source, target, links in part if len(source) <= 10}
        assert {" ".join(pair.source): ([*pair.target], sorted(pair.links)) for pair in pairs} == committed


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == SLOW else ()) for name in RECIPES]
)
def test_the_generator_rebuilds_the_bytes_that_the_package_contains(name: str, tmp_path: Path) -> None:
    make(name, tmp_path / "made")
    committed = {path.name: path for path in (EMBEDDED / name).iterdir()}
    made = {path.name: path for path in (tmp_path / "made").iterdir()}
    assert made.keys() == committed.keys()
    for file, path in made.items():
        ours, theirs = path.read_bytes(), committed[file].read_bytes()
        if file.endswith(".gz"):  # builds of zlib compress differently
            ours, theirs = gzip.decompress(ours), gzip.decompress(theirs)
        assert ours == theirs, file


def test_the_sizes_and_the_bands_of_length_are_as_documented(corpus: dict[str, Part]) -> None:
    assert bands(corpus["train"]) == [3600, 3000, 2400, 1800, 1200]
    assert bands(corpus["validation"]) == [200] * 5
    assert bands(corpus["test"]) == [400] * 5


def test_no_source_sentence_occurs_twice_in_one_part_or_in_two(corpus: dict[str, Part]) -> None:
    sources = [line for part in corpus.values() for line in part.source]
    assert len(set(sources)) == len(sources) == 15_000


def test_every_word_of_validation_and_test_occurs_in_training(corpus: dict[str, Part]) -> None:
    for side in ("source", "target"):
        known, *rest = ({word for line in getattr(part, side) for word in line.split()} for part in corpus.values())
        assert rest[0] <= known
        assert rest[1] <= known


def test_every_word_is_frequent_in_training(corpus: dict[str, Part]) -> None:
    for side in (corpus["train"].source, corpus["train"].target):
        counts = Counter(word for line in side for word in line.split())
        assert 150 < len(counts) < 350
        assert min(counts.values()) >= 20


def test_every_link_is_between_translations(corpus: dict[str, Part]) -> None:
    linked = {(source[i], target[j]) for part in corpus.values() for source, target, links in part for i, j in links}
    assert linked - dictionary() == set()


def test_only_words_without_counterpart_have_no_link(corpus: dict[str, Part]) -> None:
    alone_in_english, alone_in_chinese = set(), set()
    for source, target, links in corpus["test"]:
        alone_in_english |= {source[i] for i in set(range(len(source))) - {i for i, _ in links}}
        alone_in_chinese |= {target[j] for j in set(range(len(target))) - {j for _, j in links}}
    assert alone_in_english == {"the", "there", "on", "is", "are", "was", "were", "did", "be", "that", "and"}
    assert alone_in_chinese == {"把"}


def test_links_are_sorted_and_distinct(corpus: dict[str, Part]) -> None:
    for _, _, links in corpus["test"]:
        assert links == sorted(set(links))


def test_the_order_of_words_differs_between_the_languages(corpus: dict[str, Part]) -> None:
    crossing, taus = 0, []
    for source, _, links in corpus["test"]:
        if len(source) > 10:
            signs = [(i - k) * (j - m) for n, (i, j) in enumerate(links) for k, m in links[:n]]
            agree, differ = sum(sign > 0 for sign in signs), sum(sign < 0 for sign in signs)
            crossing += differ > 0
            taus.append((agree - differ) / (agree + differ))
    assert crossing / len(taus) > 0.98  # of the sentences of more than ten words
    assert 0.6 < sum(taus) / len(taus) < 0.9  # Kendall's tau: 1 in the same order, -1 in reverse; clauses stay in order


def test_a_sentence_has_one_translation_and_one_alignment() -> None:
    translations = {}
    for pair in islice(pairs_of_length(Random(11), BANDS[0]), 3000):
        assert translations.setdefault(pair.source, pair) == pair
    assert len(translations) < 3000  # some occurred more than once, so there was something to compare


def test_content_words_occur_at_most_twice_in_a_sentence(corpus: dict[str, Part]) -> None:
    content = {entry.english for entry in word_list.NAMES}
    content |= {form for noun in (*word_list.CREATURES, *word_list.THINGS) for form in noun[:2]}
    for source, _, _ in corpus["test"]:
        assert max(Counter(word for word in source if word in content).values(), default=0) <= 2


def test_the_seed_determines_the_sentences() -> None:
    first, again, other = (list(islice(pairs_of_length(Random(seed), BANDS[2]), 7)) for seed in (2, 2, 3))
    assert first == again
    assert not set(first) & set(other)


def test_every_generated_corpus_is_in_the_package_and_has_an_entry_with_a_description() -> None:
    assert list(RECIPES) == ["tom-and-jerry", "tom-and-jerry-short", "copy", "reverse", "sort"]
    assert [name for name, corpus in known_corpora().items() if corpus.is_embedded] == list(RECIPES)
    assert {path.name for path in EMBEDDED.iterdir()} == set(RECIPES)
    assert all(known_corpora()[name].description for name in RECIPES)


def run(monkeypatch, *arguments: object) -> None:
    monkeypatch.setattr("sys.argv", ["data/make.py", *map(str, arguments)])
    main()


def test_the_seed_decides_what_is_generated_and_nothing_is_overwritten(tmp_path: Path, monkeypatch, capsys) -> None:
    def made(folder: str, *options: str) -> bytes:
        run(monkeypatch, "copy", "--output", tmp_path / folder, *options)
        return (tmp_path / folder / "test.source").read_bytes()

    first = made("one", "--seed", "7")
    assert made("two", "--seed", "7") == first
    assert made("three") != first
    assert made("one", "--seed", "7") == first, "the same files may be made again"
    with pytest.raises(SystemExit) as refused:
        made("one")
    assert refused.value.code == 2
    assert "train.source.gz: the file exists and nothing is overwritten" in capsys.readouterr().err
    assert (tmp_path / "one" / "test.source").read_bytes() == first


def test_a_misspelt_name_is_refused_with_the_known_ones(monkeypatch, capsys) -> None:
    with pytest.raises(SystemExit) as refused:
        run(monkeypatch, "tom-and-jery")
    assert refused.value.code == 2
    assert "tom-and-jerry-short" in capsys.readouterr().err


def test_every_chinese_word_has_an_english_gloss_and_other_text_has_none():
    words = {word for part in ("train", "validation", "test") for line in Part(part).target for word in line.split()}
    found = glosses(words)
    assert found.keys() == words
    assert (found["汤姆"], found["追逐"], found["聪明的"], found["只"]) == ("Tom", "chase", "clever", "(measure)")
    assert glosses(["汤姆", "跳舞"]) == {}
    assert all(gloss.isascii() for gloss in found.values())


def test_the_short_corpus_has_the_shortest_sentences_of_the_grammar() -> None:
    folder = EMBEDDED / "tom-and-jerry-short"
    assert (folder / "test.zh").read_text(encoding="utf-8").count("\n") == 500
    lines = gzip.decompress((folder / "train.en.gz").read_bytes()).decode().splitlines()
    assert len(set(lines)) == len(lines) == 4000
    assert max(len(line.split()) for line in lines) == 10
