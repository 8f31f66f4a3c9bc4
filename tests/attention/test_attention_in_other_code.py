"""Every scorer, normalizer and window within `Attention`, used as third-party code uses modules."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from catalog import AROUND_ATTENTION, ATTENTIONS, KEY, NORMALIZERS

from seq2seq_attn.attention import Attention, General

B, T, S, COPIES = 2, 3, 4, 5
IS_TOKEN = torch.tensor([[True, True, True, True], [True, True, False, False]])
HALVES = [torch.bfloat16, torch.float16]
CONTEXTS = ATTENTIONS | AROUND_ATTENTION


@pytest.fixture(params=CONTEXTS.values(), ids=CONTEXTS.keys())
def attention(request):
    torch.manual_seed(4)
    return request.param().eval()


@pytest.fixture
def query(attention):
    return torch.randn(B, T, attention.query_size)


@pytest.fixture
def keys():
    return torch.randn(B, S, KEY)


def read(attention, query, keys, is_token=IS_TOKEN):
    return attention(query, attention.prepare(keys, is_token=is_token))


def assert_same(one, other, **tolerance):
    for ours, expected in zip(one, other, strict=True):
        torch.testing.assert_close(ours, expected, **tolerance)


def test_vmap_equals_a_loop(attention):
    queries = torch.randn(COPIES, B, T, attention.query_size)
    many_keys, many_masks = torch.randn(COPIES, B, S, KEY), torch.rand(COPIES, B, S) < 0.5
    many_masks[..., 0] = True

    def read_one(*inputs):
        return read(attention, *inputs)

    expected = [read_one(*inputs) for inputs in zip(queries, many_keys, many_masks, strict=True)]
    assert_same(
        torch.func.vmap(read_one)(queries, many_keys, many_masks),
        [torch.stack(part) for part in zip(*expected, strict=True)],
    )


def test_vmap_gives_the_gradients_of_a_loop(attention):
    queries, keys = torch.randn(COPIES, B, T, attention.query_size), torch.randn(B, S, KEY)

    def loss(query):
        return read(attention, query, keys)[0].square().sum()

    expected = torch.stack([torch.func.grad(loss)(query) for query in queries])
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(queries), expected)


@pytest.mark.parametrize("name", NORMALIZERS)
def test_an_undetected_empty_sentence_gets_nan_or_0_and_affects_no_other(name):
    attention = Attention(General(5, KEY), NORMALIZERS[name]()).eval()
    query, keys = torch.randn(2, B, T, 5), torch.randn(2, B, S, KEY)
    is_token = IS_TOKEN.repeat(2, 1, 1)
    is_token[1, 0] = False
    context, weights = torch.func.vmap(lambda *inputs: read(attention, *inputs))(query, keys, is_token)
    is_zero = name in ("entmax15", "monotonic", "sigmoid", "sparsemax")
    assert (context[1, 0] == 0).all() if is_zero else context[1, 0].isnan().all()
    assert_same((context[0], weights[0]), read(attention, query[0], keys[0]))
    assert_same((context[1, 1:], weights[1, 1:]), read(attention, query[1, 1:], keys[1, 1:], IS_TOKEN[1:]))


DEPEND_ON_WEIGHTS = {
    "linguistic_coverage", "location_aware", "neural_coverage", "general, monotonic", "general, monotonic_softmax",
    "general, shuffled", "multi-head, chunkwise",
}  # fmt: skip


def compile_and_export(what):
    """What went wrong, by name of the attention and what was done."""
    program = Path(__file__).with_name("compile_and_export.py")
    done = subprocess.run([sys.executable, program, what], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_each_compiles_into_one_graph_of_machine_code_and_reads_the_same():
    failures = compile_and_export("machine-code")
    assert {name: failed["compile"] for name, failed in failures.items() if failed["compile"]} == {}


@pytest.mark.slow
def test_each_is_compiled_and_exported_for_any_sizes_and_reads_the_same():
    failures = compile_and_export("any-sizes")
    for what in ("compile", "export", "trace"):
        assert {name: failed[what] for name, failed in failures.items() if failed[what]} == {}
    # Exported steps that depend on weights are those of the example, and others are refused.
    refused = {name for name, failed in failures.items() if failed["other number of queries"]}
    assert refused == DEPEND_ON_WEIGHTS & failures.keys()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [None, *HALVES])
def test_a_gpu_reads_the_same_under_autocast_too(attention, query, keys, dtype):
    expected = read(attention, query, keys)
    keys = keys.cuda().requires_grad_()
    with torch.autocast("cuda", dtype, enabled=dtype is not None):
        context, weights = read(attention.cuda(), query.cuda(), keys, IS_TOKEN.cuda())
    tolerance = {"rtol": 0, "atol": 1e-4 if dtype is None else 0.1}
    torch.testing.assert_close(context.float().cpu(), expected[0], **tolerance)
    assert (weights[1, :, 2:] == 0).all()
    context.sum().backward()
    for tensor in (keys, *attention.parameters()):
        assert tensor.grad is None or tensor.grad.isfinite().all()
