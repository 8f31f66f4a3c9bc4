"""An untrained model of a configuration: built, or its shapes found without the memory that it needs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from seq2seq_attn.config import Config
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.front_end import FrontEnd
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.config import weights_from_a_file
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.ops.host import machine_memory


def build_translator(config: Config, source: FrontEnd, target: Codec) -> Seq2Seq:
    """An untrained model, initialized from the random state of the process.

    UserError: its head needs attention weights, and it has none.
    """
    translator = config.model.build(source.size, target.size, source is target)
    if translator.head.needs_weights and not translator.attends:
        raise UserError(
            f"model.head.kind={config.model.head.kind} reads attention weights, and this model has none; choose "
            "another head, or model.context.kind=attention"
        )
    return translator


class _Rehearsal(TorchFunctionMode):
    """Builds a model without its values: large tensors are on the meta device, and no initial values are drawn.

    Other tensors are real ones: torch imports its compiler to compute on the meta device, which takes two seconds.
    UserError: all tensors together need more than `memory` bytes, if `copies` of each are kept.
    """

    FACTORIES = frozenset({torch.empty, torch.zeros, torch.ones, torch.full, torch.randn, torch.rand})
    SMALL = 1 << 24  # elements; the system provides no memory for values that are never written

    def __init__(self, copies: int, memory: int) -> None:
        super().__init__()
        self.copies, self.memory = copies, memory
        self.needed = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in self.FACTORIES:
            shaped = function(*args, **{**kwargs, "device": "meta"})
            self.needed += shaped.numel() * shaped.element_size() * self.copies
            self.require_memory()
            return shaped if shaped.numel() > self.SMALL else function(*args, **kwargs)
        given = next(iter((*args, *kwargs.values())), None)
        if isinstance(given, Tensor) and function.__name__.endswith(("normal_", "uniform_")):
            return given
        return function(*args, **kwargs)

    def require_memory(self) -> None:
        if self.needed > self.memory:
            raise UserError(
                f"the model needs more than {self.needed / 1e9:,.0f} GB of memory, and this machine has "
                f"{self.memory / 1e9:,.0f} GB; lower the sizes or the numbers of layers under model"
            )


def require_memory(config: Config, source: FrontEnd, target: Codec, copies: int = 1) -> dict[str, tuple[int, ...]]:
    """The shapes of the model's parameters and buffers by name, found without allocating them.

    `copies` is how often all parameters are in memory: 4 times in training, with the gradients and Adam's two moments.
    Empty for a model that cannot be built without its values. UserError: the machine has less memory.
    """
    memory = machine_memory()
    if memory is None:
        return {}
    rehearsal = _Rehearsal(copies, memory)
    try:
        with rehearsal, torch.random.fork_rng(devices=()), weights_from_a_file():
            translator = build_translator(config, source, target)
    except Exception:
        rehearsal.require_memory()  # a part may have caught its error
        return {}  # building it in memory may work; if not, its error is the one to report
    return {name: tuple(values.shape) for name, values in translator.state_dict().items()}


def count_parameters(translator: Seq2Seq) -> int:
    """The number of trainable parameters. A tied matrix counts once, frozen parameters do not count."""
    return sum(parameter.numel() for parameter in translator.parameters() if parameter.requires_grad)
