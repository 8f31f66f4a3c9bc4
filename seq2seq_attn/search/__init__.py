"""Greedy search, beam search, sampling and forced decoding over any translator."""

from seq2seq_attn.options import SearchOptions
from seq2seq_attn.search.batched import force_corpus, search
from seq2seq_attn.search.beam import beam_search, greedy_search
from seq2seq_attn.search.forced import Forced, force
from seq2seq_attn.search.hypotheses import Hypothesis
from seq2seq_attn.search.sampling import sample

__all__ = [
    "Forced",
    "Hypothesis",
    "SearchOptions",
    "beam_search",
    "force",
    "force_corpus",
    "greedy_search",
    "sample",
    "search",
]
