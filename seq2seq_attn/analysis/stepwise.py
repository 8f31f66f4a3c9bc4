"""Decoding step by step: everything that a model computes at a step, with interventions at some of them.

The translation is given, found by any search, or found while its steps are read, by greedy search. An intervention
replaces what the decoder reads at one step, or at all; the decoder goes on from the state that follows. The changes of
the weights are those of `faithfulness.py`; there they apply to the weights that the unchanged model computes, here to
those that the model computes after all earlier interventions.
"""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field, NonNegativeInt, model_validator
from torch import Tensor, nn

from seq2seq_attn.analysis.attention_files import NO_WEIGHTS
from seq2seq_attn.attention import Attention, Change, Context, Intervened, Normaliser
from seq2seq_attn.attention.contexts.counterfactual import uniform, without_any
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.context_config import ReplacementNormaliserConfig, replacement_normalisers
from seq2seq_attn.models.translator import Sentences, Step, Translator, pad
from seq2seq_attn.ops.continuations import best_continuations
from seq2seq_attn.ops.replace import replace_modules
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.batched import search
from seq2seq_attn.search.options import SearchOptions
from seq2seq_attn.strict import Strict
from seq2seq_attn.text.encoded import Ids
from seq2seq_attn.text.vocabulary import EOS, PAD, SPECIALS, UNK, Vocabulary

LIKELY = 10  # next tokens that a step lists
CHANGES: dict[str, Change] = {"mean": uniform, "nothing": without_any}  # of the weights that follow from the scores


class Intervention(Strict):
    """What replaces the context at a step.

    `weights`: the sum of the values under these weights, which are used as they are; they need not sum to 1.
    `mean`: under equal weights. `nothing`: under weights of 0. `sentence`: the context that the model reads at the same
    step of the same translation of the sentence `other`. `temperature`: under the weights a_i = normalise(e_i / t),
    where e_i are the model's own scores, `normalise` is its own normaliser, and t is `temperature`; with softmax,
    a_ij = exp(e_ij / t) / Σ_k exp(e_ik / t) (Hinton et al. 2015, eq. 1). Below 1 the weights are more concentrated,
    above 1 closer to equal. `normaliser`: under the weights a_i = normalise'(e_i), where normalise' is `normaliser`, in
    place of the model's own; with a temperature as well, a_i = normalise'(e_i / t). It is given by name, "sparsemax",
    or with its options, {"name": "softmax", "temperature": 0.5}; see `ReplacementNormaliserConfig` for what is refused.
    At one place, several temperatures multiply, and the last of several normalisers counts. Other interventions at the
    same step apply to the weights that follow.
    """

    replace: Literal["weights", "mean", "sentence", "nothing", "temperature", "normaliser"]  # by what
    step: NonNegativeInt | None = None  # counted from 0, tokens of a prefix included; null: at every step
    layer: NonNegativeInt | None = None  # of the decoder; null: in every layer
    head: NonNegativeInt | None = None  # null: in every head
    weights: tuple[float, ...] | None = None  # one per source token, `</s>` included
    other: str | None = None  # a source sentence
    temperature: float | None = Field(default=None, ge=0.001, le=1000)
    normaliser: ReplacementNormaliserConfig | None = None

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Intervention:
        for name in ("weights", "other", "temperature", "normaliser"):
            needed = "sentence" if name == "other" else name
            is_given, is_needed = getattr(self, name) is not None, self.replace == needed
            if is_needed and not is_given:
                raise ValueError(f"replace={needed} needs {name}")
            if is_given and not is_needed:
                raise ValueError(f"{name} is for replace={needed} alone, not for replace={self.replace}")
        if self.weights is not None and not all(0 <= weight < float("inf") for weight in self.weights):
            raise ValueError("weights must be finite numbers of at least 0")
        if self.replace == "sentence" and self.head is not None:
            raise ValueError("replace=sentence replaces the context of all heads of a layer; leave head out")
        return self


class LayerReading(NamedTuple):
    """How one layer of the decoder read the S source tokens at a step, by each of its H heads."""

    weights: list[list[float]]  # (H, S)
    # (H, S), before temperature and normaliser; None where a token is excluded, or if the context is no `Attention`
    scores: list[list[float | None]] | None
    contributions: list[list[float]]  # (H, S): |a_j v_j|, how far source token j moves C (Kobayashi et al. 2020)


class DecodedStep(NamedTuple):
    """One step of decoding."""

    token: str  # chosen or given
    log_probability: float  # of this token
    weights: list[float] | None  # (S,) mean over layers and heads; None if none or if another sentence was read
    layers: list[LayerReading]  # one per layer that attends; empty where another sentence was read
    likely: list[tuple[str, float]]  # the most probable tokens with their probabilities, the most probable first


@dataclass(frozen=True)
class DecodedSteps:
    """A translation with all of its steps."""

    source: tuple[str, ...]  # tokens, `</s>` last
    text: str
    log_probability: float  # ln p(translation | source), tokens of the prefix included
    steps: tuple[DecodedStep, ...]

    @property
    def tokens(self) -> list[str]:
        """The tokens of the translation; `</s>` last, unless the search reached its maximum length."""
        return [step.token for step in self.steps]


def decode_steps(
    model: TrainedModel,
    source: str | Sequence[str],
    target: str | None = None,
    *,
    prefix: str | Sequence[str] = (),
    interventions: Sequence[Intervention] = (),
    options: SearchOptions | None = None,
) -> Iterator[DecodedStep]:
    """The steps that predict `target`, or the translation that a search finds after `prefix`, one after the other.

    `source` and `prefix` are text or lists of tokens. By default, the search is that of the configuration; with a beam
    of 1 every step is returned as soon as it is decoded. Steps are computed in single precision with the whole
    vocabulary. UserError: a side is blank, a token is unknown, or an intervention does not fit the sentence or the
    model.
    """
    ids = source_ids(model, source)
    options = _exact(options or model.config.search).model_copy(update={"n_best": 1})
    decoder = _Decoder(model, ids, interventions)
    if target is not None:
        tokens = model.target.encode(target)
        if len(tokens) == 1:
            raise UserError("a blank translation has no steps; give one with text, or none to search for it")
        return decoder.steps(tokens, len(tokens))
    first = prefix_ids(model, prefix)
    rest = _after(options, len(first))
    limit = len(first) + rest.limit(len(ids))
    if options.beam_size == 1 and options.sampling is None:
        return decoder.steps(first, limit, options.min_length)
    (found,) = search(_Continuing(decoder, first), [ids], rest)
    return decoder.steps([*first, *found[0].tokens, EOS], min(limit, len(first) + len(found[0].tokens) + 1))


class Continuation(NamedTuple):
    """A translation that a search found after a prefix."""

    text: str
    tokens: list[str]  # with the prefix; `</s>` last, unless the search reached its maximum length
    log_probability: float  # of the tokens after the prefix
    score: float  # by which the search ranks: that of the tokens after the prefix


def continuations(
    model: TrainedModel,
    source: str | Sequence[str],
    *,
    prefix: str | Sequence[str] = (),
    interventions: Sequence[Intervention] = (),
    options: SearchOptions | None = None,
) -> list[Continuation]:
    """The n best translations that begin with `prefix`, best first, or n samples; the arguments of `decode_steps`.

    The first of them is the translation of `decode_steps`, if the search is a beam search. UserError as there.
    """
    ids = source_ids(model, source)
    first = prefix_ids(model, prefix)
    rest = _after(_exact(options or model.config.search), len(first))
    (found,) = search(_Continuing(_Decoder(model, ids, interventions), first), [ids], rest)
    limit = rest.limit(len(ids))
    best = []
    for each in found:
        predicted = [*first, *each.tokens, *([EOS] if len(each.tokens) < limit else [])]
        tokens = model.target.vocabulary.lookup_tokens(predicted)
        best.append(Continuation(model.target.decode(predicted), tokens, each.log_probability, each.score))
    return best


def _exact(options: SearchOptions) -> SearchOptions:
    """The options in single precision with the whole vocabulary."""
    return options.model_copy(update={"precision": "fp32", "shortlist": None, "mbr": None})


def decoded(model: TrainedModel, source: str | Sequence[str], steps: Iterator[DecodedStep]) -> DecodedSteps:
    """The record of a translation with these steps."""
    found = tuple(steps)
    return DecodedSteps(
        source_tokens(model, source),
        model.target.decode(model.target.vocabulary.lookup_indices(step.token for step in found)),
        sum(step.log_probability for step in found),
        found,
    )


def normalisers_for(model: TrainedModel) -> list[str]:
    """The names that `replace=normaliser` takes for this model; none if its weights are not those of one scorer."""
    contexts = model.translator.contexts_that_read()
    return replacement_normalisers() if contexts and _have_scores(contexts) else []


def _have_scores(contexts: Sequence[Context]) -> bool:
    return all(isinstance(context.reader(), Attention) for context in contexts)


def source_tokens(model: TrainedModel, source: str | Sequence[str]) -> tuple[str, ...]:
    """The tokens that the decoder reads, `</s>` last."""
    tokens = model.source.pieces(source) if isinstance(source, str) else source
    return *tokens[: len(source_ids(model, source)) - 1], SPECIALS[EOS]


def source_ids(model: TrainedModel, source: str | Sequence[str]) -> list[int]:
    """The ids of a sentence, text or tokens, cut as in a search. UserError: it is blank, or a token is unknown."""
    if isinstance(source, str):
        ids = model.source.encode(source)
    else:
        ids = [*_known_ids(model.source.vocabulary, source, "source"), EOS]
    if len(ids) == 1:
        raise UserError("a blank sentence has no steps; give one with text")
    return model.cut(ids)


def prefix_ids(model: TrainedModel, prefix: str | Sequence[str]) -> list[int]:
    """The ids of text, or of tokens, with which a translation begins. UserError: a token cannot be in it."""
    tokens = model.target.pieces(prefix) if isinstance(prefix, str) else prefix
    return _known_ids(model.target.vocabulary, tokens, "prefix")


def _known_ids(vocabulary: Vocabulary, tokens: Sequence[str], name: str) -> list[int]:
    for token in tokens:
        if token not in vocabulary or token in SPECIALS[PAD:]:
            hint = f"give {SPECIALS[UNK]} for an unknown one"
            raise UserError(f"{name}: {token!r} is no token of this model's vocabulary that may stand there; {hint}")
    return vocabulary.lookup_indices(tokens)


def _after(options: SearchOptions, count: int) -> SearchOptions:
    """The options for what follows the first `count` tokens of a translation."""
    shorter = {name: getattr(options, name) - count for name in ("max_length", "max_length_margin")}
    return options.model_copy(update=shorter | {"min_length": max(1, options.min_length - count)})


class _State(NamedTuple):
    """The state of the model after some steps: N hypotheses of the sentence, then N of each other sentence."""

    inner: Any
    steps: int
    hypotheses: int  # N
    copies: int

    def select(self, rows: Tensor) -> _State:
        everywhere = torch.cat([rows + copy * self.hypotheses for copy in range(self.copies)])
        return self._replace(inner=self.inner.select(everywhere), hypotheses=len(rows))


class _Decoder:
    """Steps of a sentence and, beside it, of the other sentences whose contexts are read."""

    def __init__(self, model: TrainedModel, source: Ids, interventions: Sequence[Intervention]) -> None:
        self.model = model
        self.translator = model.translator
        self.contexts = self.translator.contexts_that_read()
        others = dict.fromkeys(each.other for each in interventions if each.other is not None)
        self.others = list(others)
        self.sources = pad([source, *(source_ids(model, each) for each in others)], model.device)
        self.length = len(source)
        self.interventions = interventions
        self._check()
        self.read: list[tuple[Tensor, Tensor]] = []  # at the current step: weights and values of each layer
        self.scored: dict[int, Tensor] = {}  # likewise, the scores by number of the layer
        # One model for every step that has interventions of its own, made when it is reached; None: for all others.
        self.own_steps = {each.step for each in interventions}
        self.models: dict[int | None, Translator] = {}

    def step(self, tokens: Tensor, state: _State, memory: Any) -> Step:
        """One step of N hypotheses of the first sentence; every other sentence reads the same tokens."""
        self.read.clear()
        self.scored.clear()
        step = self._at(state.steps).step(tokens.repeat(state.copies), state.inner, memory)
        after = state._replace(inner=step.state, steps=state.steps + 1)
        count = state.hypotheses
        return Step(step.logits[:count], after, step.weights[:count, : self.length])

    def start(self, memory: Any) -> _State:
        return _State(self._at(None).start(memory), 0, 1, len(self.sources.lengths))

    @torch.inference_mode()
    def encode(self) -> Any:
        return self._at(None).encode(self.sources)

    def steps(self, given: Sequence[int], limit: int, min_length: int = 1) -> Iterator[DecodedStep]:
        """The steps of the given tokens, then those of greedy search, until `</s>` or `limit`."""
        memory = self.encode()
        state, token = self.start(memory), self.translator.start_token
        for number in range(limit):
            forced = given[number] if number < len(given) else None
            record, state, token = self._record(token, state, memory, forced, number + 1 >= min_length)
            yield record
            if token == EOS:
                return

    @torch.inference_mode()
    def _record(
        self, token: int, state: _State, memory: Any, forced: int | None, may_end: bool
    ) -> tuple[DecodedStep, _State, int]:
        device = self.sources.tokens.device
        output = self.step(torch.tensor([token], device=device), state, memory)
        logits = output.logits.to(torch.promote_types(output.logits.dtype, torch.float32))
        best = best_continuations(torch.zeros(1, 1, device=device), logits, 1, may_end)
        chosen = int(best.tokens) if forced is None else forced
        log_probabilities = torch.log_softmax(logits[0], dim=0)
        if not log_probabilities.isfinite().all():
            raise UserError("the predictions are no numbers any more; give smaller weights")
        likely = log_probabilities.exp().topk(min(LIKELY, len(log_probabilities)))
        words = self.model.target.vocabulary.lookup_tokens([chosen, *likely.indices.tolist()])
        reads_another = any(self._applies(each, state.steps) and each.other is not None for each in self.interventions)
        has_weights = bool(self.contexts) and not reads_another
        record = DecodedStep(
            token=words[0],
            log_probability=float(log_probabilities[chosen]),
            weights=output.weights[0].tolist() if has_weights else None,
            layers=[self._layer(number) for number in range(len(self.read))] if has_weights else [],
            likely=list(zip(words[1:], likely.values.tolist(), strict=True)),
        )
        return record, output.state, chosen

    def _layer(self, number: int) -> LayerReading:
        """What a layer read, with one hypothesis for each sentence."""
        weights, values = self.read[number]
        own, heads = weights[0, :, : self.length], weights.shape[1]
        norms = torch.linalg.vector_norm(values[:heads, : self.length].float(), dim=-1)
        scores: list[list[float | None]] | None = None
        if (raw := self.scored.get(number)) is not None:
            rows = raw[:heads, 0, : self.length].float().tolist()
            scores = [[score if abs(score) < float("inf") else None for score in row] for row in rows]
        return LayerReading(own.tolist(), scores, (own.abs() * norms).tolist())

    def _applies(self, each: Intervention, step: int | None) -> bool:
        return each.step is None or each.step == step

    def _check(self) -> None:
        if self.interventions and not self.contexts:
            raise UserError(NO_WEIGHTS)
        for each in self.interventions:
            if each.layer is not None and each.layer >= len(self.contexts):
                raise UserError(
                    f"layer {each.layer}: this model reads the source in layers 0 to {len(self.contexts) - 1}"
                )
            heads = min(context.heads for context in self.contexts)
            if each.head is not None and each.head >= heads:
                raise UserError(f"head {each.head}: this model has heads 0 to {heads - 1}")
            if each.replace in ("temperature", "normaliser") and not _have_scores(self.contexts):
                raise UserError(
                    f"replace={each.replace} needs weights from one scorer; those of this model have none or several"
                )
            if each.weights is not None and len(each.weights) != self.length:
                raise UserError(
                    f"{len(each.weights)} weights for {self.length} source tokens: give one for each, `</s>` included"
                )

    def _at(self, step: int | None) -> Translator:
        key = step if step in self.own_steps else None
        if key not in self.models:
            self.models[key] = self._intervened(key)
        return self.models[key]

    def _intervened(self, step: int | None) -> Translator:
        """The model with what applies at this step; `None`: what applies at every step."""
        replacements: dict[nn.Module, nn.Module] = {}
        for number, context in enumerate(self.contexts):
            reader, heads = context.reader(), context.heads
            applied = [
                each for each in self.interventions if self._applies(each, step) and each.layer in (None, number)
            ]
            changes = [self._change(each, heads) for each in applied if each.replace in ("weights", *CHANGES)]
            others = [1 + self.others.index(each.other) for each in applied if each.other is not None]
            replacements[reader] = Intervened(
                self._scored(reader, number, _temperatures(applied, heads), _normalisers(applied, heads)),
                heads,
                partial(_in_turn, changes) if changes else None,
                others[-1] if others else None,
                lambda _, weights, values: self.read.append((weights, values)),
            )
        return replace_modules(self.translator, replacements).eval()

    def _scored(
        self, reader: Context, number: int, temperatures: Sequence[float], normalisers: Mapping[int, Normaliser]
    ) -> Context:
        """The reader with a copy of its scorer that leaves its scores behind; other threads use the original.

        The reader itself gets the scores of the first sentence divided by the temperature of each head, and normalises
        them by the normaliser of each head, if there is one.
        """
        if not isinstance(reader, Attention):
            return reader

        def remember(_scorer: nn.Module, _inputs: object, scores: Tensor) -> Tensor | None:
            self.scored[number] = scores
            if all(each == 1 for each in temperatures):
                return None
            divisors = scores.new_ones(len(scores), 1, 1)  # (B * heads, 1, 1)
            divisors[: len(temperatures), 0, 0] = scores.new_tensor(temperatures)
            return scores / divisors

        parts: dict[nn.Module, nn.Module] = {reader.scorer: _with_hook(reader.scorer, remember)}
        if normalisers:
            parts[reader.normaliser] = _with_hook(reader.normaliser, partial(_normalised_by, normalisers))
        return replace_modules(reader, parts)

    def _change(self, each: Intervention, heads: int) -> Change:
        change = partial(_given, each.weights) if each.weights is not None else CHANGES[each.replace]
        return change if each.head is None else partial(_in_one_head, change, each.head, heads)


def _temperatures(applied: Sequence[Intervention], heads: int) -> list[float]:
    """The product of the temperatures of each head."""
    given = [(each.head, each.temperature) for each in applied if each.temperature is not None]
    return [math.prod(each for place, each in given if place in (None, head)) for head in range(heads)]


def _normalisers(applied: Sequence[Intervention], heads: int) -> dict[int, Normaliser]:
    """The last normaliser given for each head that gets another than the model's own."""
    return {
        head: each.normaliser().eval()
        for each in applied
        if each.normaliser is not None
        for head in range(heads)
        if each.head in (None, head)
    }


def _with_hook(part: nn.Module, hook: Callable[..., Tensor | None]) -> nn.Module:
    """A copy of the part with this hook and those that it has."""
    copied = copy.copy(part)
    copied.__dict__["_forward_hooks"] = OrderedDict(part._forward_hooks)
    copied.register_forward_hook(hook)
    return copied


def _normalised_by(
    normalisers: Mapping[int, Normaliser], _own: nn.Module, inputs: tuple[Any, ...], weights: Tensor
) -> Tensor:
    """The weights (B * heads, K, S) with those of these normalisers in these heads of the first sentence."""
    scores, is_token, *_ = inputs
    changed = weights.clone()
    for head, normaliser in normalisers.items():
        mask = None if is_token is None else is_token.expand_as(scores)[head]
        changed[head] = normaliser(scores[head], mask)
    return changed


def _given(row: Sequence[float], weights: Tensor, is_token: Tensor) -> Tensor:
    """The weights (B, N, S) are this row, at every step of every head."""
    given = torch.zeros_like(weights)
    given[..., : len(row)] = weights.new_tensor(row)
    return given


def _in_one_head(change: Change, head: int, heads: int, weights: Tensor, is_token: Tensor) -> Tensor:
    """The change in the rows of one head; rows (B, heads * T, S) are those of one head after the other."""
    own = torch.unflatten(weights, 1, (heads, -1))
    changed = torch.unflatten(change(weights, is_token), 1, (heads, -1))
    is_changed = torch.arange(heads, device=weights.device) == head
    return torch.where(is_changed[:, None, None], changed, own).flatten(1, 2)


def _in_turn(changes: Sequence[Change], weights: Tensor, is_token: Tensor) -> Tensor:
    for change in changes:
        weights = change(weights, is_token)
    return weights


class _Continuing(Translator):
    """The decoder as a translator of one sentence whose searches begin after a prefix."""

    def __init__(self, decoder: _Decoder, prefix: Sequence[int]) -> None:
        super().__init__()
        self.inner = decoder.translator  # its parameters tell the device
        self.decoder = decoder
        self.prefix = [self.inner.start_token, *prefix]
        self.start_token = self.prefix[-1]

    def encode(self, source: Sentences) -> Any:
        return self.decoder.encode()

    def start(self, memory: Any) -> _State:
        state = self.decoder.start(memory)
        for token in self.prefix[:-1]:
            tokens = torch.tensor([token], device=self.decoder.sources.tokens.device)
            state = self.decoder.step(tokens, state, memory).state
        return state

    def step(self, tokens: Tensor, state: _State, memory: Any) -> Step:
        return self.decoder.step(tokens, state, memory)

    def decode(self, inputs: Tensor, memory: Any) -> Any:
        raise NotImplementedError("steps with interventions are taken one by one")
