"""Performance: operations with a reference implementation, a fused form and, for some, a compiled kernel.

`models/` states the mathematics and calls fused forms from here. Each fused form implements exactly one computation.
It is used only if every module involved is an unmodified instance of the class it was written for (`dispatch.py`), in
fp32 or bf16. `reference()`, or SEQ2SEQ_ATTN_FAST=0 in the environment, disables all fused forms; results then differ
by rounding only. `unfused(model)` reports what falls back to its reference implementation, and why.
"""

import torch
from torch import nn

from seq2seq_attn.ops import native
from seq2seq_attn.ops.dispatch import is_reference, reasons, reference
from seq2seq_attn.ops.linear import has_onednn

__all__ = ["description", "is_reference", "reasons", "reference", "slow_precision", "unfused"]


def unfused(model: nn.Module) -> str | None:
    """One line that names the parts of a model that fall back to their reference implementations, and why.

    None if no part does, and also if `reference` disables all fused forms.
    """
    if is_reference():
        return None  # `description` reports this
    parts = [f"{name} ({reason})" for name, reason in reasons(model).items()]
    return f"computed step by step: {', '.join(parts)}" if parts else None


def slow_precision(precision: str, device: str) -> str | None:
    """A warning if this precision is much slower than fp32 on this type of device; None if it is not."""
    if precision != "bf16" or device != "cpu" or has_onednn(torch.bfloat16) or not has_onednn(torch.float32):
        return None
    return "precision bf16 is 5 to 20 times slower than fp32 on this processor, which does not support it; use fp32"


def description() -> str:
    """How this process computes on the CPU: a phrase for the provenance of a result."""
    if is_reference():
        return "reference implementations"
    return f"{'with' if native.has_kernels(torch.empty(0)) else 'without'} compiled kernels"
