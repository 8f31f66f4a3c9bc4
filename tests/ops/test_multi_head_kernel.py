"""Multi-head attention by kernel is `MultiHead`: in training, and only where it may replace it."""

import math

import pytest
import torch

from seq2seq_attn.attention import Attention, General, MultiHead, ScaledDot, Softmax
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.models.transformer.config import TransformerConfig
from seq2seq_attn.ops import attention as fused_form
from seq2seq_attn.ops import fuse, native
from seq2seq_attn.ops.attention import FusedMultiHead, JoinedSource, multi_head

B, HEADS, QUERY, KEY = 3, 2, 7, 11
SIZES = [  # steps, positions, size of a head: within one register, and beyond several
    (1, 1, 1), (4, 5, 3), (9, 9, 16), (13, 37, 5), (37, 13, 33),
]  # fmt: skip

pytestmark = [
    pytest.mark.usefixtures("fused"),
    pytest.mark.skipif(not native.has_kernels(torch.empty(0)), reason="no compiler here"),
]


def standard(size=5, scorer=ScaledDot, **options):
    torch.manual_seed(2)
    return MultiHead(Attention(scorer(size, size), **options), HEADS, QUERY, KEY, bias=True)


def make(size=5):
    return fuse(standard(size))


def example(steps, positions, masked=True):
    draw = torch.Generator().manual_seed(3)
    query, keys = torch.randn(B, steps, QUERY, generator=draw), torch.randn(B, positions, KEY, generator=draw)
    is_token = torch.rand(B, positions, generator=draw) < 0.6
    is_token[:, 0] = True  # a causal query always has something to read
    return query.requires_grad_(), keys.requires_grad_(), is_token if masked else None


def outcome(module, query, keys, is_token, **options):
    """Contexts, and the gradients of a weighted sum of them for queries, keys and parameters."""
    contexts, weights = module(query, module.prepare(keys, is_token=is_token), need_weights=False, **options)
    assert weights is None
    weighted = (contexts * torch.arange(contexts.numel()).view_as(contexts).sin()).sum()
    return contexts, *torch.autograd.grad(weighted, [query, keys, *module.parameters()])


@pytest.mark.parametrize(("steps", "positions", "size"), SIZES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_contexts_and_gradients_are_those_of_the_reference_in_double(steps, positions, size, masked, causal):
    if causal:
        positions = max(steps, positions)
    module, inputs = make(size), example(steps, positions, masked)
    assert type(module) is FusedMultiHead
    found = outcome(module, *inputs, causal=causal)
    query, keys, is_token = inputs
    exact = [each.detach().double().requires_grad_() for each in (query, keys)]
    expected = outcome(standard(size).double(), *exact, is_token, causal=causal)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)


def test_a_step_worked_by_hand():
    """q = 2, k = (0, log 2 / 2, 5), v = (1, 4, 100), the last one no token: weights 1/3 and 2/3, so C = 3."""
    q, k, v = (
        torch.tensor([[[2.0]]]),
        torch.tensor([[[0.0], [math.log(2) / 2], [5.0]]]),
        torch.tensor([[[1.0], [4.0], [100.0]]]),
    )
    q, k, v = (each.requires_grad_() for each in (q, k, v))
    context = multi_head(q, k, v, torch.tensor([[True, True, False]]), 1, False)
    assert context.item() == pytest.approx(3)
    grad_q, grad_k, grad_v = torch.autograd.grad(context, (q, k, v))
    assert grad_v.flatten().tolist() == pytest.approx([1 / 3, 2 / 3, 0])
    # dC/de_j = a_j (v_j - C) = (-2/3, 2/3, 0), e_j = q k_j.
    assert grad_k.flatten().tolist() == pytest.approx([-4 / 3, 4 / 3, 0])
    assert grad_q.item() == pytest.approx(2 / 3 * math.log(2) / 2)


def test_padding_is_never_read_and_gets_no_gradient():
    module, (query, keys, is_token) = make(), example(4, 6)
    results = []
    for filler in (0.0, 1e30):
        filled = torch.where(is_token[:, :, None], keys.detach(), filler).requires_grad_()
        contexts, _ = module(query, module.prepare(filled, is_token=is_token), need_weights=False)
        (gradient,) = torch.autograd.grad(contexts.sum(), filled)
        assert not gradient[~is_token].any()
        results.append((contexts.detach(), gradient[is_token]))
    torch.testing.assert_close(*results, rtol=0, atol=0)


def test_results_do_not_depend_on_the_number_of_threads():
    q, k, v = (torch.randn(64, 20, 2 * 16).requires_grad_() for _ in range(3))
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            contexts = multi_head(q, k, v, None, 2, True)
            results.append((contexts.detach(), *torch.autograd.grad(contexts.sin().sum(), (q, k, v))))
    finally:
        torch.set_num_threads(threads)
    for ours, theirs in zip(*results, strict=True):
        assert torch.equal(ours, theirs)


def test_in_bf16_results_have_its_precision_and_the_dtype_of_the_parts():
    module, inputs = make(16), example(9, 12)
    expected = outcome(module, *inputs)
    with torch.autocast("cpu", torch.bfloat16):
        source = module.prepare(inputs[1], is_token=inputs[2])
        assert source.keys.dtype == torch.bfloat16
        found = outcome(module, *inputs)
    assert found[0].dtype == torch.bfloat16
    for ours, theirs in zip(found, expected, strict=True):  # the gradient of the keys' bias is 0: softmax ignores it
        torch.testing.assert_close(ours.float(), theirs, rtol=0.02, atol=0.02 * expected[0].abs().max().item())


def test_what_is_not_finite_stays_visible():
    q, k, v = (torch.ones(1, 3, 4) for _ in range(3))
    q[0, 1, 2] = math.nan
    contexts = multi_head(q, k, v, None, 2, False)
    assert contexts.isnan().nonzero().tolist() == [[0, 1, 2], [0, 1, 3]]  # the head and the step that read it


def test_a_joined_source_serves_whatever_a_source_serves():
    module, (query, keys, is_token) = make(), example(4, 6)
    joined = module.prepare(keys, is_token=is_token)
    assert (type(joined), joined.sentences, joined.heads) == (JoinedSource, B, HEADS)
    other = standard()
    plain = other.prepare(keys, is_token=is_token)
    more = torch.randn(B, 2, KEY)
    may_read, bias = torch.rand(B, 4, 6) < 2, torch.randn(B, 4, 6)
    rows = torch.tensor([2, 0, 0])
    for call in (
        lambda module, source: module(query, source),
        lambda module, source: module(query, source, may_read=may_read, need_weights=False)[:1],
        lambda module, source: module(query, source, bias=bias, need_weights=False)[:1],
        lambda module, source: (module.head_weights(query, source),),
        lambda module, source: module(query, module.extend(source, more), need_weights=False)[:1],
        lambda module, source: module(query[rows], source.select(rows), need_weights=False)[:1],
        lambda module, source: module(query, source.select(torch.arange(B)), module.start(source))[:2],
    ):
        for ours, theirs in zip(call(module, joined), call(other, plain), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_sizes_that_do_not_fit_are_refused_as_without_it():
    module, (query, keys, is_token) = make(), example(4, 6)
    source = module.prepare(keys)
    for wrong in (query[:2], query[:, :, :3]):
        with pytest.raises(ValueError, match="MultiHead") as fused:
            module(wrong, source, need_weights=False)
        with pytest.raises(ValueError, match="MultiHead") as plain:
            standard()(wrong, standard().prepare(keys), need_weights=False)
        assert str(fused.value).removeprefix("Fused") == str(plain.value)
    with pytest.raises(ValueError, match="no token"):
        module.prepare(keys, is_token=torch.zeros_like(is_token))


class Sharper(Softmax, registered=False):
    """Softmax of twice the scores."""

    def forward(self, scores, is_open=None):
        return super().forward(2 * scores, is_open)


def test_anything_else_runs_as_it_is():
    assert FusedMultiHead.why_not(standard()) is None
    for module, reason in (
        (standard(scorer=General), "not attention with scaled dot products"),
        (standard(normalizer=Softmax(temperature=2.0)), "temperature 1"),
        (standard(normalizer=Sharper()), "Sharper (attention.normalizer) is not a class of this package"),
        (standard(dropout=0.1), "dropout of weights"),
        (standard(value_size=4), "values and keys differ"),
    ):
        assert reason in (FusedMultiHead.why_not(module) or ""), reason
        assert type(fuse(module)) is MultiHead
    hooked, calls = standard(), []
    hooked.attention.register_forward_hook(lambda *_: calls.append(1))
    hooked = fuse(hooked)
    query, keys, is_token = example(4, 6)
    hooked(query, hooked.prepare(keys, is_token=is_token), need_weights=False)
    assert calls == [1]
    with torch.no_grad():
        assert type(make().prepare(keys)) is not JoinedSource


def test_a_hook_that_comes_after_the_source_still_runs():
    module, (query, keys, is_token) = make(), example(4, 6)
    source, calls = module.prepare(keys, is_token=is_token), []
    module.attention.scorer.register_forward_hook(lambda *_: calls.append(1))
    module(query, source, need_weights=True)
    assert calls == [1]


def test_beyond_a_limit_torchs_kernel_is_used(monkeypatch):
    module, inputs = make(), example(4, 6)
    expected = outcome(module, *inputs)
    monkeypatch.setattr(fused_form, "MOST_SCORES", 23)
    monkeypatch.setattr(fused_form, "multi_head", None)
    for ours, theirs in zip(outcome(module, *inputs), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_transformer_trains_by_it(monkeypatch):
    model = TransformerConfig.model_validate({"kind": "transformer", "embedding_size": 12}).build(17, 13, False).eval()
    calls = []
    real = fused_form.multi_head
    monkeypatch.setattr(fused_form, "multi_head", lambda *inputs: calls.append(inputs[-1]) or real(*inputs))
    source, target = pad([[4, 9, 6, 3], [5, 3], [10, 8, 3]]), pad([[1, 4, 9], [1, 5, 6], [1, 7]])

    def gradients(model):
        return torch.autograd.grad(model(source, target).sin().sum(), list(model.parameters()), allow_unused=True)

    found = gradients(fuse(model))
    assert calls == [False] * 4 + [True, False] * 4
    torch.testing.assert_close(found, gradients(model), rtol=1e-3, atol=1e-4)


def test_a_look_at_the_weights_without_gradients_leaves_later_gradients_alone():
    attention, (query, keys, is_token) = make(), example(4, 5)
    expected = outcome(attention, query, keys, is_token)
    source = attention.prepare(keys, is_token=is_token)
    with torch.no_grad():
        attention.head_weights(query, source)
    contexts, _ = attention(query, source)
    weighted = (contexts * torch.arange(contexts.numel()).view_as(contexts).sin()).sum()
    gradients = torch.autograd.grad(weighted, [query, keys, *attention.parameters()])
    torch.testing.assert_close([contexts, *gradients], list(expected))


@pytest.mark.parametrize(
    ("steps", "positions", "message"), [(5, 3, "5 causal queries"), (4, 4, "may read no position")]
)
def test_causal_queries_with_nothing_to_read_are_refused_as_by_the_reference(steps, positions, message):
    attention, (query, keys, is_token) = make(), example(steps, positions)
    is_token[1, 0] = False
    source = attention.prepare(keys, is_token=is_token)
    with pytest.raises(ValueError, match=message):
        attention(query, source, causal=True, need_weights=False)


def test_a_source_that_another_module_prepared_is_refused():
    """Of wider heads, and of more heads of the same total width: the kernel would read past its end."""
    small, wide = make(size=5), make(size=64)
    query, keys, _ = example(4, 6)
    with pytest.raises((ValueError, RuntimeError)):
        wide(query, small.prepare(keys), need_weights=False)
