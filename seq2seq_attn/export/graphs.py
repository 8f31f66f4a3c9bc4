"""A model as two graphs of torch.export, for any number of sentences and positions: the encoder, and one step.

The encoder maps source tokens and lengths to the tensors of the first state and of the memory. A step maps the last
tokens, the state and the memory to logits, attention weights and the next state. Row b of every tensor belongs to
sentence b; for a beam, a caller repeats and reorders rows.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.errors import UserError
from seq2seq_attn.export.padded import with_padded_encoders
from seq2seq_attn.models.intervened import Changes, IntervenedModel
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.runs.model import TrainedModel

# The names of sizes that may vary, with those of the example that is recorded.
EXAMPLE = {"sentences": 3, "positions": 5, "steps": 2}
OTHERS = {"sentences": 4, "positions": 7, "steps": 4}  # one of them differs in each further example

# The further inputs of a step with interventions, the first fields of `Changes`, and what it read, of `Attended`: for R
# heads of all layers together, and L layers.
INPUTS = {
    "given": ("float32", ("sentences", "heads", "positions")),
    "is_given": ("bool", ("sentences", "heads")),
    "is_uniform": ("bool", ("sentences", "heads")),
    "reads": ("int64", ("sentences", "layers")),
}
OUTPUTS = dict.fromkeys(("read", "scores", "contributions"), ("float32", ("sentences", "heads", "positions")))

# Greedy search, for the README of a target that defines `run`.
GREEDY = """
source = np.array([[4, 5, 3], [6, 3, 1]])  # ids of two sentences that end in </s>, 3, padded with <pad>, 1
lengths = np.array([3, 2])  # </s> included
found = run("encoder", {"source": source, "lengths": lengths})
tokens, translations = np.full(len(source), 2), []  # <s>
for _ in range(20):
    found |= run("step", {"tokens": tokens, **found})
    found |= {name.removeprefix("next_"): tensor for name, tensor in found.items() if name.startswith("next_")}
    tokens = found["logits"].argmax(axis=1)
    translations.append(tokens)
print(np.stack(translations, axis=1))  # a translation ends at its first </s>
""".strip()


class Port(NamedTuple):
    """An input or output of a graph."""

    name: str
    type: str  # of its numbers, as torch calls them
    shape: tuple[int | str, ...]  # a size that may vary has its name

    def sizes(self, named: Mapping[str, int]) -> list[int]:
        """The shape with these values of the sizes that vary."""
        return [named[size] if isinstance(size, str) else size for size in self.shape]


class Graph(NamedTuple):
    """A graph with its inputs and outputs in order."""

    program: ExportedProgram
    inputs: list[Port]
    outputs: list[Port]

    def description(self, file: str) -> dict[str, Any]:
        """For export.json."""
        sides = {"inputs": self.inputs, "outputs": self.outputs}
        return {"file": file, **{side: [port._asdict() for port in ports] for side, ports in sides.items()}}


@contextmanager
def quiet() -> Iterator[None]:
    """A block in which nothing is logged, warned of or printed to stderr: exporters report pages of internals."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def graphs_of(model: TrainedModel, *, with_interventions: bool = False) -> dict[str, Graph]:
    """The graphs `encoder` and `step` of a model, of reference implementations on the CPU.

    `with_interventions` adds `INPUTS` and `OUTPUTS` to the step of a model that attends.
    UserError, in one line, if torch.export cannot record a part of the model.
    """
    translator = copy.deepcopy(model.translator).cpu().eval().requires_grad_(False)
    opened = IntervenedModel(translator)
    changes = with_interventions and bool(opened.heads)
    if changes:
        translator = opened.model
    with torch.no_grad(), quiet():
        state, memory = _layouts(translator)
        carried = [*state.ports, *memory.ports]
        source = [Port("source", "int64", ("sentences", "positions")), Port("lengths", "int64", ("sentences",))]
        logits = Port("logits", "float32", ("sentences", len(model.target.vocabulary)))
        weights = Port("weights", "float32", ("sentences", "positions"))
        after = [port._replace(name=f"next_{port.name}") for port in state.ports]
        given = _source(EXAMPLE)
        tokens, *records = given.tokens[:, 0], *_records(translator, EXAMPLE)
        tensors = [layout.tensors(record, len(tokens)) for layout, record in zip((state, memory), records, strict=True)]
        encoder = _Encoder(with_padded_encoders(translator), state, memory)
        inputs = [Port("tokens", "int64", ("sentences",)), *carried]
        outputs = [logits, weights, *after]
        further: list[Tensor] = []
        if changes:
            added = _ports(INPUTS, opened)
            further = [torch.zeros(port.sizes(EXAMPLE), dtype=getattr(torch, port.type)) for port in added]
            inputs, outputs = [*inputs, *added], [*outputs, *_ports(OUTPUTS, opened)]
        step = _Step(translator, state, memory, opened if changes else None)
        return {
            "encoder": _graph(encoder, given, source, carried),
            "step": _graph(step, (tokens, *tensors[0], *tensors[1], *further), inputs, outputs),
        }


def _ports(described: Mapping[str, tuple[str, tuple[str, ...]]], opened: IntervenedModel) -> list[Port]:
    sizes = {"heads": sum(opened.heads), "layers": len(opened.heads)}
    return [
        Port(name, kind, tuple(sizes.get(size, size) for size in shape)) for name, (kind, shape) in described.items()
    ]


class _Layout(NamedTuple):
    """How a record of a model, nested tuples of tensors and numbers, is laid out as a list of tensors.

    Rows of a tensor that belong to one sentence, such as those of its heads, are a dimension of their own.
    """

    name: str
    template: Any  # the record of the example
    ports: list[Port]
    rows: list[int]  # of each tensor, per sentence
    counts: list[str]  # the names of numbers that count steps

    def tensors(self, record: Any, sentences: int) -> list[Tensor]:
        """The tensors of a record; where it has none before the first step, they have no steps."""
        found = dict(_leaves(record, self.name))
        return [
            _empty(port, sentences) if found.get(port.name) is None else _by_sentence(found[port.name], rows)
            for port, rows in zip(self.ports, self.rows, strict=True)
        ]

    def record(self, tensors: Sequence[Tensor]) -> Any:
        """The record with these tensors."""
        found: dict[str, Any] = {}
        for port, rows, tensor in zip(self.ports, self.rows, tensors, strict=True):
            found[port.name] = tensor if rows == 1 else tensor.flatten(0, 1)
            if "steps" in port.shape:
                found |= dict.fromkeys(self.counts, tensor.shape[port.shape.index("steps")])
        return _rebuilt(self.template, found, self.name)


class _Encoder(nn.Module):
    def __init__(self, translator: Seq2Seq, state: _Layout, memory: _Layout) -> None:
        super().__init__()
        self.translator, self.state, self.memory = translator, state, memory

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        state, memory = _encoded(self.translator, Tokens(source, lengths))
        sentences = source.shape[0]
        return (*self.state.tensors(state, sentences), *self.memory.tensors(memory, sentences))


class _Step(nn.Module):
    def __init__(self, translator: Seq2Seq, state: _Layout, memory: _Layout, opened: IntervenedModel | None) -> None:
        super().__init__()
        self.translator, self.state, self.memory = translator, state, memory
        self.opened = opened

    def forward(self, tokens: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        for tensor in tensors:  # or the number of hypotheses per sentence would be a fraction of two sizes, not 1
            torch._check(tensor.shape[0] == tokens.shape[0])  # type: ignore[no-untyped-call]
        count = len(self.state.ports)
        carried = count + len(self.memory.ports)
        state, memory = self.state.record(tensors[:count]), self.memory.record(tensors[count:carried])
        further: list[Tensor] = []
        if self.opened is None:
            output = self.translator.step(tokens, state, memory)
        else:
            given, is_given, is_uniform, reads = tensors[carried:]
            changes = Changes(given, is_given, is_uniform, reads)
            output, attended = self.opened.step(tokens, state, memory, changes)
            assert attended is not None
            parts = attended.weights, attended.scores, attended.contributions
            further = [part.squeeze(2) for part in parts]  # one hypothesis per sentence
        return (output.logits, output.weights, *self.state.tensors(output.state, tokens.shape[0]), *further)


def _graph(module: nn.Module, given: Sequence[Tensor], inputs: list[Port], outputs: list[Port]) -> Graph:
    varying = tuple(
        {axis: Dim.DYNAMIC for axis, size in enumerate(port.shape) if isinstance(size, str)} for port in inputs
    )
    shapes = varying if isinstance(module, _Encoder) else (varying[0], varying[1:])
    try:
        program = torch.export.export(module, tuple(given), dynamic_shapes=shapes, strict=False)
    except Exception as error:
        raise _refusal(str(error)) from error
    return Graph(program, inputs, outputs)


def _layouts(translator: Seq2Seq) -> tuple[_Layout, _Layout]:
    """The layouts of the state and of the memory, from examples whose sizes differ."""
    base = _records(translator, EXAMPLE)
    others = {name: _records(translator, EXAMPLE | {name: size}) for name, size in OTHERS.items()}
    state, memory = (
        _layout(side, base[index], {name: records[index] for name, records in others.items()})
        for index, side in enumerate(("state", "memory"))
    )
    return state, memory


def _layout(name: str, record: Any, others: Mapping[str, Any]) -> _Layout:
    ports, rows, counts = [], [], []
    leaves = {varied: dict(_leaves(other, name)) for varied, other in others.items()}
    for place, leaf in _leaves(record, name):
        alike = {varied: found.get(place) for varied, found in leaves.items()}
        if isinstance(leaf, Tensor):
            shape = tuple(_size(place, axis, leaf, alike) for axis in range(leaf.dim()))
            per_sentence = leaf.shape[0] // EXAMPLE["sentences"]
            shape = shape if per_sentence == 1 else ("sentences", per_sentence, *shape[1:])
            ports.append(Port(place, str(leaf.dtype).removeprefix("torch."), shape))
            rows.append(per_sentence)
        elif any(other != leaf for other in alike.values()):
            counts.append(place)
            if leaf != EXAMPLE["steps"]:
                raise _refusal(f"{place} is a number that varies, {leaf}, and no tensor")
    return _Layout(name, record, ports, rows, counts)


def _size(place: str, axis: int, leaf: Tensor, alike: Mapping[str, Any]) -> int | str:
    """The name of what a size depends on, or the size. Rows are the first axis, and no other."""
    varied = [name for name, other in alike.items() if other.shape[axis] != leaf.shape[axis]]
    if not varied and axis:
        return leaf.shape[axis]
    rows = varied == ["sentences"] and axis == 0 and leaf.shape[0] % EXAMPLE["sentences"] == 0
    if rows or (axis and len(varied) == 1 and leaf.shape[axis] == EXAMPLE[varied[0]]):
        return varied[0]
    raise _refusal(f"axis {axis} of {place} is neither constant nor the number of sentences, positions or steps")


def _records(translator: Seq2Seq, sizes: Mapping[str, int]) -> tuple[Any, Any]:
    """The state after a number of steps, and the memory."""
    source = _source(sizes)
    state, memory = _encoded(translator, source)
    for _ in range(sizes["steps"]):
        state = translator.step(source.tokens[:, 0], state, memory).state
    return state, memory


def _encoded(translator: Seq2Seq, source: Tokens) -> tuple[Any, Any]:
    """The first state, and the memory without its mask, which no step reads."""
    memory: Any = translator.encode(source)
    return translator.start(memory), memory._replace(is_state=None)


def _source(sizes: Mapping[str, int]) -> Tokens:
    lengths = torch.arange(sizes["sentences"]) % sizes["positions"] + 1
    return Tokens(torch.full((sizes["sentences"], sizes["positions"]), EOS), lengths.flip(0))


def _leaves(record: Any, name: str) -> Iterator[tuple[str, Any]]:
    """What a record consists of, each with its name: those of its fields or indices, joined."""
    if not isinstance(record, tuple):
        yield name, record
        return
    for field, part in zip(_fields(record), record, strict=True):
        yield from _leaves(part, f"{name}_{field}")


def _rebuilt(record: Any, found: Mapping[str, Any], name: str) -> Any:
    """The record with these leaves in place of its own."""
    if not isinstance(record, tuple):
        return found.get(name, record)
    parts = [_rebuilt(part, found, f"{name}_{field}") for field, part in zip(_fields(record), record, strict=True)]
    return type(record)(*parts) if hasattr(record, "_fields") else tuple(parts)


def _fields(record: tuple[Any, ...]) -> Sequence[Any]:
    return getattr(record, "_fields", range(len(record)))


def _by_sentence(tensor: Tensor, rows: int) -> Tensor:
    return tensor if rows == 1 else torch.unflatten(tensor, 0, (-1, rows))


def _empty(port: Port, sentences: int) -> Tensor:
    return torch.zeros(port.sizes({"sentences": sentences, "steps": 0}), dtype=getattr(torch, port.type))


def _refusal(reason: str) -> UserError:
    first = next((line for line in reason.splitlines() if line.strip()), "no reason given")
    return UserError(f"torch.export cannot record a part of this model: {first.strip()}")
