"""A trained model between two front ends: it predicts and scores targets.

A search with a shortlist also needs the lexicon of the run, which is learned on first use (`runs/lexicon.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_model

from seq2seq_attn.attention.user_code import load_place
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.casing import cased_as
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.display import Display
from seq2seq_attn.corpora.embedded import glosses
from seq2seq_attn.corpora.front_end import FrontEnd, numbered
from seq2seq_attn.corpora.lexicon import Lexicon
from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.corpora.unknown_words import UnknownWords
from seq2seq_attn.corpora.vocabulary import SPECIALS, UNK
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import checked
from seq2seq_attn.models.config import ModelConfig, weights_from_a_file
from seq2seq_attn.models.ensemble import Ensemble
from seq2seq_attn.models.seq2seq import HeadWeights, Seq2Seq
from seq2seq_attn.ops import fuse, is_reference
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.runs import CONFIG, MODEL, Say
from seq2seq_attn.runs.building import build_translator, count_parameters, require_memory
from seq2seq_attn.runs.corpora import load_front_ends
from seq2seq_attn.runs.folder import read_config
from seq2seq_attn.runs.limits import Limits
from seq2seq_attn.runs.requests import Replacement, SourceLine, rules_of
from seq2seq_attn.search.batched import (
    Progress,
    autocast,
    device_of,
    force_corpus,
    quantized_for,
    search,
)
from seq2seq_attn.search.forced import Forced, force, force_heads
from seq2seq_attn.search.hypotheses import Hypothesis
from seq2seq_attn.search.interruptible import AtStep, never
from seq2seq_attn.search.shortlist import Shortlist

_Found = TypeVar("_Found")


def _refuse_other_shapes(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """RuntimeError if a tensor in the file has another shape than the model of its configuration."""
    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 - the object is no mapping
            found = tuple(file.get_slice(name).get_shape())
            if name in shapes and shapes[name] != found:
                raise RuntimeError(f"{name} has shape {found} in the file and {shapes[name]} in the configuration")


@dataclass(frozen=True)
class TrainedModel:
    """A translator between two front ends.

    It is fused when it is first used (`ops.fuse`), once for each precision. What is changed in `translator` later, and
    weights that were changed since, take effect in a model without these forms: `replace(model, forms={})`, or
    `forms=None` for one that is fused at each use.
    """

    config: Config
    source: FrontEnd
    target: Codec
    translator: Seq2Seq
    lexicon: Lexicon | None = None  # needed for shortlists; see `runs/lexicon.py`
    is_prepared: bool = False  # for inference
    others: tuple[ModelConfig, ...] = ()  # of an ensemble: the configurations of its other models
    at_step: AtStep = never  # called before every step of decoding, and after every batch that has none
    # `translator`, fused; None: it may be changed, so that no form is kept.
    forms: dict[Any, Seq2Seq] | None = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, folder: Path, device: str | torch.device | None = None) -> TrainedModel:
        """The model of a run folder, by default on the GPU if there is one. Nothing is unpickled.

        A run whose configuration names a class by its file executes its copy of that file (`runs/plugin.py`).

        UserError: the folder is not a run, its training has not ended, or a file is damaged.
        """
        config = read_config(folder)
        source, target = load_front_ends(folder, config)
        path = checked(folder, MODEL)
        if not path.exists():
            raise UserError(f"{path}: no such file; training has not ended: continue it with train --resume")
        try:
            _refuse_other_shapes(path, require_memory(config, source, target))
            with torch.random.fork_rng(devices=()), weights_from_a_file():  # the weights drawn here are replaced below
                translator = build_translator(config, source, target)
            load_model(translator, path)
        except (SafetensorError, RuntimeError, OSError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"{path}: not the model of {folder / CONFIG}, or truncated: {reason}") from None
        for name, parameter in translator.named_parameters():
            if not bool(parameter.isfinite().all()):
                raise UserError(f"{path}: {name} has values that are not finite (NaN); train again, or copy it again")
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        return cls(config, source, target, translator.to(device).eval())

    @cached_property
    def limits(self) -> Limits:
        """How long the lines may be that this model reads and writes."""
        return Limits(self.config, self.source, self.target, (self.config.model, *self.others))

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return device_of(self.translator)

    @property
    def fused(self) -> Seq2Seq:
        """The translator with fused forms of its parts; it shares all parameters."""
        return self.translator if self.is_prepared else self._form("trained", lambda: fuse(self.translator))

    def for_inference(self, options: SearchOptions | None = None) -> TrainedModel:
        """A copy for searches in the precision of these options, which cannot be trained; itself if it is one."""
        if self.is_prepared:
            return self
        options = options or self.config.search

        def prepared() -> Seq2Seq:
            with autocast(options, self.device.type):
                return fuse(quantized_for(options, self.translator), constant=True)

        return replace(self, translator=self._form(options.precision, prepared), is_prepared=True)

    def _form(self, precision: str, make: Callable[[], Seq2Seq]) -> Seq2Seq:
        if self.forms is None:
            return make()
        key = precision, self.device, is_reference()
        if key not in self.forms:
            self.forms[key] = make()
        return self.forms[key]

    def averaged_with(self, others: Sequence[TrainedModel]) -> TrainedModel:
        """The ensemble of this model and others; everything but the translator is this model's.

        The others have the same front ends: see `FrontEnd.difference`.
        """
        if not others:
            return self
        translator = Ensemble([each.translator for each in (self, *others)])
        return replace(
            self, translator=translator, is_prepared=False, others=tuple(each.config.model for each in others), forms={}
        )

    def search(
        self,
        given: Sequence[str | SourceLine],
        options: SearchOptions | None = None,
        *,
        with_weights: bool = False,
        progress: Progress | None = None,
        warn: Say = lambda _: None,
        first_line: int = 1,
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each line, best first; none for a blank line.

        Lines with more than `data.max_length` positions are cut, with one warning through `warn` that names the first
        of them, counted from `first_line`, and their number. `options` default to those of the configuration.
        Samples are in the order in which they were drawn.
        """
        requests = [SourceLine.of(each) for each in given]
        lines = [each.source for each in requests]
        items = self.limits.cut_all(list(numbered(self.source.items(lines), first=first_line)), first_line, warn)
        filled = [index for index, item in enumerate(items) if self.source.length(item) > 0]
        found: list[list[Hypothesis]] = [[] for _ in lines]
        options = options or self.config.search
        self.limits.require_steps(options.max_length, "max_length")
        self.require_weights(options)
        translator = self.for_inference(options).translator
        rules = rules_of(self.target, requests, options, first_line)
        hypotheses = search(
            translator,
            [items[i] for i in filled],
            options.for_candidates(),
            collate=self.source.collate,
            shortlist=self._shortlist(options),
            rules=rules and rules.select(filled),
            with_weights=with_weights or options.replace_unknown,
            progress=progress,
            at_step=self.at_step,
        )
        for index, best in zip(filled, hypotheses, strict=True):
            found[index] = self._chosen(requests[index], best, options)
        return found

    def _chosen(self, source: SourceLine, candidates: list[Hypothesis], options: SearchOptions) -> list[Hypothesis]:
        """The n best of the candidates."""
        if options.mbr is not None:
            return self._by_utility(source, candidates, options.mbr, options)
        if options.distinct:  # several segmentations of a text may be in the beam
            first: dict[str, Hypothesis] = {}
            for each in candidates:
                first.setdefault(self.text(source, each, options), each)
            candidates = list(first.values())
        return candidates[: options.n_best]

    def translate(self, lines: Sequence[str], options: SearchOptions | None = None, **rest: Any) -> list[str]:
        """The best translation of each line, a blank one for a blank line; arguments as for `search`."""
        options = options or self.config.search
        found = zip(lines, self.search(lines, options, **rest), strict=True)
        return [self.text(line, best[0], options) if best else "" for line, best in found]

    def text(self, source: str | SourceLine, hypothesis: Hypothesis, options: SearchOptions) -> str:
        """A hypothesis, found with these options, as a line of text; see `shown`."""
        return self.shown(source, hypothesis, options)[0]

    def shown(
        self, source: str | SourceLine, hypothesis: Hypothesis, options: SearchOptions
    ) -> tuple[str, tuple[Replacement, ...]]:
        """A hypothesis, found with these options, as a line of text, and what its unknown tokens were replaced by.

        An unknown token is shown as `<unk>` or, with `options.replace_unknown`, as its replacement, whose case
        `options.casing` leaves.
        """
        line = SourceLine.of(source).source
        replaced = self._replacements(source, hypothesis, options)
        stand_ins = [each.text for each in replaced]
        text = self.target.given(line).decode(hypothesis.tokens, stand_ins)
        if options.casing is not None:
            placed = self.target.placeholders.values(line)
            kept = (*stand_ins, *placed, *self.target.tokenizer.protected, SPECIALS[UNK])
            text = cased_as(self.text_source("search.casing").read(line), text, kept)
        return text, replaced

    def _replacements(
        self, source: str | SourceLine, hypothesis: Hypothesis, options: SearchOptions
    ) -> tuple[Replacement, ...]:
        """What is shown for each unknown token of a hypothesis; nothing unless `options.replace_unknown`.

        It is the source token that it attends to most, `</s>` left out (Jean et al. 2015, sec. 3.3), or what a glossary
        has for its word (Luong et al. 2015b, sec. 3).
        """
        if not options.replace_unknown or UNK not in hypothesis.tokens or hypothesis.weights is None:
            return ()
        line, codec = SourceLine.of(source), self.text_source("search.replace_unknown")
        pieces = codec.pieces(line.source) if options.casing is None else codec.written(line.source)
        words, word_of = codec.words(line.source), codec.word_indices(line.source)
        found = []
        for step in (step for step, token in enumerate(hypothesis.tokens) if token == UNK):
            weights = hypothesis.weights[step, :-1]
            if not bool(weights.any()):
                found.append(Replacement(step, SPECIALS[UNK], None))
                continue
            position = int(weights.argmax())
            token = codec.given(line.source).text([pieces[position]])
            term = line.term(token, words[word_of[position]])
            by: Literal["copy", "glossary"] = "copy" if term is None else "glossary"
            found.append(Replacement(step, term or token, by, position, token))
        return tuple(found)

    def text_source(self, what: str) -> Codec:
        """The codec of the source. UserError, which begins with `what`: the source of this model is not text."""
        if not isinstance(self.source, Codec):
            kind = "is not" if self.config.source is None else f"is {self.reads}"
            raise UserError(f"{what} needs a source of text alone, and that of this model {kind}")
        return self.source

    @property
    def reads(self) -> str:
        """What the source is: text, or the kind of its front end, such as speech."""
        return "text" if self.config.source is None else self.config.source.kind

    def source_labels(self, line: str, states: int | None = None, *, is_cut: bool = True) -> tuple[str, ...]:
        """What to call each position of a line, such as its tokens; none for a blank line.

        Args:
            line: The line.
            states: The number of the encoder's states, if they are to be named: state k of S has the label of position
                ⌊k L / S⌋ of L. In a grid, this holds for the states of each row, and the number of the row precedes.
            is_cut: Whether the positions are those that a search reads, or all.
        """
        labels = self.source.labels(line) if line.strip() else []
        read = self.source.cut(labels, self.limits.longest_source) if is_cut else labels
        if states is None or (rows := self.rows(line)) == 1:
            return tuple(_spread(read, states))
        columns = _spread(read, states // rows)
        return tuple(f"{row}:{label}" for row in range(1, rows + 1) for label in columns)

    def source_words(self, line: str, states: int) -> list[int]:
        """The word of a line that each of this many states is of, as in `source_labels`; `</s>` is of none."""
        words, rows = self.source.word_indices(line), self.rows(line)
        if rows == 1 and states == len(words) + self.source.marks:
            return words
        return _spread(words, states // rows) * rows

    def rows(self, line: str) -> int:
        """How many rows the grid of a line's states has (`Encoder.rows`); 1: they are a sequence, as those of text."""
        if not self.source.names_files or not line.strip():
            return 1
        return self.translator.rows(self.source.collate([self.source.encode(line)]).to(self.device))

    def display(self, line: str, *, is_cut: bool = True) -> Display | None:
        """What the positions of a line look and sound like that a search reads, or all; None if it is text."""
        found = self.source.display(line)
        length = self.source.length(self.source.encode(line)) if found and is_cut else 0
        if found is None or length <= self.limits.longest_source:
            return found
        return found.first(self.limits.longest_source / length)

    def unknown_words(self, pairs: ParallelCorpus) -> UnknownWords:
        """How many words of the sources and of the targets the model does not know."""
        targets = self.target.count_unknown(pairs.target, pairs.source)
        return UnknownWords(self.source.count_unknown(pairs.source), targets)

    def require_weights(self, options: SearchOptions) -> None:
        """UserError if an option needs attention weights, or a source of text, and this model has none."""
        if options.casing is not None:
            self.text_source("search.casing")
        if options.coverage_penalty and not self.translator.attends:
            raise UserError(
                "search.coverage_penalty: this model does not attend to single source words, so nothing says which of "
                "them it has read; leave it out"
            )
        if options.replace_unknown:
            self.text_source("search.replace_unknown")
        if options.replace_unknown and not self.translator.attends:
            raise UserError(
                "search.replace_unknown: this model does not attend to single source words, so nothing says which of "
                "them to show; leave it out, and unknown words are shown as <unk>"
            )

    def force(
        self, sources: Sequence[str], targets: Sequence[str], progress: Progress | None = None
    ) -> list[Forced | None]:
        """Log-probabilities and attention weights for given targets; None for a pair with a blank side."""
        return self._forced(force, sources, targets, progress)

    def head_weights(
        self, sources: Sequence[str], targets: Sequence[str], progress: Progress | None = None
    ) -> list[HeadWeights | None]:
        """The weights of every layer and head, as `HeadWeights.of_pair`; None for a pair with a blank side."""
        return self._forced(force_heads, sources, targets, progress)

    def _forced(
        self,
        method: Callable[[Seq2Seq, Any, Tokens], list[_Found]],
        sources: Sequence[str],
        targets: Sequence[str],
        progress: Progress | None,
    ) -> list[_Found | None]:
        """The results of a method of forced decoding for the pairs with text on both sides, and None for the others."""
        encoded = (self.target.given(source).encode(target) for source, target in zip(sources, targets, strict=True))
        pairs = list(zip(numbered(self.source.items(sources)), encoded, strict=True))
        filled = [
            index
            for index, (source, target) in enumerate(pairs)
            if min(self.source.length(source), self.target.length(target)) > 0
        ]
        found: list[_Found | None] = [None] * len(pairs)

        def after_batch(count: int) -> None:
            self.at_step()
            if progress is not None:
                progress(count)

        read, written = [pairs[i][0] for i in filled], [pairs[i][1] for i in filled]
        forced = force_corpus(method, self.fused, read, written, collate=self.source.collate, progress=after_batch)
        for index, result in zip(filled, forced, strict=True):
            found[index] = result
        return found

    def parameters(self) -> int:
        """The number of trainable parameters, see `count_parameters`."""
        return count_parameters(self.translator)

    def about(self) -> dict[str, Any]:
        """What a page needs to know of the model, as JSON."""
        return {
            "kind": self.config.model.kind,
            "reads": self.reads,
            "sample_rate": getattr(self.config.source, "sample_rate", None),
            "parameters": self.parameters(),
            "heads": [context.heads for context in self.translator.contexts_that_read()],  # of each layer that attends
            "max_length": self.config.data.max_length,  # source tokens
            "search": self.config.search.model_dump(mode="json"),
        }

    def glosses(self) -> dict[str, str]:
        """The English gloss of each word of a side; none unless all words of the side are of the embedded corpus."""
        sides = [side for side in (self.source, self.target) if isinstance(side, Codec)]
        return {
            word: gloss
            for side in sides
            for word, gloss in glosses(side.vocabulary.get_itos()[len(SPECIALS) :]).items()
        }

    def _shortlist(self, options: SearchOptions) -> Shortlist | None:
        if not options.shortlist:
            return None
        self.text_source("search.shortlist")
        if self.lexicon is None:
            raise UserError("search.shortlist needs the lexicon of the run; load it with with_lexicon(model, folder)")
        translations, frequent = map(torch.from_numpy, self.lexicon)
        return Shortlist(translations[:, : options.shortlist], frequent[: options.shortlist_frequent])

    def _by_utility(
        self, source: SourceLine, candidates: Sequence[Hypothesis], name: str, options: SearchOptions
    ) -> list[Hypothesis]:
        """The n best texts among the candidates, each as one hypothesis with its mean utility as score, best first."""
        from seq2seq_attn.evaluation.bayes_risk import mean_utilities, utility  # imports sacrebleu
        from seq2seq_attn.evaluation.metrics import find_metrics

        try:
            (metric,) = find_metrics([name], load_place)
        except ValueError as error:
            raise UserError(f"mbr: {error}") from None
        self.at_step()
        texts = [self.text(source, each, options) for each in candidates]
        means = mean_utilities(texts, utility(metric, *self.config.evaluation.words))
        distinct: dict[str, Hypothesis] = {}
        for text, mean, hypothesis in zip(texts, means, candidates, strict=True):
            distinct.setdefault(text, hypothesis._replace(score=mean))
        return sorted(distinct.values(), key=lambda hypothesis: -hypothesis.score)[: options.n_best]


def _spread(values: Sequence[_Found], states: int | None) -> list[_Found]:
    """What the states of an encoder stand for, given this for each position; the states may be fewer."""
    states = len(values) if states is None else states
    return [values[state * len(values) // states] for state in range(states)]
