"""Heads beside softmax: one that copies, and one in a file outside the package; by hand, and in all that decodes."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from plain_recipe import NO_DROPOUT
from torch import nn

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.ensemble import Ensemble
from seq2seq_attn.models.head import Read
from seq2seq_attn.models.heads.pointer_generator import CopiedTokens, PointerGeneratorHead
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.transformer.config import TransformerConfig
from seq2seq_attn.ops import fuse
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.search import beam_search, force

FILE = Path(__file__).parents[2] / "examples" / "mixture_of_softmaxes.py"
SOURCE, TARGET = pad([[4, 7, 12, 3], [6, 3], [9, 11, 3]]), pad([[4, 3], [6, 6, 3], [5, 8, 11, 4, 3]])
SLOTS = 3  # ids 10 to 12 of 13
HEADS = {"pointer": {"kind": "pointer_generator", "slots": SLOTS}, "mixture": {"kind": f"{FILE}:MixtureConfig"}}
FAMILIES = {
    "bahdanau": (RecurrentConfig, {"encoder": {"hidden_size": 5}, "decoder": {"kind": "bahdanau", "hidden_size": 7}}),
    "luong": (
        RecurrentConfig,
        {"encoder": {"hidden_size": 5}, "decoder": {"kind": "luong", "hidden_size": 7, "readout": "plain"}},
    ),
    "transformer": (TransformerConfig, {}),
}


def build(head, family, seed=3):
    torch.manual_seed(seed)
    kind, sizes = FAMILIES[family]
    values = {"embedding_size": 8, "dropout": NO_DROPOUT, "head": HEADS[head], **sizes}
    return kind.model_validate(values).build(13, 13, joint=True).eval()


@pytest.fixture(params=[*FAMILIES])
def family(request):
    return request.param


@pytest.fixture(params=[*HEADS])
def model(request, family):
    return build(request.param, family)


def pointer_head(slots):
    torch.manual_seed(2)
    head = PointerGeneratorHead(nn.Linear(5, 7), inputs_size=6, slots=slots).double()
    features, hidden, context = torch.randn(3, 5).double(), torch.randn(3, 4).double(), torch.randn(3, 2).double()
    tokens = torch.tensor([[4, 6, 4, 3], [5, 3, 1, 1], [6, 6, 5, 3]])
    weights = torch.tensor([[0.125, 0.25, 0.125, 0.5], [0.25, 0.75, 0.0, 0.0], [0.5, 0.0, 0.25, 0.25]]).double()
    return head, Read(features, weights, (hidden, context)), CopiedTokens(tokens)


@pytest.mark.parametrize("slots", [0, 2])
def test_a_pointer_generator_equals_numpy(slots):
    """Probabilities of words and slots, the loss, and label smoothing; a slot is copied alone."""
    head, read, memory = pointer_head(slots)
    w, b, v, c = (each.detach().numpy() for each in (*head.projection.parameters(), *head.gate.parameters()))
    inputs = np.concatenate([part.numpy() for part in read.inputs], axis=1)
    expected = np.zeros((3, 7))
    for row in range(3):
        energies = np.exp(w @ read.features[row].numpy() + b)[: 7 - slots]
        gate = 1 / (1 + np.exp(-(v[0] @ inputs[row] + c[0])))
        expected[row, : 7 - slots] = gate * energies / energies.sum()
        for token, weight in zip(memory.tokens[row].tolist(), read.weights[row].tolist(), strict=True):
            expected[row, token] += (1 - gate) * weight
    log_p = head.log_probabilities(read, memory).detach().numpy()
    np.testing.assert_allclose(np.exp(log_p), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1)
    targets = [6, 5, 4] if slots else [6, 2, 0]
    loss = head.loss(read, torch.tensor(targets), memory, label_smoothing=0.25)
    negative = -np.log(expected[range(3), targets]).sum()
    assert (float(loss.negative), loss.tokens) == (pytest.approx(negative), 3)
    assert float(loss.total.detach()) == pytest.approx(0.75 * negative - 0.25 * log_p.mean(axis=1).sum())


def test_the_limits_of_p_gen_are_softmax_and_attention():
    head, read, memory = pointer_head(slots=0)
    nn.init.zeros_(head.gate.weight)
    found = []
    for gate in (60.0, -60.0):
        nn.init.constant_(head.gate.bias, gate)
        found.append(head.log_probabilities(read, memory).exp())
    torch.testing.assert_close(found[0], head.projection(read.features).softmax(-1))
    copied = torch.zeros(3, 7).double().scatter_add(1, memory.tokens, read.weights)
    torch.testing.assert_close(found[1], copied, atol=1e-20, rtol=1e-6)


def test_the_gradient_of_a_pointer_generator_is_finite_where_nothing_may_be_copied_or_generated():
    head, read, memory = pointer_head(slots=2)
    nn.init.constant_(head.gate.bias, 60.0)
    head.loss(read, torch.tensor([6, 5, 4]), memory, label_smoothing=0.1).total.backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in head.parameters())


def test_a_file_outside_the_package_defines_a_head_that_equals_numpy():
    specification = importlib.util.spec_from_file_location("mixture_in_tests", FILE)
    module = importlib.util.module_from_spec(specification)
    # The class of the configuration would be a kind of the whole process.
    exec(compile(FILE.read_text().partition("class MixtureConfig")[0], str(FILE), "exec"), module.__dict__)
    torch.manual_seed(2)
    head, features = module.MixtureHead(nn.Linear(5, 7), parts=2).double(), torch.randn(3, 5).double()
    w, b, u, c, v, d = (each.detach().numpy() for each in head.parameters())
    for row, found in zip(features.numpy(), head.log_probabilities(Read(features)).exp().detach().numpy(), strict=True):
        prior, expected = np.exp(u @ row + c), np.zeros(7)
        for part in range(2):
            energies = np.exp(w @ np.tanh(v[5 * part : 5 * part + 5] @ row + d[5 * part : 5 * part + 5]) + b)
            expected += prior[part] / prior.sum() * energies / energies.sum()
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_steps_equal_teacher_forcing_for_every_hypothesis(model):
    memory, inputs = model.encode(SOURCE), model.decoder_inputs(TARGET)
    at_once = model(SOURCE, TARGET).log_softmax(-1)
    state = model.start(memory).select(torch.arange(3).repeat_interleave(2))  # two equal hypotheses for each source
    for position, tokens in enumerate(inputs.t()):
        step = model.step(tokens.repeat_interleave(2), state, memory)
        expected = at_once[:, position].repeat_interleave(2, dim=0)
        torch.testing.assert_close(step.logits.log_softmax(-1), expected, atol=1e-5, rtol=1e-4)
        state = step.state


def test_the_gate_of_a_recurrent_decoder_reads_h_c_and_the_last_token(family):
    """w_s · H_i + w_c · C_i + w_x · E y_{i-1}; a Transformer has the features alone."""
    model = build("pointer", family)
    decoded = model.decode(model.decoder_inputs(TARGET), model.encode(SOURCE))
    read, _ = model.reads(decoded, model.encode(SOURCE), TARGET.placed[0])
    if family == "transformer":
        assert (read.inputs, model.head.gate.in_features) == ((), 8)
        return
    hidden, context, embedded = read.inputs
    assert [each.shape[1] for each in read.inputs] == [7, 10, 8]
    torch.testing.assert_close(embedded, model.target_embedding(model.decoder_inputs(TARGET))[TARGET.is_token])
    states = model.encoder_states(SOURCE).states[TARGET.is_token.nonzero()[:, 0]]
    torch.testing.assert_close(context, (read.weights[:, :, None] * states).sum(1))
    features = model.readout(hidden, context, embedded)
    torch.testing.assert_close(features, read.features)


def test_searches_forced_decoding_ensembles_and_fused_models_agree(model):
    options = SearchOptions(beam_size=3, n_best=2, max_length=6)
    found = beam_search(model, SOURCE, options)
    for fast in (fuse(model, constant=True), Ensemble([model, model])):
        for ours, theirs in zip(found, beam_search(fast, SOURCE, options), strict=True):
            assert [each.tokens for each in ours] == [each.tokens for each in theirs]
            assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], rel=1e-4)
    targets = pad([[*best[0].tokens, 3][: options.max_length] for best in found])
    totals = [each.total for each in force(model, SOURCE, targets)]
    assert totals == pytest.approx([best[0].log_probability for best in found], rel=1e-4)


def test_a_part_of_the_vocabulary_is_refused_in_one_line(model):
    with pytest.raises(UserError, match=rf"search\.shortlist.*{type(model.head).__name__}"):
        model.with_outputs(torch.tensor([0, 1, 2, 3]))


def test_states_that_are_not_the_tokens_of_the_source_cannot_be_copied():
    head, read, memory = pointer_head(slots=0)
    with pytest.raises(UserError, match="3 states of 4 tokens"):
        head(read._replace(weights=read.weights[:, :3]), memory)
