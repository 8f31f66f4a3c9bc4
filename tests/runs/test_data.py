"""Text is tokenized once, and a model does not depend on whether it was cached."""

import gzip
import shutil

import numpy as np
import pytest

from seq2seq_attn.config import Config, PairFiles, SeveralFiles
from seq2seq_attn.corpora import blocks
from seq2seq_attn.errors import UserError
from seq2seq_attn.ops.host import on_cuda
from seq2seq_attn.runs import train as run_file
from seq2seq_attn.runs import training_pairs
from seq2seq_attn.runs.cache import Cache, cached_front_ends, cached_pairs, cached_text
from seq2seq_attn.runs.corpora import read_pairs, sampled_pairs, spaced_pairs
from seq2seq_attn.runs.train import train
from seq2seq_attn.strict import override, parse


@pytest.fixture
def config(grid, toy_corpus, tmp_path):
    """The toy experiment's attention, on files that a test may change, with subwords in one vocabulary."""
    shutil.copytree(toy_corpus, tmp_path / "corpus")
    values = override(
        grid.runs[2].config.model_dump(mode="json"),
        ["text.tokenizer=bpe", "text.vocabulary_size=14", "text.joint=true", "training.max_epochs=1"],
    )
    for part in ("train", "validation"):
        for side in ("source", "target"):
            name = values["data"][part][side].rpartition("/")[2]
            values["data"][part][side] = str(tmp_path / "corpus" / name)
    return parse(Config, values)


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def written(folder):
    """All files of a folder, with whatever shows that a file was rewritten."""
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_gold_alignments_without_a_link_are_refused_before_training(grid, tmp_path):
    (tmp_path / "gold.align").write_text("\n" * 32)
    change = f"data.test.alignments={tmp_path}/gold.align"
    config = parse(Config, override(grid.runs[2].config.model_dump(mode="json"), [change]))
    with pytest.raises(UserError, match=r"gold\.align: no link"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_test_sentence_without_a_position_in_the_model_is_refused_before_training(grid, tmp_path):
    table = "{name: learned, max_positions: 9}"
    (tmp_path / "test").write_text("a b\n" * 31 + "a b c d a b c d a\n")
    changes = [
        "data.max_length=8",
        "search.max_length=9",
        f"data.test={{source: {tmp_path}/test, target: {tmp_path}/test, alignments: null}}",
    ]
    values = grid.runs[2].config.model_dump(mode="json") | {"model": {"kind": "transformer", "embedding_size": 8}}
    config = parse(Config, override(values, [*changes, f"model.encoder={{layers: 1, position: {table}}}"]))
    with pytest.raises(UserError, match="test, line 32 of the source: 9 tokens, and this model reads 8 at most"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()


def dump(record):
    return record.model_dump(mode="json", exclude_defaults=True)


def longer(config, epochs):
    return parse(Config, override(config.model_dump(mode="json"), [f"training.max_epochs={epochs}"]))


def sampling(config, epochs=1, **options):
    changes = [f"text.sampling.{key}={value}" for key, value in ({"alpha": 0.4} | options).items()]
    return parse(Config, override(longer(config, epochs).model_dump(mode="json"), changes))


def add_line(path, line):
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + line.encode() + b"\n"))


def test_a_model_is_the_same_with_and_without_the_cache(config, cache, tmp_path):
    for files in (config.data.train, config.data.validation):
        cached_pairs(files, cached_front_ends(config, cache), cache)
    kept = written(cache.folder)
    train(config, tmp_path / "with", cache=cache.folder)
    assert written(cache.folder) == kept
    (tmp_path / "no folder").write_text("")
    train(config, tmp_path / "without", cache=tmp_path / "no folder")
    for name in ("model.safetensors", "joint.sentencepiece.model", "joint.vocabulary.txt", "joint.tokenizer.json"):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()


def test_cached_ids_equal_those_of_the_codecs(config, cache):
    source, target = codecs = cached_front_ends(config, cache)
    assert source is target
    for _ in range(2):
        pairs = read_pairs(config.data.validation)
        for codec, lines, ids in zip(
            codecs, (pairs.source, pairs.target), cached_pairs(config.data.validation, codecs, cache)[:2], strict=True
        ):
            assert [line.tolist() for line in ids] == list(map(codec.encode, lines))


@pytest.mark.parametrize("several", [False, True])
def test_a_corpus_in_many_blocks_is_cached_in_the_same_bytes_as_in_one(config, cache, tmp_path, monkeypatch, several):
    files = config.data.train
    if several:
        files = parse(SeveralFiles, {"corpora": [dump(files), dump(config.data.validation) | {"tag": "<x>"}]})
    codecs = cached_front_ends(config, cache)
    whole = cached_pairs(files, codecs, cache)
    monkeypatch.setattr(blocks, "LINES", 7)
    parts = Cache(tmp_path / "parts")
    assert cached_pairs(files, codecs, parts).sizes == whole.sizes == ((40, 12) if several else (40,))
    assert not list(parts.folder.glob("*.blocks"))
    (entry,) = parts.folder.glob("*")
    for path in entry.iterdir():
        assert path.read_bytes() == (cache.folder / entry.name / path.name).read_bytes()


def test_the_memory_of_a_run_has_no_text_but_that_of_the_window(config, cache):
    text, pairs = cached_text(config.data.train, cache), read_pairs(config.data.train)
    assert not isinstance(text.source, list)
    assert text.select([7, 3]) == pairs.select([7, 3])
    assert list(text.target) == list(pairs.target)


@pytest.mark.parametrize(("most", "lines"), [(40, range(40)), (39, range(0, 40, 2)), (7, range(0, 40, 8)), (1, [0])])
def test_vocabularies_are_learned_from_an_evenly_spaced_sample_which_is_said(config, tmp_path, most, lines):
    sample, count = spaced_pairs(config.data.train, most)
    pairs, said = read_pairs(config.data.train), []
    assert (sample, count) == (pairs.select(lines), 40)
    changes = [f"data.learned_from={most}", "text.tokenizer=word", "text.vocabulary_size=null"]
    config = parse(Config, override(config.model_dump(mode="json"), changes))
    codec, _ = cached_front_ends(config, Cache(tmp_path / "own", said.append))
    words = {word for line in (*sample.source, *sample.target) for word in line.split()}
    assert words == set(codec.vocabulary.get_itos()[4:])
    assert [f"{len(lines)} of 40" in each for each in said] == [True] * (most < 40)


def test_the_cache_depends_on_the_text_and_not_on_its_name(config, cache, tmp_path):
    codecs = cached_front_ends(config, cache)
    cached_pairs(config.data.train, codecs, cache)
    kept = written(cache.folder)
    files = config.data.train
    for path, name in ((files.source, "a.en"), (files.target, "a.de")):
        (tmp_path / name).write_bytes(gzip.decompress(path.read_bytes()))
    cached_pairs(PairFiles(source=tmp_path / "a.en", target=tmp_path / "a.de"), codecs, cache)
    assert written(cache.folder) == kept
    add_line(files.source, "v w v")
    add_line(files.target, "w v")
    source, target, sizes = cached_pairs(files, codecs, cache)
    assert len(source) == len(target) == sizes[0] == 41
    assert cached_front_ends(config, cache)[0].vocabulary.get_itos() != codecs[0].vocabulary.get_itos()


def test_text_settings_change_the_codecs(config, cache):
    (codec, _) = cached_front_ends(config, cache)
    for change in ("text.vocabulary_size=13", "text.tokenizer=unigram", "text.joint=false"):
        other = parse(Config, override(config.model_dump(mode="json"), [change]))
        source, target = cached_front_ends(other, cache)
        changed = source.tokenizer.options() != codec.tokenizer.options() or source is not target
        assert changed, change


def test_each_text_setting_reaches_the_codecs(config, cache):
    def codecs(*changes):
        moses = ["text.tokenizer=moses", "text.joint=false", "text.vocabulary_size=null"]
        values = override(override(config.model_dump(mode="json"), moses), changes)
        return cached_front_ends(parse(Config, values), cache)

    source, target = codecs()
    assert (source.tokenizer.options()["language"], target.tokenizer.options()["language"]) == ("en", "en")
    source, target = codecs("text.source_language=fr", "text.target_language=de")
    assert (source.tokenizer.options()["language"], target.tokenizer.options()["language"]) == ("fr", "de")
    assert [codec.lowercase for codec in codecs("text.lowercase=true")] == [True, True]
    add_line(config.data.train.source, "ａ…")
    add_line(config.data.train.target, "ａ…")
    for changes, known in (
        ([], "ａ…"),
        (["text.normalization=nfkc"], "."),
        (["text.normalization=nfkc_cf"], "."),
        (["text.character_coverage=0.98"], ""),
    ):
        subwords = ["text.tokenizer=bpe", "text.vocabulary_size=15", *changes]
        assert set(known) == {"ａ", "…", "."} & set("".join(codecs(*subwords)[0].vocabulary.get_itos())), changes
    add_line(config.data.train.source, "once")
    add_line(config.data.train.target, "once")
    assert all("once" in codec.vocabulary for codec in codecs())
    assert not any("once" in codec.vocabulary for codec in codecs("text.minimum_frequency=2"))


@pytest.mark.parametrize("part", ["train", "validation"])
def test_a_training_is_not_resumed_on_other_text_under_the_same_name(config, tmp_path, part):
    train(config, tmp_path / "run")
    path = getattr(config.data, part).source
    content = path.read_bytes()
    path.write_bytes(content.replace(b"a", b"b") if part == "validation" else b"")
    if part == "train":
        path.write_bytes(content)
        add_line(path, "v w " * 7)
    before = written(tmp_path / "run")
    with pytest.raises(UserError, match=rf"{path.name}: is not the file that .*run was trained with \(data\.{part}\."):
        train(longer(config, 2), tmp_path / "run", if_exists="resume")
    assert written(tmp_path / "run") == before
    path.write_bytes(gzip.compress(gzip.decompress(content), mtime=7) if part == "train" else content)
    train(longer(config, 2), tmp_path / "run", if_exists="resume")  # the same text, compressed again


@pytest.mark.parametrize("cuda", [False, True])
def test_batches_are_pinned_only_for_a_cuda_device(config, tmp_path, monkeypatch, cuda):
    class FitReachedError(Exception):
        pass

    def fit(translator, options, training, validation, *rest, **others):
        assert (training.is_pinned, validation.is_pinned) == (cuda, cuda)
        raise FitReachedError

    monkeypatch.setattr(run_file, "fit", fit)
    monkeypatch.setattr(training_pairs, "on_cuda", lambda accelerator: cuda)
    monkeypatch.setattr(run_file, "summary", lambda *_: "a device")
    with pytest.raises(FitReachedError):
        train(config, tmp_path / "run")


@pytest.mark.parametrize(
    ("accelerator", "there", "used"), [("auto", True, True), ("cpu", True, False), ("auto", False, False)]
)
def test_a_cuda_device_is_used_if_available_and_requested(accelerator, there, used, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: there)
    assert on_cuda(accelerator) is used


def lines_of(codec, sentences):
    return [codec.decode(line.tolist()) for line in sentences]


@pytest.mark.parametrize("sides", ["both", "source"])
def test_every_epoch_has_another_segmentation_of_the_same_lines(config, cache, sides):
    codecs = cached_front_ends(config, cache)
    pairs, usual = read_pairs(config.data.train), cached_pairs(config.data.train, codecs, cache)
    options = sampling(config, sides=sides).text.sampling
    sample = sampled_pairs(pairs, usual, codecs, options, seed=1, longest=100)
    for side, lines in enumerate((pairs.source, pairs.target)):
        first, again, second = (sample(epoch, 0, np.arange(len(pairs)))[side] for epoch in (0, 0, 1))
        assert first.values.tolist() == again.values.tolist()
        is_sampled = sides == "both" or side == 0
        assert (first.values.tolist() != second.values.tolist()) == is_sampled
        assert (first.values.tolist() != usual[side].values.tolist()) == is_sampled
        assert lines_of(codecs[side], first) == lines_of(codecs[side], second) == lines
    first, other = (sampled_pairs(pairs, usual, codecs, options, seed, 100) for seed in (1, 2))
    chosen = np.array([3, 1, 7])
    assert lines_of(codecs[0], first(1, 2, chosen)[0]) == [pairs.source[row] for row in (3, 1, 7)]
    assert first(0, 0, chosen)[0].values.tolist() != other(0, 0, chosen)[0].values.tolist()


def test_a_sentence_keeps_its_usual_segmentation_where_another_would_be_too_long(config, cache):
    codecs = cached_front_ends(config, cache)
    pairs, usual = read_pairs(config.data.train), cached_pairs(config.data.train, codecs, cache)
    options = sampling(config).text.sampling
    free, bounded = (
        sampled_pairs(pairs, usual, codecs, options, 1, longest)(0, 0, np.arange(len(pairs)))[0] for longest in (100, 6)
    )
    is_long = free.lengths - 1 > 6
    assert 0 < is_long.sum() < len(free)
    for row, long in enumerate(is_long.tolist()):
        assert bounded[row].tolist() == (usual[0] if long else free)[row].tolist()


def test_a_training_with_sampled_segmentations_is_resumed_exactly_and_shares_the_codecs(config, cache, tmp_path):
    train(config, tmp_path / "usual", cache=cache.folder)
    kept = written(cache.folder)
    train(sampling(config, 3), tmp_path / "whole", cache=cache.folder)
    assert written(cache.folder).items() > kept.items()  # the text, from which segmentations are drawn
    train(sampling(config, 2), tmp_path / "parts", cache=cache.folder)
    train(sampling(config, 3), tmp_path / "parts", if_exists="resume", cache=cache.folder)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("usual", "whole", "parts")]
    assert weights[1] == weights[2] != weights[0]


def test_sampling_is_refused_with_batches_of_tokens(config):
    with pytest.raises(UserError, match=r"set training\.batch_unit=sentences"):
        parse(Config, override(sampling(config).model_dump(mode="json"), ["training.batch_unit=tokens"]))
