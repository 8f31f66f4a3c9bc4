"""The lexicon of a run: learnt from its training pairs when a shortlist is first asked for, and kept in its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from seq2seq_attn.runs.tokenised import encode
from seq2seq_attn.runs.train import Say
from seq2seq_attn.runs.trained import TrainedModel
from seq2seq_attn.search.options import SearchOptions
from seq2seq_attn.text.lexicon import Lexicon, learn_lexicon

LEXICON = "lexicon.safetensors"


def with_lexicon(
    model: TrainedModel, folder: Path, options: SearchOptions | None = None, say: Say = lambda _: None
) -> TrainedModel:
    """The model of a run folder ready for a search with these options, or those of its configuration.

    UserError if there is no lexicon yet and the run's training pairs are not where its configuration has them.
    """
    if (options or model.config.search).shortlist is None or model.lexicon is not None:
        return model
    path = folder / LEXICON
    if not path.exists():
        _learn(model, say).save(path)
    return replace(model, lexicon=Lexicon.load(path))


def _learn(model: TrainedModel, say: Say) -> Lexicon:
    sources, targets = encode(model.config.data.train, (model.source, model.target))
    say(f"learning a lexicon for shortlists from {len(sources):,} training pairs, once; this may take minutes")
    return learn_lexicon(sources, targets, len(model.source.vocabulary), len(model.target.vocabulary))
