"""What a decoder sees of the source: the configuration of the context, and the module built from it.

First the scorer, normalizer and window, each given by name with its own options; then the context that combines them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from inspect import Parameter
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BeforeValidator, PydanticUserError, TypeAdapter, ValidationError, model_validator
from torch import nn

from seq2seq_attn import attention
from seq2seq_attn.attention import own_options
from seq2seq_attn.attention.registry import config_name
from seq2seq_attn.errors import UserError, did_you_mean, shown
from seq2seq_attn.strict import Size, Strict, checked_number, wanted

Part = TypeVar("Part")
Built = TypeVar("Built")


def _name(part: Any) -> Any:
    return config_name(part) if isinstance(part, type) else part


PartName = Annotated[str, BeforeValidator(_name)]  # Python code may pass the class itself


def _find_part(find: Callable[[str], type[Part]], name: str) -> type[Part]:
    """The class that `find` returns; its error also says how to register a class of the user's own."""
    try:
        return find(name)
    except ValueError as error:
        hint = "" if ":" in name else " (or load its file with --plugin FILE)"
        raise ValueError(f"{error}{hint}") from None


class PartConfig(Strict, extra="allow"):
    """The name of a part together with the part's own options: `{name: additive, hidden_size: 512}` or `additive`.

    As an override, the name alone replaces the part and all its options; `{name: general}` keeps the options.
    """

    alone = "name"
    key: ClassVar[str]  # its path in a configuration, for error messages

    name: PartName  # as `seq2seq-attn scorers` lists it, or the file of a class: my_file.py:MyClass

    @property
    @abstractmethod
    def part(self) -> type[nn.Module]:
        """The class with that name; ValueError if there is none."""

    @model_validator(mode="after")
    def _options_are_its_own(self) -> PartConfig:
        self.options.update(self._checked())
        return self

    @property
    def options(self) -> dict[str, Any]:
        return self.model_extra or {}

    def _checked(self) -> dict[str, Any]:
        """The options, converted to the types that the part's constructor declares: YAML reads 1e-3 as text."""
        part, own = self.part, own_options(self.part)
        checked = {}
        for name, value in self.options.items():
            if name not in own:
                raise ValueError(f"{part.__name__} has no option {shown(name)}; {self._way_out(name, list(own))}")
            place = f"{part.__name__}: {name} = {shown(value)}"
            try:
                checked_number(value, own[name].annotation)
                checked[name] = TypeAdapter(_wanted_type(own[name])).validate_python(value)
            except ValidationError as error:
                raise ValueError(f"{place}: {wanted(error.errors())}") from None
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from None
            if isinstance(checked[name], float) and not isfinite(checked[name]):
                raise ValueError(f"{place}: a finite number is wanted")
        return checked

    def _way_out(self, name: str, own: list[str]) -> str:
        replace = f"{self.key}={self.name} replaces another {self.key.split('.')[-1]} together with its options"
        return did_you_mean(name, own, f"it has: {', '.join(own) or 'none'} ({replace})")


class ScorerConfig(PartConfig):
    """`{name: additive, hidden_size: 512}`; a scorer that wraps another one has it as an option."""

    key = "model.context.scorer"

    name: PartName = "additive"  # as `seq2seq-attn scorers` lists it, or the file of a class

    @property
    def part(self) -> type[attention.Scorer]:
        return _find_part(attention.scorer_class, self.name)

    def __call__(self, query_size: int, key_size: int) -> attention.Scorer:
        """The scorer for these sizes; this makes the configuration a `ScorerFactory`, e.g. for `Relative`."""
        return self.part(query_size, key_size, **self.options)


class NormalizerConfig(PartConfig):
    """`{name: softmax, temperature: 0.5}`."""

    key = "model.context.normalizer"

    name: PartName = "softmax"  # as `seq2seq-attn scorers` lists it, or the file of a class

    @property
    def part(self) -> type[attention.Normalizer]:
        return _find_part(attention.normalizer_class, self.name)

    def __call__(self) -> attention.Normalizer:
        return self.part(**self.options)


class ReplacementNormalizerConfig(NormalizerConfig):
    """A normalizer that can replace the one of a trained model: `sparsemax`, `{name: softmax, temperature: 0.5}`.

    Its weights depend on the scores of a step alone. It is one of the catalog, as `seq2seq-attn scorers` lists it:
    the name may come from a client of a server, so no file or module is imported for it.
    """

    key = "normalizer"

    @property
    def part(self) -> type[attention.Normalizer]:
        known = attention.normalizer_classes()
        choices = [name for name, part in known.items() if not part.needs_history]
        if self.name in choices:
            return known[self.name]
        if self.name in known:
            raise ValueError(f"{self.name} needs the weights of earlier steps; choose from {', '.join(choices)}")
        hint = did_you_mean(self.name, choices, f"choose from {', '.join(choices)}")
        raise ValueError(f"there is no normalizer {shown(self.name)} in the catalog; {hint}")

    @model_validator(mode="after")
    def _is_complete(self) -> ReplacementNormalizerConfig:
        own = own_options(self.part).items()
        missing = [name for name, option in own if option.default is Parameter.empty and name not in self.options]
        if missing:
            raise ValueError(f"{self.name} needs options: give a mapping with the keys {', '.join(['name', *missing])}")
        if next(self().parameters(), None) is not None:
            raise ValueError(f"{self.name} has parameters, which the model has not learned; choose one without")
        return self

    def _way_out(self, name: str, own: list[str]) -> str:
        return did_you_mean(name, own, f"it has: {', '.join(own) or 'none'}")


def replacement_normalizers() -> list[str]:
    """The names that `ReplacementNormalizerConfig` accepts without options."""
    return [name for name in attention.normalizer_classes() if _is_replacement(name)]


def _is_replacement(name: str) -> bool:
    try:
        ReplacementNormalizerConfig(name=name)
    except ValidationError:
        return False
    return True


class WindowConfig(PartConfig):
    """`{name: local_p, half_width: 5}`."""

    key = "model.context.window"

    @property
    def part(self) -> type[attention.Window]:
        return _find_part(attention.window_class, self.name)

    def __call__(self, query_size: int) -> attention.Window:
        return self.part(query_size, **self.options)


def _wanted_type(option: Parameter) -> Any:
    if option.annotation is Parameter.empty:
        return Any
    if option.annotation is attention.ScorerFactory:
        return ScorerConfig
    try:
        TypeAdapter(option.annotation)
    except PydanticUserError:  # a class that pydantic cannot check
        return Any
    return option.annotation


class PositionConfig(PartConfig):
    """`{name: learned, max_positions: 512}`; a position of self-attention."""

    key = "position"

    @property
    def part(self) -> type[attention.Position]:
        return _find_part(attention.position_class, self.name)

    def __call__(self, size: int, heads: int) -> attention.Position:
        return self.part(size, heads, **self.options)


class ChunkConfig(Strict):
    """Softmax attention over the position chosen by monotonic attention and the `size` - 1 positions before it."""

    size: Size = 4  # positions
    scorer: ScorerConfig = ScorerConfig()


class ContextConfig(Strict):
    """What the decoder sees of the source at every step: the one part in which the arms of an ablation differ."""

    kind: Literal["attention", "mean", "fixed", "none"] = "attention"
    scorer: ScorerConfig = ScorerConfig()
    frozen_scorer: bool = False  # the scorer keeps its initial parameters; a control for what training it contributes
    normalizer: NormalizerConfig = NormalizerConfig()
    window: WindowConfig | None = None
    chunk: ChunkConfig | None = None  # with normalizer=monotonic: chunkwise attention
    heads: Size = 1  # above 1: multi-head attention
    separate_values: bool = False  # half of each state is the key, the other half the value

    @model_validator(mode="after")
    def _chunk_needs_monotonic(self) -> ContextConfig:
        if self.chunk is not None and self.normalizer.name != "monotonic":
            raise ValueError(f"chunk needs normalizer=monotonic, which chooses its end, got {self.normalizer.name}")
        return self

    @model_validator(mode="after")
    def _frozen_scorer_needs_one_head(self) -> ContextConfig:
        if self.frozen_scorer and self.heads > 1:
            raise ValueError("frozen_scorer=true does not freeze the projections of several heads; set heads=1")
        return self


def build_context(
    config: ContextConfig,
    query_size: int,
    state_size: int,
    directions: int,
    summary: attention.Summary,
) -> attention.Context:
    """The context for queries of `query_size` and encoder states of `state_size` in one or two directions.

    `summary` gives the C of the fixed context. UserError if sizes or options do not fit.
    """
    if config.kind == "none":
        return attention.NoContext()
    if config.kind == "fixed":
        return attention.FixedContext(summary, state_size)
    if config.kind == "mean":
        return attention.MeanContext(state_size)
    if not config.separate_values:
        return _attention(config, query_size, state_size)
    if state_size % (2 * directions):
        raise UserError(
            f"model.context.separate_values=true halves the {state_size // directions} numbers of an encoder state; "
            f"choose an even encoder.hidden_size"
        )
    return attention.KeyValueAttention(_attention(config, query_size, state_size // 2), directions)


def _attention(
    config: ContextConfig, query_size: int, key_size: int
) -> attention.Attention | attention.ChunkwiseAttention | attention.MultiHead:
    if config.heads == 1:
        return _one_head(config, query_size, key_size)
    if query_size % config.heads:
        raise UserError(f"model.context.heads={config.heads} does not divide decoder.hidden_size={query_size}")
    size = query_size // config.heads
    return attention.MultiHead(_one_head(config, size, size), config.heads, query_size, key_size)


def build_multi_head(
    config: ContextConfig,
    query_size: int,
    key_size: int,
    *,
    place: str,
    dropout: float = 0.0,
    position: attention.Position | None = None,
) -> attention.MultiHead:
    """Multi-head attention as a Transformer has it: with biases, and projections even for one head.

    `dropout` is that of the weights. UserError, which names `place` in the configuration, if sizes do not fit.
    """
    if query_size % config.heads:
        raise UserError(f"{place}.heads={config.heads} does not divide model.embedding_size={query_size}")
    size = query_size // config.heads
    one = _one_head(config, size, size, place, dropout)
    return attention.MultiHead(one, config.heads, query_size, key_size, bias=True, position=position)


def _one_head(
    config: ContextConfig, query_size: int, key_size: int, place: str = "model.context", dropout: float = 0.0
) -> attention.Attention | attention.ChunkwiseAttention:
    window = config.window
    one = attention.Attention(
        _scorer(f"{place}.scorer", config.scorer, config, query_size, key_size),
        build_part(f"{place}.normalizer", config.normalizer, config.normalizer),
        None if window is None else build_part(f"{place}.window", window, partial(window, query_size)),
        dropout=dropout,
    )
    if config.chunk is None:
        return one
    chunk_scorer = _scorer(f"{place}.chunk.scorer", config.chunk.scorer, config, query_size, key_size)
    return attention.ChunkwiseAttention(one, chunk_scorer, config.chunk.size)


def _scorer(
    place: str, scorer: ScorerConfig, config: ContextConfig, query_size: int, key_size: int
) -> attention.Scorer:
    built = build_part(place, scorer, partial(scorer, query_size, key_size))
    if not config.frozen_scorer:
        return built
    if not any(True for _ in built.parameters()):
        raise UserError(f"model.context.frozen_scorer=true: {scorer.name} has no parameters; choose a scorer with some")
    return built.requires_grad_(False)


def build_part(place: str, config: PartConfig, factory: Callable[[], Built]) -> Built:
    """`factory()`; UserError that names the part and its options if the constructor, possibly a user's own, raises."""
    try:
        return factory()
    except Exception as error:
        reason = " ".join(str(error).split())
        if not isinstance(error, (TypeError, ValueError)):
            reason = f"{type(error).__name__}: {reason}".rstrip()
        options = ", ".join(f"{name}={value!r}" for name, value in config.options.items())
        part = f"{config.name} with {options}" if options else config.name
        raise UserError(f"{place}: {reason} ({part})") from error
