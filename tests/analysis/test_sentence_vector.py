"""C of a sentence and how far it moves, against one sentence at a time, on the trained models of the package."""

import pytest
import torch

import seq2seq_attn as s2s
from seq2seq_attn.analysis.sentence_vector import WORDS, sentence_vector
from seq2seq_attn.corpora.vocabulary import SPECIALS
from seq2seq_attn.errors import UserError

SENTENCE = "Tom and Jerry chase the dog ."


@pytest.fixture(scope="module")
def distracted():
    return s2s.load("demo/distracted").trained


@torch.inference_mode()
def context_of(trained, ids):
    memory = trained.translator.encode(trained.source.collate([ids]))
    return memory.source.prepared.context[0, 0]


def test_the_vector_is_what_every_step_of_the_decoder_reads(distracted):
    found = sentence_vector(distracted, SENTENCE)
    assert found.every_step
    assert found.source == (*SENTENCE.split(), "</s>")
    own = context_of(distracted, distracted.source.encode(SENTENCE))
    assert torch.tensor(found.vector) == pytest.approx(own, abs=1e-6)
    assert sentence_vector(distracted, SENTENCE.split()) == found


def test_a_change_is_the_mean_distance_to_the_sentences_with_another_word(distracted):
    ids = distracted.source.encode(SENTENCE)
    own = context_of(distracted, ids)
    vocabulary = distracted.source.vocabulary
    words = range(len(SPECIALS), len(vocabulary))
    for place, change in enumerate(sentence_vector(distracted, SENTENCE).changes):
        ranks = [round(part * (len(words) - 1) - 0.49) for part in (0, 0.25, 0.5, 0.75, 1)]
        others = [words[rank] for rank in ranks if words[rank] != ids[place]]
        if len(others) > WORDS:
            del others[2]  # the middle: both ends are tried
        assert len(others) == WORDS
        vectors = [context_of(distracted, [*ids[:place], word, *ids[place + 1 :]]) for word in others]
        distances = [float((vector - own).norm() / own.norm()) for vector in vectors]
        assert change == pytest.approx(sum(distances) / WORDS, rel=1e-4)


def test_a_model_that_attends_starts_from_a_vector_and_a_transformer_has_none():
    attention, transformer = (s2s.load(f"demo/{name}").trained for name in ("attention", "transformer"))
    assert not sentence_vector(attention, SENTENCE).every_step
    with pytest.raises(UserError, match="has no vector C of the whole sentence"):
        sentence_vector(transformer, SENTENCE)
    with pytest.raises(UserError, match="a blank sentence"):
        sentence_vector(attention, " ")
