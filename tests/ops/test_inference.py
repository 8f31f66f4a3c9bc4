"""A model prepared for inference computes the same as the original."""

import itertools
import subprocess
import sys

import pytest
import torch

from seq2seq_attn.attention import Additive, Attention, scorer_classes
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.models.recurrent.cells import GRUCell
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.ops import fuse, inference
from seq2seq_attn.ops.inference import InferenceLinear
from seq2seq_attn.ops.layers import Linear
from seq2seq_attn.search import SearchOptions, beam_search, greedy_search

SOURCE = pad([[4, 9, 6, 3], [5, 3], [10, 8, 4, 7, 12, 3]])
DECODERS = [
    {"kind": "bahdanau"},
    {"kind": "luong"},
    {"kind": "conditional", "readout": "plain"},
    {"kind": "luong", "cell": "mingru"},
    {"kind": "bahdanau", "cell": "sru"},
]
CONTEXTS = [
    {"kind": "attention"},
    {"scorer": "concat"},
    {"scorer": {"name": "neural_coverage", "coverage_size": 3}},
    {"kind": "fixed"},
]


@pytest.fixture(autouse=True)
def _on_any_processor(monkeypatch):
    """Use oneDNN in fp32 on every processor."""
    if torch.backends.mkldnn.is_available():
        here = inference.onednn_is_faster
        monkeypatch.setattr(inference, "onednn_is_faster", lambda dtype: dtype == torch.float32 or here(dtype))


def make(decoder=DECODERS[0], context=CONTEXTS[0], **changes):
    torch.manual_seed(5)
    encoder = {"hidden_size": 5, "cell": decoder.get("cell", "gru")}
    values = {"embedding_size": 7, "encoder": encoder, "decoder": {"hidden_size": 11, **decoder}}
    model = RecurrentConfig.model_validate({**values, "context": context, **changes}).build(17, 149, False)
    for parameter in model.parameters():
        parameter.data.mul_(3)
    return model.eval()


@pytest.mark.parametrize(("decoder", "context"), list(itertools.product(DECODERS, CONTEXTS)))
def test_a_search_with_a_prepared_model_equals_that_with_the_model_itself(decoder, context):
    model = make(decoder, context)
    limits = {"max_length": 7}
    for search, options in (
        (greedy_search, SearchOptions(beam_size=1, **limits)),
        (beam_search, SearchOptions(n_best=3, **limits)),
    ):
        expected = search(model, SOURCE, options, with_weights=True)
        found = search(fuse(model, constant=True), SOURCE, options, with_weights=True)
        for ours, theirs in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
            assert ours.tokens == theirs.tokens
            assert ours.log_probability == pytest.approx(theirs.log_probability, rel=1e-5)
            torch.testing.assert_close(ours.weights, theirs.weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(scorer_classes()))
def test_attention_with_any_scorer_can_be_prepared(name):
    scorer = scorer_classes()[name]
    attention = Attention(scorer(6, 6)).eval()
    keys, query = torch.randn(2, 5, 6), torch.randn(2, 3, 6)
    with torch.inference_mode():
        seen, weights = attention(query, attention.prepare(keys))
        again = fuse(attention, constant=True)
        torch.testing.assert_close(again(query, again.prepare(keys)), (seen, weights), rtol=1e-4, atol=1e-5)


# A program of its own: while tests run, the shape checks of jaxtyping refuse such scores first.
OTHER_SCORES = """
import torch
from seq2seq_attn.attention import Attention, Scorer
from seq2seq_attn.ops.inference import InferenceAttention

class OfPositions(Scorer, registered=False):
    def __init__(self, query_size, key_size):
        super().__init__(query_size, key_size)
        self.scores = torch.nn.Parameter(torch.arange(20.0).sin())
    def prepare(self, keys):
        return keys
    def forward(self, query, prepared):
        return self.scores[: prepared.shape[1]].expand(1, query.shape[1], -1)

attention = Attention(OfPositions(4, 5))
for reader in (attention, InferenceAttention.of(attention, attention._modules)):
    try:
        with torch.no_grad():
            reader(torch.randn(3, 2, 4), reader.prepare(torch.randn(3, 7, 5)))
    except ValueError as error:
        print(error)
"""


@pytest.mark.slow  # seconds; .ci/run includes it
def test_scores_that_torch_would_broadcast_are_refused_also_where_a_kernel_reads_them():
    done = subprocess.run([sys.executable, "-c", OTHER_SCORES], capture_output=True, text=True)
    refusal = "OfPositions needs to return scores (sentences, queries, positions) = (3, 2, 7), got (1, 2, 7)"
    assert (done.stdout.splitlines(), done.returncode) == ([refusal] * 2, 0), done.stderr


@pytest.mark.usefixtures("fused")
def test_a_mask_that_all_sentences_share_restricts_all_of_them():
    torch.manual_seed(6)
    attention = Attention(scorer_classes()["general"](5, 7)).eval()
    keys, query = torch.randn(3, 4, 7), torch.randn(3, 1, 5)
    may_read = torch.tensor([[[True, True, False, False]]])
    expected = attention(query, attention.prepare(keys), may_read=may_read)
    with torch.no_grad():
        prepared = fuse(attention, constant=True)
        found = prepared(query, prepared.prepare(keys), may_read=may_read)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.usefixtures("fused")
def test_prepared_weights_are_constant_and_parameters_are_shared():
    model = make()
    still = fuse(model, constant=True)
    assert isinstance(still.head.projection, InferenceLinear)
    assert {id(parameter) for parameter in still.parameters()} == {id(parameter) for parameter in model.parameters()}
    features = torch.randn(4, 7)
    with torch.no_grad():
        before = model.head.projection(features)
        model.head.projection.weight.add_(1)
        torch.testing.assert_close(still.head.projection(features), before)
        assert not torch.allclose(model.head.projection(features), before)


def test_under_autocast_weights_are_cast_beforehand_to_autocast_s_dtype():
    layer = Linear(6, 5).eval()
    x = torch.randn(3, 6)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        cast, expected = fuse(torch.nn.Sequential(layer), constant=True), layer(x)
        found = cast(x)
    assert found.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected)
    assert cast[0].weight is layer.weight


def test_a_model_without_anything_to_prepare_is_returned_itself():
    still = fuse(make(), constant=True)
    assert fuse(still, constant=True) is still
    double = make().double()
    assert {type(part) for part in fuse(double, constant=True).modules()}.isdisjoint({InferenceLinear, Linear})

    class Own(torch.nn.Linear):
        def forward(self, input):
            return -super().forward(input)

    own = torch.nn.Sequential(Own(3, 2))
    assert fuse(own, constant=True) is own


def test_a_mask_that_is_a_view_is_read_as_it_is():
    attention = fuse(torch.nn.Sequential(Attention(Additive(5, 6))).eval(), constant=True)[0]
    query, keys = torch.randn(3, 2, 5), torch.randn(3, 4, 6)
    mask = torch.tensor([[True, True, True], [True, True, False], [True, False, False], [True, False, False]]).t()
    with torch.inference_mode():
        _, weights = attention(query, attention.prepare(keys, is_token=mask))
        _, expected = attention(query, attention.prepare(keys, is_token=mask.contiguous()))
    assert (weights[~mask[:, None].expand_as(weights)] == 0).all()
    torch.testing.assert_close(weights, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gates_of_a_gru_by_a_kernel_equal_the_equation_and_what_does_not_fit_is_refused(dtype):
    cell = fuse(GRUCell(5).to(dtype), constant=True)
    inputs, recurrent, state = (torch.randn(4, size).to(dtype) for size in (15, 15, 5))
    with torch.no_grad():
        updated = cell.update(inputs, recurrent, state)
        exact = GRUCell.update(inputs.double(), recurrent.double(), state.double())
        torch.testing.assert_close(updated.double(), exact, rtol=0.02, atol=0.02 if dtype == torch.bfloat16 else 1e-6)
        with pytest.raises(RuntimeError, match="must match the size"):
            cell.update(torch.randn(400, 15).to(dtype), recurrent, state)
