"""Greedy search, beam search and forced decoding over any translator."""

from seq2seq_attn.search.batched import force_corpus, search
from seq2seq_attn.search.beam import beam_search, greedy_search
from seq2seq_attn.search.forced import Forced, force
from seq2seq_attn.search.hypotheses import Hypothesis
from seq2seq_attn.search.options import SearchOptions

__all__ = [
    "Forced",
    "Hypothesis",
    "SearchOptions",
    "beam_search",
    "force",
    "force_corpus",
    "greedy_search",
    "search",
]
