"""The lexicon that a search with a shortlist needs: learned from the training pairs of a run on first use."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from seq2seq_attn.corpora.lexicon import Lexicon, learn_lexicon
from seq2seq_attn.files.checksums import checked, write_recorded
from seq2seq_attn.files.lock import BusyError, locked
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.runs import Say, is_shipped
from seq2seq_attn.runs.cache import Cache, cached_pairs
from seq2seq_attn.runs.folder import LEXICON
from seq2seq_attn.runs.model import TrainedModel


def with_lexicon(
    model: TrainedModel, folder: Path, options: SearchOptions | None = None, say: Say = lambda _: None
) -> TrainedModel:
    """The model of a run folder with its lexicon, if these options (those of its configuration unless given) need it.

    The lexicon is learned from the training pairs and saved in the folder, unless it exists or the run is part of the
    package. UserError: the training pairs are not where the configuration says.
    """
    if not (options or model.config.search).shortlist or model.lexicon is not None:
        return model
    path = checked(folder, LEXICON)
    if is_shipped(folder):
        return replace(model, lexicon=_learn_lexicon(model, say))
    if path.exists():
        return replace(model, lexicon=Lexicon.load(path))
    lexicon = _learn_lexicon(model, say)
    with suppress(BusyError), locked(folder):  # a process that writes to the folder needs it itself, and keeps it
        write_recorded(folder, {LEXICON: lexicon.content()})
    return replace(model, lexicon=lexicon)


def _learn_lexicon(model: TrainedModel, say: Say) -> Lexicon:
    codecs = model.text_source("search.shortlist"), model.target
    # In files, as in training, but nowhere for longer: the run may have been moved from where that kept them.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        sources, targets, _ = cached_pairs(model.config.data.train, codecs, Cache(Path(folder), say))
        say(f"learning a lexicon for shortlists from {len(sources):,} training pairs, once; this may take minutes")
        return learn_lexicon(sources, targets, *(codec.size for codec in codecs))
