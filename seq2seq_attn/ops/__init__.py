"""Everything that is done for speed: each operation with its reference implementation, fused form and kernel.

The rooms above state the mathematics and ask here for a fused form of it. One stands for exactly one known computation:
it is taken only where every part is exactly the class it was written for, unchanged (`dispatch.py`), in fp32 or bf16.
`reference()`, or SEQ2SEQ_ATTN_FAST=0 in the environment, switches all of them off; numbers then stay the same but for
rounding. `unfused(model)` says in words what is computed by its reference implementation, and why.
"""

import torch
from torch import nn

from seq2seq_attn.ops import native
from seq2seq_attn.ops.dispatch import is_reference, reasons, reference

__all__ = ["description", "is_reference", "reasons", "reference", "unfused"]


def unfused(model: nn.Module) -> str | None:
    """One line: which parts of a model are computed by their reference implementations, and why; None if none is.

    None as well where all are, as `reference` asks for.
    """
    if is_reference():
        return None  # `description` says so
    parts = [f"{name} ({reason})" for name, reason in reasons(model).items()]
    return f"computed step by step: {', '.join(parts)}" if parts else None


def description() -> str:
    """How this process computes on its processor, for the provenance of a figure."""
    if is_reference():
        return "reference implementations"
    return f"{'with' if native.has_kernels(torch.empty(0)) else 'without'} compiled kernels"
