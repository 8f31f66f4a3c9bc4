"""Weights and checkpoints as files, which are read without executing anything.

Weights are safetensors. Of files of `torch.save`, numbers, texts, lists, dictionaries and tensors are read, on the CPU.

A pickle is a program that may call any function that it can name. `torch.load(weights_only=True)` limits the names, but
every imported library can add to its list, and before torch 2.10 a file could make it write outside its own memory
(CVE-2026-24747). Here the names are those that a checkpoint needs, Python's own unpickler reads the rest, each storage
must have the size that the pickle declares, and each record the CRC-32 of the archive.
"""

from __future__ import annotations

import io
import pickle
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

_DTYPES = {
    "BFloat16Storage": torch.bfloat16,
    "BoolStorage": torch.bool,
    "ByteStorage": torch.uint8,
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "IntStorage": torch.int32,
    "LongStorage": torch.int64,
}


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


def load(path: Path) -> Any:
    """The content of a file of `torch.save`, in its zip format (the default since torch 1.6).

    ValueError: the file is damaged, another format, or contains anything else than the types above. OSError: it cannot
    be read.
    """
    with path.open("rb") as file:
        try:
            return _Unpickler(zipfile.ZipFile(file)).load()
        except ValueError:
            raise
        except Exception as error:  # the type depends on how the file is damaged
            raise ValueError(f"{type(error).__name__}: {error}") from None


class _Unpickler(pickle.Unpickler):
    """Python's unpickler with an allow-list, as "Restricting Globals" in the documentation of `pickle` describes it."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        self._folder = pickled.removesuffix("data.pkl")
        order = self._folder + "byteorder"  # written since torch 2.1
        if order in archive.namelist() and self._record("byteorder") != sys.byteorder.encode():
            raise ValueError("written on a machine with another byte order")
        self._storages: dict[str, Tensor] = {}
        super().__init__(io.BytesIO(self._record("data.pkl")))

    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case "collections", "OrderedDict":
                return OrderedDict
            case "torch._utils", "_rebuild_tensor_v2":
                return self._tensor
            case "torch", _ if name in _DTYPES:
                return _DTYPES[name]
        raise ValueError(f"it names {f'{module}.{name}'[:80]!r}, which is neither a number, a text nor a tensor")

    def persistent_load(self, pid: Any) -> Tensor:
        """The numbers of a storage, which tensors may share."""
        kind, dtype, key, _, count = pid  # the device is ignored
        if kind != "storage" or not isinstance(dtype, torch.dtype):
            raise ValueError(f"{kind!r:.80} is not a storage")
        if key not in self._storages:
            content = bytearray(self._record(f"data/{key}"))
            self._storages[key] = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
        storage = self._storages[key]
        if storage.dtype != dtype or len(storage) != count:
            raise ValueError(f"storage {key!r:.80} is not {count!r:.80} numbers of type {dtype}")
        return storage

    def _tensor(
        self, storage: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object
    ) -> Tensor:
        """A view of a storage; torch checks that it is inside."""
        return storage.as_strided(size, stride, offset)

    def _record(self, name: str) -> bytes:
        record = self._archive.getinfo(self._folder + name)
        if record.compress_type != zipfile.ZIP_STORED:  # torch never compresses
            raise ValueError(f"{name[:80]!r} is compressed")
        return self._archive.read(record)  # BadZipFile if the CRC-32 differs
