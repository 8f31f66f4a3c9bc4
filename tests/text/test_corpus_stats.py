import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.corpus import ParallelCorpus
from seq2seq_attn.text.stats import SideStatistics, out_of_vocabulary, stats


def test_a_corpus_is_counted_in_words():
    corpus = ParallelCorpus(["the dog sees the cat", "it", "two dogs"], ["A B", "C", "A B C D E"])
    counted = stats(corpus)
    assert counted.pairs == 3
    assert counted.source == SideStatistics(8, 7, pytest.approx(8 / 3), 2, 5)
    assert counted.target == SideStatistics(8, 5, pytest.approx(8 / 3), 2, 5)


def test_running_words_that_training_lacks_are_out_of_vocabulary():
    assert out_of_vocabulary(["the dog", "a cat"], ["the cow sees a cow"]) == 3 / 5
    assert out_of_vocabulary(["the dog"], [""]) == 0


def test_an_empty_corpus_is_refused():
    with pytest.raises(UserError, match="mine: no pair to count"):
        stats(ParallelCorpus([], [], "mine"))
