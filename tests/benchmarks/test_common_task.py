"""The corpora for measurements."""

from itertools import islice

import numpy as np
import pytest

from benchmarks.common_task import read_corpus, synthetic_corpus, timed_batches, training_batches
from benchmarks.records import Effort, Job
from benchmarks.workloads import timed_sentences
from seq2seq_attn.corpora.vocabulary import EOS, SPECIALS
from seq2seq_attn.errors import UserError

EFFORT = Effort(warm_up=2, batches=3)


def job(what="training", **setting):
    return Job(what, "additive", "fp32", threads=1, **setting)


def test_synthetic_sentences_are_as_long_as_those_of_multi30k():
    """Means and quartiles of its training set in BPE: 15.0 and 12, 14, 17 of the source, 15.1 and 12, 14, 18."""
    corpus = synthetic_corpus(job(), EFFORT)
    for side, third_quartile in ((corpus.source, 17), (corpus.target, 18)):
        lengths = sorted(side.lengths)
        assert sum(lengths) / len(lengths) == pytest.approx(15, abs=0.2)
        assert [lengths[len(lengths) * quarter // 4] for quarter in (1, 2, 3)] == [12, 14, third_quartile]


def test_synthetic_sentences_end_once_and_use_the_whole_vocabulary():
    corpus = synthetic_corpus(job(vocabulary=50), EFFORT)
    source = corpus.source
    assert (np.flatnonzero(source.values == EOS) + 1).tolist() == source.offsets[1:].tolist()
    assert set(corpus.target.values) == {EOS, *range(len(SPECIALS), 50)}


def test_every_sentence_has_the_given_length():
    corpus = synthetic_corpus(job(length=7, batch=4), EFFORT)
    assert {*corpus.source.lengths, *corpus.target.lengths, *map(len, corpus.test)} == {7}
    assert len(corpus.source) == 4 * (2 + 3)


def test_the_floor_uses_batches_that_training_is_timed_on():
    corpus = synthetic_corpus(job(), EFFORT)
    trained = [batch.target.tokens.tolist() for batch in islice(training_batches(corpus, job()), 2 + 3)]
    assert [batch.target.tokens.tolist() for batch in timed_batches(corpus, job(), EFFORT, 3)] == trained[2:]
    assert [batch.target.tokens.tolist() for batch in timed_batches(corpus, job(), EFFORT, 2)] == trained[2::2]


def test_single_sentences_are_those_closest_to_twenty_tokens():
    assert timed_sentences([7, 19, 20, 40, 22], job("sentence-beam"), EFFORT) == [2, 1, 4]
    assert timed_sentences([7, 19, 20, 40, 22], job("beam", batch=1), EFFORT) == [0, 1, 2]


def test_a_folder_is_read_as_the_peers_read_it(tmp_path):
    files = {
        "train.bpe.en": "a b@@\nb@@ x\n",
        "train.bpe.de": "b@@\na a a\n",
        "test.bpe.en": "a\n",
        "joint.vocab": "a\nb@@\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    corpus = read_corpus(tmp_path)
    assert [line.tolist() for line in corpus.source] == [[4, 5, 3], [5, 0, 3]]
    assert [line.tolist() for line in corpus.target] == [[5, 3], [4, 4, 4, 3]]
    assert (corpus.test, corpus.entries) == ([[4, 3]], 6)
    (tmp_path / "train.bpe.de").write_text("a\n")
    with pytest.raises(UserError, match=r"train\.bpe\.en has 2 lines and train\.bpe\.de 1"):
        read_corpus(tmp_path)
