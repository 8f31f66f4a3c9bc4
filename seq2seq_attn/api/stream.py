"""How the sources of a stream become records: as lines or by sentences, with one model or several that are averaged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from seq2seq_attn.analysis.attention_files import searched_attention
from seq2seq_attn.api.answers import Candidate, Translation
from seq2seq_attn.corpora.corpus import refuse_no_text
from seq2seq_attn.corpora.sentences import joined
from seq2seq_attn.corpora.sentences import sentences as sentences_of
from seq2seq_attn.errors import UserError
from seq2seq_attn.ops import slow_precision
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.runs import Say, warn
from seq2seq_attn.runs.lexicon import with_lexicon
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.requests import Glossary, SourceLine, kept
from seq2seq_attn.search.batched import Progress

if TYPE_CHECKING:
    from seq2seq_attn.api.model import Model
    from seq2seq_attn.search.hypotheses import Hypothesis


def streamed(
    model: Model,
    batches: Iterable[Sequence[str | SourceLine]],
    options: SearchOptions,
    *,
    ensemble: Sequence[Model] = (),
    weights: bool = False,
    split_sentences: bool = False,
    progress: Progress | None = None,
    say: Say = warn,
    first: int = 0,
) -> Iterator[Translation]:
    """Yields the records; the arguments are those of `Model.stream`."""
    if split_sentences:
        if weights or options.n_best > 1:
            raise UserError("split_sentences: a line has one output and no weights; leave out n_best and weights")
        yield from _paragraphs(model, batches, options, ensemble, progress, say)
        return
    needs_weights = weights or options.replace_unknown or options.coverage_penalty > 0
    trained = with_lexicon(averaged(model, ensemble, needs_weights), model.folder, options, say).for_inference(options)
    if options.precision == "bf16" and (slow := slow_precision("bf16", trained.device.type)) is not None:
        say(slow)
    done = first
    for lines in _of_text(batches, first):
        found = trained.search(lines, options, with_weights=weights, progress=progress, warn=say, first_line=done + 1)
        if progress is not None:
            progress(sum(not hypotheses for hypotheses in found))  # blank lines were not searched
        for line, hypotheses in zip(lines, found, strict=True):
            source = line.source
            candidates = tuple(_candidate(trained, line, each, options) for each in hypotheses)
            attention = searched_attention(trained, source, hypotheses) if weights else None
            unknown = tuple(trained.source.unknown_words(source))
            yield Translation(source, candidates, attention, trained.source_labels(source), unknown)
        done += len(lines)


def _of_text(batches: Iterable[Sequence[str | SourceLine]], first: int = 0) -> Iterator[list[SourceLine]]:
    """The batches as lines, counted from `first`. UserError: the source of one is no text."""
    for batch in batches:
        lines = [SourceLine.of(each) for each in batch]
        refuse_no_text([line.source for line in lines], "sentence", first)
        first += len(lines)
        yield lines


def _paragraphs(
    model: Model,
    batches: Iterable[Sequence[str | SourceLine]],
    options: SearchOptions,
    ensemble: Sequence[Model],
    progress: Progress | None,
    say: Say,
) -> Iterator[Translation]:
    """The outputs of lines whose sentences are sources of their own, in the batches of the lines."""
    model.trained.text_source("split_sentences")
    text = model.config.text
    lines: deque[tuple[str, int]] = deque()

    def split() -> Iterator[list[SourceLine]]:
        for batch in _of_text(batches):
            parts = []
            for line in batch:
                if line.prefix or line.constraints:
                    raise UserError("split_sentences: prefixes and constraints are those of a sentence; leave them out")
                found = sentences_of(line.source, text.source_language)
                lines.append((line.source, len(found)))
                known = Glossary(dict(line.terms))
                parts += [SourceLine(each, terms=known.terms(each)) for each in found]
            yield parts

    def say_of_sentences(message: str) -> None:
        say(message.replace("line ", "sentence ", 1))

    found = streamed(model, split(), options, ensemble=ensemble, say=say_of_sentences)
    for first in found:
        source, count = lines.popleft()
        parts = (first, *islice(found, count - 1))
        shown = joined([each.text for each in parts], text.target_language, spaced=text.tokenizer == "word")
        yield Translation.of_sentences(source, parts, shown)
        if progress is not None:
            progress(1)


def _candidate(trained: TrainedModel, line: SourceLine, found: Hypothesis, options: SearchOptions) -> Candidate:
    text, replaced = trained.shown(line, found, options)
    target = trained.target.given(line.source)
    asked, placed = kept(target, line, options, found.tokens), target.placed(line.source, found.tokens)
    return Candidate(text, found.score, found.log_probability, asked, replaced, placed)


def averaged(model: Model, ensemble: Sequence[Model], weights: bool = False) -> TrainedModel:
    """The ensemble of this model and others. UserError if these cannot be averaged, or their `weights` cannot."""
    if not ensemble:
        return model.trained
    for other in ensemble:
        if not isinstance(getattr(other, "trained", None), TrainedModel):
            raise UserError(f"ensemble: {other!r} is not a model; load each run first, as with s2s.load(folder)")
        for side in ("source", "target"):
            ours, theirs = (getattr(each.trained, side) for each in (model, other))
            if (difference := ours.difference(theirs)) is not None:
                raise UserError(
                    f"{model.folder} and {other.folder} have {side} {difference}; runs can be averaged if they were "
                    f"trained on the same pairs with the same options under text"
                )
    devices = dict.fromkeys(str(each.trained.device) for each in (model, *ensemble))
    if len(devices) > 1:
        raise UserError(f"the models of an ensemble are on {' and '.join(devices)}; load all of them on one device")
    for each in (model, *ensemble):
        if weights and not each.trained.translator.attends:
            raise UserError(
                f"{each.folder}: model.context.kind: this model does not attend to single source words, so its "
                f"ensembles have no attention weights; leave them out"
            )
    return model.trained.averaged_with([other.trained for other in ensemble])
