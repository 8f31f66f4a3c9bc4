"""Laws of integration: torch.compile, torch.export, and a translator that contains the part."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.export import Dim

from seq2seq_attn.doctor.subject import Finding, Subject, is_close, max_error, note, ok, warning, wrong
from seq2seq_attn.errors import how_to_install


class _Read(nn.Module):
    """Preparation and attention as one module; the part gets copies of its inputs."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.context = subject.context()

    def forward(self, query: Tensor, keys: Tensor, is_token: Tensor) -> tuple[Tensor, Tensor]:
        source = self.context.prepare(keys.clone(), is_token=is_token)
        results: tuple[Tensor, Tensor] = self.context(query.clone(), source)
        return results


def compiled(subject: Subject) -> Finding:
    """torch.compile captures one graph, forward and backward, with the same results."""
    read = _Read(subject)
    arguments = _arguments(subject)
    torch.compiler.reset()  # otherwise graphs of other parts count toward the recompilation limit
    try:
        with _silence():
            contexts, weights = torch.compile(read, fullgraph=True, backend=subject.backend)(*arguments)
            if contexts.requires_grad:
                (contexts.square().sum() + weights.square().sum()).backward()
    finally:
        torch.compiler.reset()
    error = max(map(max_error, (contexts, weights), read(*arguments)))
    if not is_close(error):
        return wrong(f"contexts or weights of the compiled graph are wrong by {error:.2g} ({subject.backend})")
    return ok(f"one graph ({subject.backend}), whose results differ by {error:.1g}")


def exported(subject: Subject) -> Finding:
    """torch.export captures one program for any number of sentences and positions."""
    read = _Read(subject)
    sentences, positions = {0: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO}
    with _silence():
        program = torch.export.export(read, _arguments(subject), dynamic_shapes=(sentences, positions, positions))
    other = _arguments(subject, sentences=4, positions=7)
    try:
        results = program.module()(*other)
    except (AssertionError, RuntimeError) as error:
        return warning(f"the exported program is limited to the sizes of its example: {' '.join(str(error).split())}")
    difference = max(map(max_error, results, read(*other)))
    if not is_close(difference):
        return wrong(f"contexts or weights of the exported program are wrong by {difference:.2g} at other sizes")
    return ok(f"one program for any number of sentences and positions, whose results differ by {difference:.1g}")


def _arguments(subject: Subject, sentences: int = 3, positions: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    query, keys = subject.sample(sentences=sentences, queries=2, positions=positions)
    is_token = torch.ones(keys.shape[:2], dtype=torch.bool)
    is_token[0, -1] = False
    return query.requires_grad_(), keys.requires_grad_(), is_token


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Suppresses what torch logs and prints when it fails; the finding says where and why in one line."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def translator(subject: Subject) -> Finding:
    """A translator uses what the part computes, with each of the three decoders: `translator.py`."""
    try:
        from seq2seq_attn.doctor.translator import in_translators
    except ModuleNotFoundError as error:
        hint = how_to_install(error)
        if hint is None:
            raise
        return note(f"not checked: a translator needs {hint}")
    return in_translators(subject)
