"""Performance: fused forms of the parts of a model, and compiled kernels for some of them.

`attention/` and `models/` state the mathematics. `fuse(model)` is the one pass that makes a model fast: each part that
has a fused form, and is exactly what the form was written for, is replaced by it. `unfused(model)` says what is not
replaced, and why. Within `reference()`, or with SEQ2SEQ_ATTN_FAST=0 in the environment, `fuse` changes nothing; results
then differ by rounding only.
"""

import torch

from seq2seq_attn.ops import native
from seq2seq_attn.ops.form import changed, is_reference, reference
from seq2seq_attn.ops.fusion import fuse, reasons, unfused
from seq2seq_attn.ops.graphs import replayed
from seq2seq_attn.ops.layers import has_onednn

__all__ = [
    "changed",
    "description",
    "fuse",
    "is_reference",
    "reasons",
    "reference",
    "replayed",
    "slow_precision",
    "unfused",
]


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
