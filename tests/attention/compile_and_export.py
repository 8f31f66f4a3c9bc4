"""Compiles and exports each attention of the catalog; prints by name what went wrong, as JSON.

A program of its own: dynamo cannot look through the shape checks that are installed while tests run.

    python compile_and_export.py {machine-code,any-sizes}
"""

import json
import sys
import warnings
from functools import cache, partial

import torch
from catalog import AROUND_ATTENTION, ATTENTIONS, KEY
from torch import nn

from seq2seq_attn.attention import Attention, MultiheadAttention, ScaledDot

B, T, S = 3, 2, 4
AUTO = torch.export.Dim.AUTO
ANY_NUMBER = ({0: AUTO, 1: AUTO},) * 3  # of sentences, and of queries or positions


class Reader(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, query, keys, is_token):
        return self.attention(query, self.attention.prepare(keys, is_token=is_token))


class Restricted(Reader):
    """Causal queries on a source that has grown, with a bias; with and without weights."""

    def forward(self, query, keys, is_token):
        source = self.attention.extend(self.attention.prepare(keys, is_token=is_token), keys)
        context, weights = self.attention(query, source, causal=True, bias=query[:, :, :1])
        may_read = torch.cat((is_token, is_token), dim=1)[:, None]
        without, _ = self.attention(query, source, causal=True, may_read=may_read, need_weights=False)
        return context + without, weights


class AsInTorch(Reader):
    def forward(self, query, keys, is_token):
        without, _ = self.attention(query, keys, keys, key_padding_mask=~is_token, need_weights=False)
        context, weights = self.attention(query, keys, keys, key_padding_mask=~is_token)
        return context + without, weights


READERS = {
    name: partial(lambda make: Reader(make()), make) for name, make in (ATTENTIONS | AROUND_ATTENTION).items()
} | {
    "scaled_dot, restricted": lambda: Restricted(Attention(ScaledDot(KEY, KEY))),
    "multi-head, restricted": lambda: Restricted(AROUND_ATTENTION["multi-head"]()),
    "as in torch": lambda: AsInTorch(MultiheadAttention(2 * KEY, 2, kdim=KEY, vdim=KEY, batch_first=True)),
}


def inputs(reader, sentences=B, queries=T, positions=S):
    query = torch.randn(sentences, queries, getattr(reader.attention, "query_size", 2 * KEY))
    is_token = torch.rand(sentences, positions) < 0.6
    is_token[:, 0] = True
    return query, torch.randn(sentences, positions, KEY), is_token


def compile_to_machine_code(reader):
    # Code that inductor fuses rounds its sums otherwise: gradients that cancel differ by more than the default of 1e-6.
    compile_it(reader, {"rtol": 1e-4, "atol": 1e-5}, backend="inductor")


def compile_for_any_sizes(reader):
    compile_it(reader, {}, backend="eager", dynamic=True)


def compile_it(reader, tolerance, **options):
    given = inputs(reader)
    torch.compiler.reset()
    compiled = torch.compile(reader, fullgraph=True, **options)
    torch.testing.assert_close(gradients(compiled, *given), gradients(reader, *given), **tolerance)


def gradients(reader, query, keys, is_token):
    """What was read, and the gradients of its squares."""
    leaves = [query.clone().requires_grad_(), keys.clone().requires_grad_()]
    contexts, weights = reader(*leaves, is_token)
    return contexts, weights, *torch.autograd.grad(contexts.square().sum(), leaves, materialize_grads=True)


@cache
def exported(reader):
    return torch.export.export(reader, inputs(reader), dynamic_shapes=ANY_NUMBER).module()


def export_it(reader):
    same_at_other_sizes(exported(reader), reader)


def trace_it(reader):
    same_at_other_sizes(torch.jit.trace(reader, inputs(reader), check_trace=False), reader)


def same_at_other_sizes(program, reader):
    for others in (inputs(reader, sentences=B + 2), inputs(reader, positions=7), inputs(reader, positions=29)):
        torch.testing.assert_close(program(*others), reader(*others))


def other_number_of_queries(reader):
    """What an exported program says of more queries than it was exported with, or None if it reads them correctly."""
    more = inputs(reader, queries=T + 1)
    refusal = failure(exported(reader), *more)
    if refusal is None:
        torch.testing.assert_close(exported(reader)(*more), reader(*more))
    return refusal


def failure(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main(what):
    warnings.simplefilter("ignore")
    torch.manual_seed(6)
    failures = {}
    for name, build in READERS.items():
        reader = build().eval()
        if what == "machine-code":
            failures[name] = {"compile": failure(compile_to_machine_code, reader)}
        else:
            failures[name] = {
                "compile": failure(compile_for_any_sizes, reader),
                "export": failure(export_it, reader),
                "trace": failure(trace_it, reader),
                "other number of queries": other_number_of_queries(reader),
            }
    print(json.dumps(failures))


if __name__ == "__main__":
    main(*sys.argv[1:])
