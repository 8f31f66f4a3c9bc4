"""A trained model with its text: what translates, scores and aligns lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_model, save_model

from seq2seq_attn.config import Config
from seq2seq_attn.strict import load
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs.folder import CONFIG, MODEL
from seq2seq_attn.ops.inference import for_inference
from seq2seq_attn.models.recurrent.config import build_recurrent
from seq2seq_attn.models.recurrent.translator import RecurrentTranslator
from seq2seq_attn.models.translator import Translator
from seq2seq_attn.search.corpus import force_corpus, search
from seq2seq_attn.search.forced import Forced
from seq2seq_attn.search.hypothesis import Hypothesis
from seq2seq_attn.search.options import SearchOptions, ShortlistOptions
from seq2seq_attn.search.shortlist import Shortlist
from seq2seq_attn.text.codec import Codec, load_codecs
from seq2seq_attn.text.lexicon import Lexicon
from seq2seq_attn.text.vocabulary import EOS

Progress = Callable[[int], object]


def build(config: Config, source: Codec, target: Codec) -> RecurrentTranslator:
    """An untrained model; the seed must have been set."""
    return build_recurrent(config.model, len(source.vocabulary), len(target.vocabulary), source is target)


def count_parameters(translator: Translator) -> int:
    """Trained numbers; a tied matrix counts once, what is frozen not at all."""
    return sum(parameter.numel() for parameter in translator.parameters() if parameter.requires_grad)


def read_config(folder: Path) -> Config:
    """The configuration of a run folder."""
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder}: not a run folder (no {CONFIG}); train writes one: seq2seq-attn train --help")
    return load(Config, folder / CONFIG)


@dataclass(frozen=True)
class TrainedModel:
    """A translator between two codecs."""

    config: Config
    source: Codec
    target: Codec
    translator: Translator
    lexicon: Lexicon | None = None  # what a shortlist is made of (`with_lexicon`)

    @classmethod
    def load(cls, folder: Path, device: str | torch.device | None = None) -> TrainedModel:
        """The model of a run folder. No file of it is unpickled."""
        config = read_config(folder)
        source, target = load_codecs(folder)
        with torch.random.fork_rng(devices=()):  # the caller's: random weights are drawn and then replaced
            translator = build(config, source, target)
        path = folder / MODEL
        if not path.exists():
            raise UserError(f"{path}: no such file; training has not ended: continue it with train --resume")
        try:
            load_model(translator, path)
        except (SafetensorError, RuntimeError, OSError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"{path}: not the model of {folder / CONFIG}, or not whole: {reason}") from None
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        return cls(config, source, target, translator.to(device).eval())

    def save(self, folder: Path) -> None:
        """Write the weights, whole or not at all."""
        unfinished = folder / f"{MODEL}.part"
        save_model(self.translator, str(unfinished), metadata={"format": "seq2seq_attn"})
        unfinished.rename(folder / MODEL)

    def for_inference(self, options: SearchOptions | None = None) -> TrainedModel:
        """The same model laid out once for many searches in the precision of these options; no longer for training."""
        options = options or self.config.search
        device = next(self.translator.parameters()).device
        with options.autocast(device.type):
            return replace(self, translator=for_inference(options.quantised(self.translator)))

    def search(
        self,
        lines: Sequence[str],
        options: SearchOptions | None = None,
        *,
        with_weights: bool = False,
        progress: Progress | None = None,
        warn: Callable[[str], object] = lambda _: None,
        first_line: int = 1,
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each line, best first; none for a blank line.

        A line over `data.max_length` is cut, and `warn` told so; `first_line` is the number that it gives to the first.
        """
        numbered = enumerate(lines, start=first_line)
        ids = [self._cut(self.source.encode(line), number, warn) for number, line in numbered]
        filled = [index for index, sentence in enumerate(ids) if len(sentence) > 1]
        found: list[list[Hypothesis]] = [[] for _ in lines]
        options = options or self.config.search
        translator = self.for_inference(options).translator
        hypotheses = search(
            translator,
            [ids[i] for i in filled],
            options,
            shortlist=self._shortlist(options.shortlist),
            with_weights=with_weights,
            progress=progress,
        )
        for index, best in zip(filled, hypotheses, strict=True):
            found[index] = best
        return found

    def translate(self, lines: Sequence[str], options: SearchOptions | None = None, **rest: Any) -> list[str]:
        """One line a line, blank ones included; arguments as of `search`."""
        return [self.text(best[0]) if best else "" for best in self.search(lines, options, **rest)]

    def text(self, hypothesis: Hypothesis) -> str:
        """A hypothesis as a line of text."""
        return self.target.decode(hypothesis.tokens)

    def force(
        self, sources: Sequence[str], targets: Sequence[str], progress: Progress | None = None
    ) -> list[Forced | None]:
        """What the model thinks of given translations, and where it looks; None for a pair with a blank side."""
        pairs = [
            (self.source.encode(source), self.target.encode(target))
            for source, target in zip(sources, targets, strict=True)
        ]
        filled = [index for index, (source, target) in enumerate(pairs) if len(source) > 1 and len(target) > 1]
        found: list[Forced | None] = [None] * len(pairs)
        forced = force_corpus(
            self.translator, [pairs[i][0] for i in filled], [pairs[i][1] for i in filled], progress=progress
        )
        for index, result in zip(filled, forced, strict=True):
            found[index] = result
        return found

    def parameters(self) -> int:
        """Trained numbers; a tied matrix counts once, what is frozen not at all."""
        return count_parameters(self.translator)

    def _shortlist(self, options: ShortlistOptions | None) -> Shortlist | None:
        if options is None:
            return None
        if self.lexicon is None:
            raise UserError("search.shortlist needs the lexicon of the run; lab.lexicon.with_lexicon brings it")
        translations, frequent = map(torch.from_numpy, self.lexicon)
        return Shortlist(translations[:, : options.translations], frequent[: options.frequent])

    def _cut(self, ids: list[int], number: int, warn: Callable[[str], object]) -> list[int]:
        limit = self.config.data.max_length
        if len(ids) - 1 <= limit:
            return ids
        warn(f"line {number}: {len(ids) - 1} tokens, cut to data.max_length={limit}")
        return [*ids[:limit], EOS]
