"""The floor's list of matrix products against what a model really multiplies."""

import pytest
from torch.utils.flop_counter import FlopCounterMode

from seq2seq_attn.bench.models import MODELS
from seq2seq_attn.bench.products import Lengths, Product, flops, running, training_products
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.translator import pad
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.module import TranslationModule

SENTENCES, SOURCE, TARGET, EMBEDDING, DIRECTION, DECODER, ENTRIES = 3, 5, 4, 6, 7, 10, 13
STATE, GATES = 2 * DIRECTION, 3 * DECODER
EVEN = Lengths([SOURCE] * SENTENCES, [TARGET] * SENTENCES)


def small(name):
    """One of the models that are measured, with sizes that all differ."""
    sizes = {"embedding_size": EMBEDDING, "encoder": {"hidden_size": DIRECTION}}
    decoder = MODELS[name].decoder.model_dump() | {"hidden_size": DECODER}
    return RecurrentConfig.model_validate(MODELS[name].model_dump() | sizes | {"decoder": decoder})


def counted(config, lengths):
    """FLOPs of a real step, forward and backward. In double: there is one way to multiply then."""
    model = config.build(ENTRIES, ENTRIES, joint=False).double()
    batch = Batch(*(pad([[4] * (length - 1) + [3] for length in side]) for side in (lengths.source, lengths.target)))
    with FlopCounterMode(display=False) as counter:
        TranslationModule(model, TrainingConfig()).loss(batch)[0].backward()
    return counter.get_total_flops()


# What a step multiplies though it need not: states that are zero (the encoder's first, forward and for its weights; the
# first that is fed back, which has no gradient), and the distracted arm's context in every step's readout.
ZERO_STATES = 2 * 2 * (2 * SENTENCES * DIRECTION * 3 * DIRECTION)
SURPLUS = {
    "additive": ZERO_STATES,
    "general": ZERO_STATES,
    "general-feed": ZERO_STATES + 2 * (2 * SENTENCES * DECODER * GATES),
    "distracted": ZERO_STATES + 3 * (2 * (TARGET - 1) * SENTENCES * STATE * EMBEDDING),
}

# v · tanh(...), forward and back to both, is elementwise work here; torch may do it with products of a vector.
ENERGIES = {"additive": 3 * (2 * TARGET * SENTENCES * SOURCE * DECODER)}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_listed_is_what_a_real_step_multiplies(name):
    listed = flops(training_products(small(name), ENTRIES, EVEN))
    assert 0 <= counted(small(name), EVEN) - listed - SURPLUS[name] <= ENERGIES.get(name, 0)


@pytest.mark.parametrize("name", MODELS)
def test_padding_is_not_in_the_floor(name):
    """A batch of sentences of several lengths needs less than what it is padded to, and a real step no less than it."""
    uneven = Lengths([SOURCE, 3, 2], [TARGET, 1, 2])
    listed = flops(training_products(small(name), ENTRIES, uneven))
    assert listed < flops(training_products(small(name), ENTRIES, EVEN))
    assert listed < counted(small(name), uneven)


def test_sentences_end_one_by_one():
    assert running([2, 4, 1, 4]) == [4, 3, 2, 2]


def test_a_product_counts_two_flops_for_every_pair_of_numbers():
    assert Product("readout", rows=2, inner=3, columns=5, batch=7, times=11).flops == 2 * 2 * 3 * 5 * 7 * 11


def test_the_vocabulary_s_products_are_of_real_tokens_only():
    tokens = 4 + 1 + 2
    uneven = training_products(small("additive"), ENTRIES, Lengths([5, 3, 2], [4, 1, 2]))
    assert [product[1:] for product in uneven if product.part == "vocabulary loss"] == [
        (tokens, EMBEDDING, ENTRIES, 1, 1),
        (tokens, ENTRIES, EMBEDDING, 1, 1),
        (ENTRIES, tokens, EMBEDDING, 1, 1),
    ]


def test_a_step_of_the_recurrence_waits_for_the_step_before():
    """Two steps of three sentences, one of two, one of one; and the weights' gradient once for all of them."""
    products = training_products(small("additive"), ENTRIES, Lengths([5, 3, 2], [4, 3, 2]))
    own = [p for p in products if p.part == "recurrence" and {DECODER, GATES} <= {p.rows, p.inner, p.columns}]
    assert [(p.rows, p.inner, p.columns, p.times) for p in own] == [
        (3, DECODER, GATES, 2),
        (3, GATES, DECODER, 2),
        (2, DECODER, GATES, 1),
        (2, GATES, DECODER, 1),
        (1, DECODER, GATES, 1),
        (1, GATES, DECODER, 1),
        (GATES, 4 + 3 + 2, DECODER, 1),
    ]
