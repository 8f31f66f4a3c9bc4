"""What is replayed as CUDA graphs, here by a recorder that calls the recorded functions again; see also tests/cuda."""

from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch.utils._pytree import tree_leaves

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.recurrent.encoder import RecurrentEncoder
from seq2seq_attn.ops import fuse, graphs, reference, replayed
from seq2seq_attn.ops.recurrent import FusedRecurrentEncoder
from seq2seq_attn.search import SearchOptions, hypotheses, search
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.guided_alignment import TokenLinks
from seq2seq_attn.training.loss import token_loss, training_loss

LENGTHS = torch.tensor([3, 7, 1, 5])


class Recalling:
    """A recorder without a GPU: a replay calls the function, and writes what it returns to the same places."""

    def __init__(self, device):
        self.device, self.gradients = device, {}

    def warm_up(self, function):
        function()

    def record(self, function):
        outcome, has_gradients = function(), torch.is_grad_enabled()

        def replay():
            with torch.set_grad_enabled(has_gradients):
                again = function()
            for place, new in zip(tree_leaves(outcome), tree_leaves(again), strict=True):
                if isinstance(place, torch.Tensor):
                    place.copy_(new)

        return outcome, replay


@pytest.fixture
def recalled(monkeypatch):
    monkeypatch.setattr(graphs, "Recorder", Recalling)
    monkeypatch.setattr(graphs, "is_on_gpu", lambda tensor: True)
    monkeypatch.setattr(hypotheses, "is_synchronous", lambda tensor: False)


@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn"])
@pytest.mark.parametrize("options", [{}, {"bidirectional": False}, {"layers": 2, "residual": True, "layer_norm": True}])
def test_unpacked_sentences_have_the_states_and_gradients_of_packed_ones(cell, options):
    torch.manual_seed(0)
    encoder = RecurrentEncoder(6, 5, cell=cell, **options).double()
    fused = FusedRecurrentEncoder.of(encoder, encoder._modules)
    embedded = torch.randn(4, 9, 6).double()  # two more positions than any sentence has
    weighted = torch.randn(4, 9, encoder.state_size).double()

    def states_and_gradients(forward):
        inputs = embedded.clone().requires_grad_()
        states = forward(inputs, LENGTHS)
        return states, *torch.autograd.grad((states * weighted).sum(), [inputs, *encoder.parameters()])

    packed, unpacked = map(states_and_gradients, (encoder, fused.without_packing))
    for expected, found in zip(packed, unpacked, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert not unpacked[0][0, 3:].any()


MODELS = {
    "additive": {},
    "input feeding": {"decoder": {"kind": "luong"}, "context": {"scorer": "general"}},
    "one vector": {"context": {"kind": "fixed"}},
    "reversed": {"encoder": {"bidirectional": False, "reverse_source": True, "layers": 2}},
    "copying": {"head": {"kind": "pointer_generator"}},
}


def build(**differs):
    torch.manual_seed(0)
    sizes = {"encoder": {"hidden_size": 5}, "decoder": {"hidden_size": 7}, "embedding_size": 6}
    config = {key: {**sizes.get(key, {}), **differs.get(key, {})} for key in {*sizes, *differs} - {"embedding_size"}}
    none = {"embedding": 0.0, "state": 0.0, "readout": 0.0}
    return RecurrentConfig.model_validate({**config, "embedding_size": 6, "dropout": none}).build(20, 20, joint=True)


def batch(*lengths):
    pairs = [[*torch.randint(4, 20, (size,)).tolist(), 3] for length in lengths for size in length]
    return Batch(pad(pairs[::2]), pad(pairs[1::2]))


def losses_and_gradients(model, loss, batches):
    for each in batches:
        model.zero_grad()
        found = loss(each)
        (found.total / found.tokens).backward()
        yield found.total.detach(), found.negative, found.tokens, [weight.grad for weight in model.parameters()]


def training_losses(model, **options):
    """Of batches, as training computes them: each on its own, and replayed."""
    loss = partial(training_loss, config=TrainingConfig(label_smoothing=0.1, **options))
    fused = fuse(model.train())
    return partial(loss, fused), replayed(fused, loss)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("options", [{}, {"coverage_loss": 0.5}])
def test_replayed_batches_have_the_loss_and_the_gradients_of_others(recalled, name, options):
    model = build(**MODELS[name])
    alone, again = training_losses(model, **options)
    sizes = [[(3, 5), (7, 2), (1, 8)], [(4, 4), (8, 7)], [(6, 8)], [(9, 3)], [(5, 7), (2, 2), (8, 8)]]
    batches = [batch(*each) for each in sizes]
    expected, found = (list(losses_and_gradients(model, loss, batches)) for loss in (alone, again))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    if name != "copying":  # its head counts every row
        assert len(again.shapes.kept) == 1  # of the batches up to (8, 12, 12); the others' shapes occurred once


def test_gradients_of_several_batches_add_up(recalled):
    model, same = build(), batch((3, 5), (7, 2))
    alone, again = training_losses(model)
    list(losses_and_gradients(model, again, [same, same]))
    (*_, once), *_ = losses_and_gradients(model, alone, [same])
    once = [3 * each for each in once]
    model.zero_grad()
    for _ in range(3):
        (again(same).total / 9).backward()
    torch.testing.assert_close([weight.grad for weight in model.parameters()], once, rtol=1e-4, atol=1e-5)


def test_a_loss_that_is_computed_before_the_backward_pass_of_another_is_refused(recalled):
    model, same = build(), batch((3, 5), (7, 2))
    _, again = training_losses(model)
    list(losses_and_gradients(model, again, [same, same]))
    first, second = again(same).total, again(same).total
    second.backward()
    with pytest.raises(RuntimeError, match="overwritten"):
        first.backward()


def test_what_was_recorded_is_forgotten_when_the_weights_move(recalled):
    model, same = build(), batch((3, 5), (7, 2))
    alone, again = training_losses(model)
    list(losses_and_gradients(model, again, [same, same]))
    for weight in model.parameters():
        weight.data = weight.data * 0.5
    *_, expected = losses_and_gradients(model, alone, [same])
    *_, found = losses_and_gradients(model, again, [same, same, same])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_model_that_is_evaluated_or_guided_by_links_is_computed_alone(recalled):
    model, same = build(), batch((3, 5), (7, 2))
    alone, again = training_losses(model)
    list(losses_and_gradients(model, again, [same, same]))
    links = TokenLinks(*(torch.zeros(1, dtype=torch.int64) for _ in range(3)), torch.ones(1))
    assert again(same._replace(links=links)).total.equal(alone(same._replace(links=links)).total)
    again.model.eval()
    assert again(same).total.equal(alone(same).total)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_replayed_steps_find_what_others_find(recalled, name, beam_size):
    model = build(**MODELS[name]).eval()
    options = SearchOptions(beam_size=beam_size, max_length=30, batch_size=3)
    sources = [[*torch.randint(4, 20, (size,)).tolist(), 3] for size in (3, 9, 1, 7, 12, 2, 5)]
    expected = search(fuse(model), sources, options, with_weights=True)
    again = fuse(model, constant=True)
    found = search(again, sources, options, with_weights=True)
    assert again.shapes.kept
    for one, other in zip(expected, found, strict=True):
        for hypothesis, same in zip(one, other, strict=True):
            assert same.tokens == hypothesis.tokens
            torch.testing.assert_close(same.weights, hypothesis.weights)


def test_a_model_that_a_user_changed_is_not_replayed(recalled):
    model = build()
    model.readout.register_forward_hook(lambda *_: None)
    assert not isinstance(fuse(model, constant=True), graphs.Searched)
    assert not isinstance(replayed(fuse(model), token_loss), graphs.Replayed)
    with reference():
        assert not isinstance(replayed(build(), token_loss), graphs.Replayed)


def test_nothing_that_is_recorded_reads_a_value(monkeypatch):
    """A tensor on the meta device has none: whoever asks for one would make a GPU's host wait."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # there is none for that device
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    for name in MODELS.keys() - {"copying"}:
        model = fuse(build(**MODELS[name]).train()).to("meta")
        integers = torch.ones(8, 12, dtype=torch.int64, device="meta")
        tokens = graphs.FixedTokens(integers, integers[:, 0])
        training_loss(model, Batch(tokens, tokens), TrainingConfig(coverage_loss=0.5)).total.backward()
