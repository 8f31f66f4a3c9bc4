"""CTranslate2: a Transformer in the format of that library, which decodes it on its own.

The library knows scaled dot products under softmax, and positions that are added to the input. It ranks hypotheses by
log p(Y | X) / |Y|^alpha, where the search of this package divides by ((5 + |Y|) / 6)^alpha; alpha = 0 is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import MultiHead, Position
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.export import Exported, need
from seq2seq_attn.models.context_config import ContextConfig, PartConfig
from seq2seq_attn.models.transformer.config import LayersConfig, TransformerConfig
from seq2seq_attn.models.transformer.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from seq2seq_attn.models.transformer.stack import LayerStack
from seq2seq_attn.ops import changed
from seq2seq_attn.runs.model import TrainedModel

POSITIONS = 1024  # of a table of sinusoids, at least: the library reads that many tokens of a source by default

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swiglu": "SWISH"}

_USAGE = """
CTranslate2 takes and returns tokens as text. With the tokenizers of this folder, read by the package seq2seq_attn:

```python
from pathlib import Path

import ctranslate2
from seq2seq_attn.corpora.codec import load_codecs

source, target = load_codecs(Path("."))  # this folder
tokens = source.vocabulary.lookup_tokens(source.encode("a sentence")[:-1])  # the library adds </s> itself
(result,) = ctranslate2.Translator(".").translate_batch([tokens], beam_size=5, length_penalty=0)
print(target.decode(target.vocabulary.lookup_indices(result.hypotheses[0])))
```

Scores are log p(Y | X) / |Y|^length_penalty. seq2seq_attn divides by ((5 + |Y|) / 6)^length_penalty: both rank alike
for length_penalty=0. It counts `</s>` in min_length, which is min_decoding_length + 1 here, and never predicts `<pad>`
or `<s>`. A sentence may have at most `positions` tokens (export.json), `</s>` included.
"""


def write(model: TrainedModel, folder: Path) -> Exported:
    """Write model.bin, config.json and the vocabularies. UserError: a part of the model is unknown to CTranslate2."""
    options = _checked(model.config)
    ctranslate2 = need("ctranslate2", "ctranslate2")
    specs = ctranslate2.specs
    if (reason := changed(model.translator)) is not None:
        raise UserError(f"{reason}, and CTranslate2 computes what the class defines; export to onnx or torch instead")
    translator = cast(Any, model.translator)  # with the parts that were checked
    encoder_options = cast(LayersConfig, options.encoder)
    spec = specs.TransformerSpec(
        _stack_spec(specs, specs.TransformerEncoderSpec, encoder_options),
        _stack_spec(specs, specs.TransformerDecoderSpec, options.decoder),
    )
    longest = max(POSITIONS, model.config.data.max_length + 1, model.config.search.max_length)
    encoder = cast(LayerStack, translator.encoder.network)
    positions = {
        "source": _set_input(spec.encoder, spec.encoder.embeddings[0], translator.encoder.embedding, encoder, longest),
        "target": _set_input(
            spec.decoder, spec.decoder.embeddings, translator.target_embedding, translator.decoder, longest
        ),
    }
    for layer, own in zip(spec.encoder.layer, encoder.layers, strict=True):
        _set_encoder_layer(layer, cast(EncoderLayer, own))
    for layer, own in zip(spec.decoder.layer, translator.decoder.layers, strict=True):
        _set_decoder_layer(layer, cast(DecoderLayer, own))
    _set_linear(spec.decoder.projection, [translator.head.projection])
    spec.register_source_vocabulary(model.text_source("CTranslate2").vocabulary.get_itos())
    spec.register_target_vocabulary(model.target.vocabulary.get_itos())
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = nn.LayerNorm(1).eps
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    return Exported({"positions": positions}, _USAGE)


def _checked(config: Config) -> TransformerConfig:
    """The configuration of the model. UserError, which names the part and what CTranslate2 knows, if it is unknown."""
    for place, value, known in _parts(config):
        if value not in known:
            raise UserError(
                f"{place}={value}: CTranslate2 knows only {' and '.join(known)} here; export to onnx or torch instead"
            )
    return cast(TransformerConfig, config.model)


def _parts(config: Config) -> Iterator[tuple[str, str, list[str]]]:
    """The parts of the model in words: the key in the configuration, its value, and the values that are known."""
    model = config.model
    yield "model.kind", model.kind, ["transformer"]
    assert isinstance(model, TransformerConfig)
    yield "model.encoder.kind", model.encoder.kind, ["transformer"]
    yield "model.head.kind", model.head.kind, ["softmax"]
    yield "text.copy_slots", str(config.text.copy_slots), ["0"]
    yield "model.context.kind", model.context.kind, ["attention"]
    stacks = {"model.encoder": cast(LayersConfig, model.encoder), "model.decoder": model.decoder}
    parts: dict[str, LayersConfig | ContextConfig] = {**stacks, "model.context": model.context}
    for place, part in parts.items():
        yield f"{place}.scorer", _named(part.scorer), ["scaled_dot"]
        yield f"{place}.normalizer", _named(part.normalizer), ["softmax"]
        yield f"{place}.window", _named(part.window), ["null"]
    for place, stack in stacks.items():
        yield f"{place}.position", "null" if stack.position is None else stack.position.name, ["sinusoidal", "learned"]
    yield "model.context.chunk", "null" if model.context.chunk is None else "chunkwise", ["null"]
    yield "model.context.heads", str(model.context.heads), [str(model.decoder.heads)]  # decoder.heads


def _named(part: PartConfig | None) -> str:
    """A part with those of its options that change it: softmax has a temperature of 1 unless told otherwise."""
    if part is None:
        return "null"
    options = {name: value for name, value in part.options.items() if (name, value) != ("temperature", 1.0)}
    return f"{part.name} {options}" if options else part.name


def _stack_spec(specs: Any, kind: Any, options: LayersConfig) -> Any:
    return kind(
        options.layers,
        options.heads,
        pre_norm=options.norm == "pre",
        activation=specs.Activation[_ACTIVATIONS[options.activation]],
        ffn_glu=options.activation == "swiglu",
    )


def _set_input(spec: Any, embedding_spec: Any, embedding: Any, stack: LayerStack, longest: int) -> int:
    """Set embeddings and positions; the number of positions is returned."""
    position = cast(Position, stack.position)
    table, weight = getattr(position, "table", None), embedding.table.weight
    count = longest if table is None else len(table)
    embedding_spec.weight = _array(weight)
    spec.scale_embeddings = True  # by √size, before the positions are added
    spec.position_encodings.encodings = _array(position.add(weight.new_zeros(1, count, stack.state_size))[0])
    if hasattr(spec, "layer_norm"):
        _set_norm(spec.layer_norm, stack.final_norm)
    return count


def _set_encoder_layer(spec: Any, layer: EncoderLayer) -> None:
    _set_attention(spec.self_attention, layer.self_attention.attention, layer.around_self_attention, of_itself=True)
    _set_feed_forward(spec.ffn, layer.feed_forward, layer.around_feed_forward)


def _set_decoder_layer(spec: Any, layer: DecoderLayer) -> None:
    _set_attention(spec.self_attention, layer.self_attention.attention, layer.around_self_attention, of_itself=True)
    _set_attention(spec.attention, layer.context, layer.around_context, of_itself=False)
    _set_feed_forward(spec.ffn, layer.feed_forward, layer.around_feed_forward)


def _set_attention(spec: Any, attention: nn.Module, around: Residual, *, of_itself: bool) -> None:
    """Projections are joined: of queries, keys and values in self-attention, otherwise of keys and values."""
    heads = cast(MultiHead, attention)
    query, key, value = heads.query_layer, heads.key_layer, heads.value_layer
    joined = [[query, key, value]] if of_itself else [[query], [key, value]]
    for linear, layers in zip(spec.linear, [*joined, [heads.output_layer]], strict=True):
        _set_linear(linear, layers)
    _set_norm(spec.layer_norm, around.norm)


def _set_feed_forward(spec: Any, network: FeedForward, around: Residual) -> None:
    _set_linear(spec.linear_0, [network.hidden_layer])
    if network.gate_layer is not None:
        _set_linear(spec.linear_0_noact, [network.gate_layer])
    _set_linear(spec.linear_1, [network.output_layer])
    _set_norm(spec.layer_norm, around.norm)


def _set_linear(spec: Any, layers: list[nn.Linear]) -> None:
    spec.weight = _array(torch.cat([layer.weight for layer in layers]))
    if layers[0].bias is not None:
        spec.bias = _array(torch.cat([layer.bias for layer in layers]))


def _set_norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma, spec.beta = (_array(cast(Tensor, part)) for part in (norm.weight, norm.bias))


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().numpy()
