"""Parts of a model that training leaves as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn

from seq2seq_attn.errors import UserError, did_you_mean

EMBEDDINGS = "embeddings"


def frozen_parameters(model: nn.Module, parts: Sequence[str]) -> list[nn.Parameter]:
    """The trainable parameters of these parts of a model, named as in `encoder` or `encoder.embedding`, each once.

    `embeddings` are the tables of all tokens, of source and target. UserError: there is no such part, it has no
    parameters, or nothing would be left to train.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    known = dict.fromkeys(name[:end] for name in names for end in (*_dots(name), None))
    tables = [name for name, module in model.named_modules() if isinstance(module, nn.Embedding)]
    named = [name for part in parts for name in (tables if part == EMBEDDINGS else [part])]
    for part in named:
        if part not in known:
            hint = did_you_mean(part, known, f"choose from {', '.join(name for name in known if '.' not in name)}")
            raise UserError(f"training.freeze: the model has no part {part!r} with parameters; {hint}")
    chosen = {
        parameter: None
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if parameter.requires_grad and any(f"{name}.".startswith(f"{part}.") for part in named)
    }
    if len(chosen) == len(trainable):
        raise UserError(f"training.freeze={list(parts)} leaves no parameter to train; leave out one of the parts")
    return list(chosen)


def _dots(name: str) -> list[int]:
    return [place for place, character in enumerate(name) if character == "."]


@contextmanager
def freezing(model: nn.Module, parts: Sequence[str]) -> Iterator[None]:
    """A block in which no gradient is computed for the parameters of these parts."""
    frozen = frozen_parameters(model, parts)
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)
