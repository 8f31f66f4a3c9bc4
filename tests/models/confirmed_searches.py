"""That a search finds what it says, for any translator."""

import pytest
import torch

from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.search import SearchOptions, beam_search, force, greedy_search


def assert_forced_decoding_confirms_searches(model, source, max_length):
    """Greedy search is a beam of one, and the best hypothesis of a beam is as likely as forced decoding says."""
    greedy = greedy_search(model, source, SearchOptions(beam_size=1, max_length=max_length))
    narrow = beam_search(model, source, SearchOptions(beam_size=1, max_length=max_length))
    assert [h[0].tokens for h in greedy] == [h[0].tokens for h in narrow]
    for row, (best,) in enumerate(beam_search(model, source, SearchOptions(beam_size=3, max_length=max_length))):
        one = Tokens(source.tokens[row : row + 1], source.lengths[row : row + 1])
        target = Tokens(torch.tensor([[*best.tokens, 3]]), torch.tensor([len(best.tokens) + 1]))
        (forced,) = force(model, one, target)
        predicted = min(len(best.tokens) + 1, max_length)  # a hypothesis that reached the limit has no `</s>`
        assert best.log_probability == pytest.approx(float(forced.log_probabilities[:predicted].sum()))
