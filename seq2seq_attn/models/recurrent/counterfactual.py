"""A trained model that reads its source under other weights than its own."""

from __future__ import annotations

from collections.abc import Sequence

from seq2seq_attn.attention import Change, Counterfactual
from seq2seq_attn.models.recurrent.translator import RecurrentTranslator
from seq2seq_attn.ops.replace import replace_modules


def counterfactual(translator: RecurrentTranslator, changes: Sequence[Change]) -> RecurrentTranslator:
    """The same model, parameters shared, for batches that hold their sentences 1 + len(changes) times.

    What each copy sees says `Counterfactual`; around it nothing is changed, whatever heads or halves there are.
    """
    reader = translator.decoder.context.reader()
    return replace_modules(translator, {reader: Counterfactual(reader, changes)})
