"""The layers that are compared, and what one of them costs: multiplications, and operations that wait for each other.

Vaswani et al. 2017, table 1. Both counts come from the computation itself: from the operators that torch executes, and
from the graph that autograd records. They do not depend on the machine.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from seq2seq_attn import ops
from seq2seq_attn.models.context_config import PositionConfig
from seq2seq_attn.models.encoder import EncoderConfig
from seq2seq_attn.models.recurrent.encoder import RecurrentEncoderConfig
from seq2seq_attn.models.transformer.config import TransformerEncoderConfig

SIZE = 64  # d, the width of all layers
CELLS = {"GRU": "gru", "LSTM": "lstm", "minGRU": "mingru", "SRU": "sru"}
POSITIONS = {
    "no positions": None,
    "sinusoidal": "sinusoidal",
    "learned": "learned",
    "rotary": "rotary",
    "relative bias": "relative_bias",
}
SELF_ATTENTION = "self-attention, "


def recurrent(cell: str) -> RecurrentEncoderConfig:
    """One layer in one direction."""
    return RecurrentEncoderConfig.model_validate({"cell": cell, "hidden_size": SIZE, "bidirectional": False})


def transformer(position: str | None) -> TransformerEncoderConfig:
    """One layer with four heads."""
    config = None if position is None else PositionConfig(name=position)
    return TransformerEncoderConfig(layers=1, heads=4, feed_forward_size=4 * SIZE, position=config)


ENCODERS: dict[str, EncoderConfig] = {name: recurrent(cell) for name, cell in CELLS.items()} | {
    f"{SELF_ATTENTION}{name}": transformer(position) for name, position in POSITIONS.items()
}


def encoder(name: str, seed: int) -> nn.Module:
    """The untrained encoder in double precision: gradients over 500 steps of a recurrent cell are below 1e-100."""
    torch.manual_seed(seed)
    return ENCODERS[name].network(SIZE, dropout=0.0, is_first=True).double().eval()


def embedded(sentences: int, length: int, seed: int) -> Tensor:
    """Random input (sentences, length, SIZE), distributed as the embeddings of an untrained model."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(sentences, length, SIZE, generator=draw, dtype=torch.float64) * SIZE**-0.5


def count(lengths: list[int]) -> dict[str, object]:
    """Multiplications and the longest chain of operations, for sentences of each length."""
    found: dict[str, object] = {"size": SIZE, "lengths": lengths, "multiplications": {}, "chain": {}}
    for name in [*CELLS, f"{SELF_ATTENTION}sinusoidal"]:
        costs = [cost(encoder(name, 1), length) for length in lengths]
        found["multiplications"][name], found["chain"][name] = map(list, zip(*costs, strict=True))
    return found


def cost(layer: nn.Module, length: int) -> tuple[int, int]:
    """The multiplications of the layer's matrix products, and its longest chain of operations.

    Of a Transformer, the self-attention without the feed-forward network, as in table 1.
    """
    x = embedded(1, length, 1).requires_grad_()
    with ops.reference(), FlopCounterMode(display=False) as counter:
        if hasattr(layer, "position"):
            outputs, _ = layer.layers[0].self_attention(x, need_weights=False)
        else:
            outputs = layer(x, torch.tensor([length]))
    return counter.get_total_flops() // 2, longest_chain(outputs)


def longest_chain(outputs: Tensor) -> int:
    """The number of operations on the longest path of the graph that autograd has recorded.

    That many operations have to run one after another, however many processors there are.
    """
    chains: dict[object, int] = {}
    waiting = [(outputs.grad_fn, False)]
    while waiting:
        node, inputs_are_known = waiting.pop()
        if node in chains:
            continue
        inputs = [each for each, _ in node.next_functions if each is not None]
        if inputs_are_known:
            chains[node] = 1 + max((chains[each] for each in inputs), default=-1)  # leaves are no operations
        else:
            waiting += [(node, True), *((each, False) for each in inputs)]
    return chains[outputs.grad_fn]
