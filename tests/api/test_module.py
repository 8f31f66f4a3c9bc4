"""The torch module of a loaded model in a loop of one's own."""

import pytest
import torch

import seq2seq_attn as s2s
from seq2seq_attn import UserError

PAIRS = [("Tom chases Jerry", "汤姆 追逐 杰瑞 。"), ("Tom", "汤姆")]


@pytest.fixture
def model():
    return s2s.load("demo")


def forced_loss(model):
    """-log p of the targets, and the number of their tokens, by teacher forcing."""
    module, reader, writer = model.module, model.trained.source, model.trained.target
    source = reader.collate([reader.encode(line) for line, _ in PAIRS])
    target = writer.collate([writer.encode(line) for _, line in PAIRS])
    decoded, memory = module.teach(source, target)
    read, of_source = module.reads(decoded, memory, target.placed[0])
    return module.head.loss(read, target.tokens[target.is_token], of_source)


def test_the_loss_by_hand_is_that_of_score(model):
    loss, scored = forced_loss(model), model.score(PAIRS)
    assert float(loss.total.detach()) == pytest.approx(-sum(scored.log_probabilities), rel=1e-5)
    assert loss.tokens == sum(len(each.tokens) for each in scored)


def test_every_method_sees_weights_that_were_changed_since(model):
    before = model.translate(["Tom chases Jerry"]).sentences  # keeps fused forms of these weights
    module = model.module.train()
    assert model.translate(["Tom chases Jerry"]).sentences == before
    assert module.training
    scores = [model.score(PAIRS).log_probabilities]
    for sign in (1, -1):
        with torch.no_grad():
            for parameter in module.head.parameters():
                parameter.data.mul_(-1)
        changed = model.translate(["Tom chases Jerry"]).sentences
        assert (changed == before) == (sign < 0)
        scores.append(model.score(PAIRS).log_probabilities)
    assert scores[0] == scores[2] != scores[1]


def test_what_is_kept_for_the_run_is_refused_once_its_weights_may_have_changed(model):
    assert model.module is model.module
    neighbors, average, push = lambda: model.neighbors("Tom"), lambda: model.average("x"), lambda: model.push("me/x")
    for method in (model.evaluate, neighbors, average, push):
        with pytest.raises(UserError, match=r"weights in .*demo_models/attention, .*load the run again"):
            method()
