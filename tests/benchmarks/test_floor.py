"""The floor: its lists of products and traffic against a real model and sums by hand, and their timing."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import floor
from benchmarks.common_task import MODELS
from benchmarks.floor import (
    BatchLengths,
    Product,
    product_variants,
    rows_per_step,
    total_flops,
    training_products,
    training_traffic,
)
from benchmarks.records import PARTS, WORKLOADS, Effort, Job
from benchmarks.sitting import MEASURES, measure
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.loss import token_loss

SENTENCES, SOURCE, TARGET, EMBEDDING, DIRECTION, DECODER, ENTRIES = 3, 5, 4, 6, 7, 10, 13
STATE, GATES = 2 * DIRECTION, 3 * DECODER
EVEN = BatchLengths([SOURCE] * SENTENCES, [TARGET] * SENTENCES)


RECURRENT = [name for name, config in MODELS.items() if config.kind == "recurrent"]


def small(name):
    """One of the measured models, with pairwise different sizes."""
    sizes = {"embedding_size": EMBEDDING, "encoder": {"hidden_size": DIRECTION}}
    decoder = MODELS[name].decoder.model_dump() | {"hidden_size": DECODER}
    return RecurrentConfig.model_validate(MODELS[name].model_dump() | sizes | {"decoder": decoder})


def counted(config, lengths):
    """FLOPs of a real step, forward and backward; in float64, which has only one implementation of products."""
    model = config.build(ENTRIES, ENTRIES, joint=False).double()
    batch = Batch(*(pad([[4] * (length - 1) + [3] for length in side]) for side in (lengths.source, lengths.target)))
    with FlopCounterMode(display=False) as counter:
        token_loss(model, batch).total.backward()
    return counter.get_total_flops()


# Unnecessary products of a real step: with states that are zero (the encoder's first, forward and for its weights; the
# first that is fed back, which has no gradient), and the distracted arm's context in every step's readout and gates:
# the counter hooks all modules, so the decoder takes its steps one by one.
ZERO_STATES = 2 * 2 * (2 * SENTENCES * DIRECTION * 3 * DIRECTION)
SURPLUS = {
    "additive": ZERO_STATES,
    "general": ZERO_STATES,
    "general-feed": ZERO_STATES + 2 * (2 * SENTENCES * DECODER * GATES),
    "distracted": ZERO_STATES + 3 * (2 * (TARGET - 1) * SENTENCES * STATE * (EMBEDDING + GATES)),
}

# v · tanh(...), forward and backward, is elementwise work here; torch may do it with products of a vector.
ENERGIES = {"additive": 3 * (2 * TARGET * SENTENCES * SOURCE * DECODER)}


@pytest.mark.parametrize("name", RECURRENT)
def test_the_listed_products_are_those_of_a_real_step(name):
    listed = total_flops(training_products(small(name), ENTRIES, EVEN))
    assert 0 <= counted(small(name), EVEN) - listed - SURPLUS[name] <= ENERGIES.get(name, 0)


@pytest.mark.parametrize("name", RECURRENT)
def test_the_floor_excludes_padding(name):
    """A batch with several lengths needs less than a full one, and a real step computes at least that."""
    uneven = BatchLengths([SOURCE, 3, 2], [TARGET, 1, 2])
    listed = total_flops(training_products(small(name), ENTRIES, uneven))
    assert listed < total_flops(training_products(small(name), ENTRIES, EVEN))
    assert listed < counted(small(name), uneven)


def test_rows_per_step_counts_sentences_that_have_not_ended():
    assert rows_per_step([2, 4, 1, 4]) == [4, 3, 2, 2]


def test_a_product_counts_two_flops_per_multiplication():
    assert Product("readout", rows=2, inner=3, columns=5, batch=7, times=11).flops == 2 * 2 * 3 * 5 * 7 * 11


def test_products_with_the_vocabulary_exclude_padding():
    tokens = 4 + 1 + 2
    uneven = training_products(small("additive"), ENTRIES, BatchLengths([5, 3, 2], [4, 1, 2]))
    assert [product[1:] for product in uneven if product.part == "vocabulary loss"] == [
        (tokens, EMBEDDING, ENTRIES, 1, 1),
        (tokens, ENTRIES, EMBEDDING, 1, 1),
        (ENTRIES, tokens, EMBEDDING, 1, 1),
    ]


def test_products_of_the_recurrence_are_listed_step_by_step():
    """Two steps with three sentences, one with two, one with one; the weight gradient once for all steps."""
    products = training_products(small("additive"), ENTRIES, BatchLengths([5, 3, 2], [4, 3, 2]))
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


PARAMETERS = 1_000_003
LENGTHS = BatchLengths([5, 3], [4, 2])


def numbers(model, part):
    """The number of elements that a step reads or writes for a part."""
    listed = training_traffic(MODELS[model], ENTRIES, PARAMETERS, LENGTHS)
    return sum(each.numbers * each.passes * each.times for each in listed if each.part == part)


def test_the_optimizer_reads_four_and_writes_three_elements_per_parameter_in_fp32():
    assert numbers("additive", "optimizer") == 7 * PARAMETERS
    assert numbers("additive", "clipping") == PARAMETERS
    single = {
        each.part for each in training_traffic(MODELS["additive"], ENTRIES, PARAMETERS, LENGTHS) if each.is_single
    }
    assert single == {"optimizer", "clipping"}


def test_logits_and_their_gradients_exclude_padding():
    assert numbers("additive", "vocabulary loss") == 2 * (4 + 2) * ENTRIES


def test_the_gates_of_a_gru_take_nineteen_elements_per_unit_and_token():
    """Forward: 3 + 3 gates, H in, H' out; backward: a gradient, 3 gates, a summand, H in, 3 + 1 + 1 gradients out."""
    assert numbers("additive", "recurrence") == (8 + 11) * 512 * (4 + 2)
    assert numbers("additive", "encoder") == 2 * (8 + 11) * 256 * (5 + 3)


def test_additive_attention_reads_the_keys_of_unfinished_sentences_at_every_step():
    positions, running = 5, 2 + 2 + 1 + 1
    assert numbers("additive", "attention") == 4 * running * positions * 512
    assert numbers("general", "attention") == 0


def test_the_attentional_state_of_luong_adds_one_tanh():
    assert numbers("general", "recurrence") - numbers("additive", "recurrence") == 5 * 512 * (4 + 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", [1, 7])
def test_every_variant_computes_the_product(batch, dtype):
    """For matrices of ones, every element is the inner dimension."""
    for variant in product_variants(batch, 2, 3, 5, dtype, "cpu"):
        product = variant()
        assert product.shape[-2:] == (2, 5)
        assert product.unique().tolist() == [3]


def test_on_a_processor_without_bf16_its_products_are_torchs(monkeypatch):
    monkeypatch.setattr(floor, "has_onednn", lambda dtype: dtype == torch.float32)
    assert [len([*product_variants(1, 2, 3, 5, dtype, "cpu")]) for dtype in (torch.float32, torch.bfloat16)] == [3, 2]


def test_every_workload_can_be_measured():
    assert tuple(MEASURES) == WORKLOADS


@pytest.mark.parametrize("what", ["products", "bytes"])
def test_the_rate_of_the_floor_follows_from_its_parts(what, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)  # of the process that runs the tests
    job = Job(what, "additive", "bf16", threads=1, batch=4, length=6, vocabulary=23)
    outcome = measure(job, Effort(warm_up=1, batches=2))
    assert set(outcome.parts) <= set(PARTS)
    assert outcome.value == pytest.approx(4 * 6 / (sum(outcome.parts.values()) / 1000))
