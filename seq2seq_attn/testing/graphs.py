"""Laws of graphs: torch.compile and torch.export take a part as it is."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.export import Dim

from seq2seq_attn.testing.subject import Subject, same


class _Read(nn.Module):
    """Preparation and attention as one module; the part gets copies of its inputs."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.context = subject.context()

    def forward(self, query: Tensor, keys: Tensor, is_token: Tensor) -> tuple[Tensor, Tensor]:
        source = self.context.prepare(keys.clone(), is_token=is_token)
        results: tuple[Tensor, Tensor] = self.context(query.clone(), source)
        return results


def compiled(subject: Subject) -> None:
    """torch.compile captures one graph, forward and backward, with the same results; no machine code is generated."""
    read, inputs = _Read(subject), _inputs(subject)
    torch.compiler.reset()  # otherwise graphs of other parts count toward the recompilation limit
    try:
        with _silence():
            results = torch.compile(read, fullgraph=True, backend="aot_eager")(*inputs)
            if results[0].requires_grad:
                sum(each.square().sum() for each in results).backward()
    finally:
        torch.compiler.reset()
    for got, expected in zip(results, read(*inputs), strict=True):
        same(got, expected, "the compiled graph gives other contexts or weights")


def exported(subject: Subject) -> str | None:
    """torch.export captures one program for any number of sentences and positions."""
    read, sentences, positions = _Read(subject), {0: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO}
    with _silence():
        program = torch.export.export(read, _inputs(subject), dynamic_shapes=(sentences, positions, positions))
    others = _inputs(subject, sentences=4, positions=7)
    try:
        results = program.module()(*others)
    except (AssertionError, RuntimeError) as error:
        return f"the exported program is limited to the sizes of its example: {' '.join(str(error).split())}"
    for got, expected in zip(results, read(*others), strict=True):
        same(got, expected, "the exported program gives other contexts or weights at other sizes")
    return None


def _inputs(subject: Subject, sentences: int = 3, positions: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    query, keys = subject.sample(sentences=sentences, queries=2, positions=positions)
    is_token = torch.ones(keys.shape[:2], dtype=torch.bool)
    is_token[0, -1] = False
    return query.requires_grad_(), keys.requires_grad_(), is_token


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Suppresses what torch logs and prints when it fails: the law says where and why in one line."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)
