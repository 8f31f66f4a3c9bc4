"""Random models of both families give the same answers on every way that there is to them.

The ways: in batches and one by one, with fused forms and kernels and by the reference implementations, in fp32 and in
bf16. The suite compares a few models; a thousand take minutes: python -m pytest -m slow -n 0 tests/search
"""

import random

import pytest
import torch

from seq2seq_attn import ops
from seq2seq_attn.models.config import ModelConfig
from seq2seq_attn.search import SearchOptions, force, force_corpus, search

EOS, VOCABULARY = 3, 13
CLOSE = {"atol": 1e-4, "rtol": 2e-5}  # of ln p, summed over a sentence: rounding in fp32 in another order
BF16_MEAN, BF16_MOST = 0.02, 0.3  # of ln p per token: the mean, and the 99th percentile; bf16 has 8 bits


def random_model(seed):
    """A translator with decided opinions: weights are twice as large as before training."""
    draw = random.Random(seed)
    context = {"scorer": draw.choice(["additive", "dot", "general", "concat", "scaled_dot", "biaffine"])}
    if draw.random() < 0.3:
        values = {"kind": "transformer", "embedding_size": 8, "encoder": {"layers": 1, "heads": 2}}
        values |= {"decoder": {"layers": draw.choice([1, 2]), "heads": 2}, "context": {**context, "heads": 2}}
        if context["scorer"] == "biaffine":
            values["context"]["heads"] = 1
    else:
        values = {
            "embedding_size": draw.choice([5, 8]),
            "encoder": {
                "cell": draw.choice(["gru", "lstm", "rnn", "sru", "mingru"]),
                "hidden_size": 4,
                "layers": draw.choice([1, 2]),
            },
            "decoder": {
                "kind": draw.choice(["bahdanau", "luong", "conditional"]),
                "cell": draw.choice(["gru", "lstm"]),
                "hidden_size": 8,
            },
            "context": {**context, "kind": draw.choice(["attention", "attention", "mean", "fixed"])},
            "layer_norm": draw.random() < 0.2,
        }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = ModelConfig.model_validate(values).build(VOCABULARY, VOCABULARY, False)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2)
    sentences = [[*draw.choices(range(4, VOCABULARY), k=draw.randint(0, 7)), EOS] for _ in range(14)]
    return model.eval(), sentences[:7], sentences[7:]


def totals(model, sources, targets, **options):
    with torch.no_grad():
        return torch.tensor([each.total for each in force_corpus(force, model, sources, targets, **options)])


def best(model, sources, **options):
    found = search(model, sources, SearchOptions(beam_size=3, max_length=9, **options))
    return torch.tensor([hypotheses[0].log_probability for hypotheses in found])


def compare(seed):
    model, sources, targets = random_model(seed)
    forced, found = totals(model, sources, targets), best(model, sources, length_penalty=0.0)
    torch.testing.assert_close(totals(model, sources, targets, batch_size=1), forced, **CLOSE)
    torch.testing.assert_close(best(model, sources, length_penalty=0.0, batch_size=1), found, **CLOSE)
    for form in (ops.fuse(model), ops.fuse(model, constant=True)):
        torch.testing.assert_close(totals(form, sources, targets), forced, **CLOSE)
        torch.testing.assert_close(totals(form, sources, targets, batch_size=1), forced, **CLOSE)
        torch.testing.assert_close(best(form, sources, length_penalty=0.0), found, **CLOSE)
    with torch.autocast("cpu", torch.bfloat16):
        rough = totals(ops.fuse(model), sources, targets)
    return (rough - forced).abs() / torch.tensor([len(each) for each in targets])


def compare_all(seeds):
    differences = torch.stack([compare(seed) for seed in seeds]).flatten()
    assert differences.mean() < BF16_MEAN
    assert differences.quantile(0.99) < BF16_MOST


def test_a_random_model_gives_the_same_answer_on_every_way():
    compare_all(range(3))


@pytest.mark.slow
def test_a_thousand_random_models_give_the_same_answers_on_every_way():
    compare_all(range(1000))
