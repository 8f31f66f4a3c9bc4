"""Weights as files of safetensors, which are read without executing anything."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn


def weights_content(module: nn.Module) -> bytes:
    """The content of the file with the weights, in the format of safetensors; tied weights are stored once.

    Not by `safetensors.torch.save_model`: it writes a temporary file of its own beside the result, which a killed
    process leaves there, and lists the names of tied weights in random order, so that equal models differ.
    """
    return _content({name: tensor.contiguous() for name, tensor in unique_tensors(module).items()})


def unique_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The weights and buffers of a module by name, in memory that they share with it; of tied ones, the first."""
    tensors: dict[str, Tensor] = {}
    stored = set()
    for name, tensor in sorted(module.state_dict().items()):
        place = tensor.data_ptr(), tensor.shape
        if place not in stored or tensor.numel() == 0:
            stored.add(place)
            tensors[name] = tensor
    return tensors


@torch.no_grad()
def copy_(tensors: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Overwrites tensors in place by those of the same name."""
    for name, tensor in tensors.items():
        tensor.copy_(values[name])


def checksum(module: nn.Module) -> str:
    """SHA-256 of all weights and buffers: whether two modules have the same ones."""
    digest = hashlib.sha256()
    for name, weights in module.state_dict().items():
        digest.update(f"{name} {tuple(weights.shape)}".encode())
        digest.update(weights.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def mean_of_weights(paths: Sequence[Path]) -> bytes:
    """The content of a file with the mean of the weights in these files, which are of one model.

    Numbers that are not floating-point have no mean; they are those of the last file.
    """
    sums: dict[str, Tensor] = {}
    weights: dict[str, Tensor] = {}
    for path in paths:
        weights = load_file(path)
        for name, values in weights.items():
            if values.is_floating_point():
                sums[name] = values.double() + sums.get(name, 0.0)
    means = {name: (total / len(paths)).to(weights[name].dtype) for name, total in sums.items()}
    return _content(weights | means)


def _content(tensors: dict[str, Tensor]) -> bytes:
    content: bytes = save(tensors, metadata={"format": "seq2seq_attn"})
    return content
