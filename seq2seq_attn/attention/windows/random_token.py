"""RandomToken: each step reads one token, drawn at random: a baseline."""

from __future__ import annotations

from torch import Tensor

from seq2seq_attn.attention.normalizers.shuffled import PRIME
from seq2seq_attn.attention.shapes import Query, Steps, TokenRows
from seq2seq_attn.attention.window import View, Window, token_count, token_positions


class RandomToken(Window):
    """Step t reads token p_t and nothing else, whatever the scorer; p_t is drawn from the S tokens: a baseline.

    The weights are as sharp as weights can be, and carry no information about where to read. p_t depends only on the
    seed, S and t: training and translation read the same tokens, whatever the rest of the batch and the beam.

    Args:
        query_size: The width of q, which has no effect.
        seed: Chooses among sequences of tokens.
    """

    equation = "s = p, p drawn from the S tokens by a hash of seed, S and t"
    source = "a baseline"
    needs_steps = True

    def __init__(self, query_size: int, seed: int = 0) -> None:
        super().__init__(query_size)
        self.seed = seed

    def forward(self, query: Query, is_token: TokenRows, steps: Steps) -> View:
        tokens = token_count(is_token)
        drawn = _cubed(_cubed(40_503 * self.seed + 12_553 * tokens) + 25_717 * steps[..., None])  # below PRIME
        return View(is_token & (token_positions(is_token) == drawn * tokens // PRIME), factor=None)


def _cubed(number: Tensor) -> Tensor:
    """The cube modulo a prime, for which the next number says little about this one."""
    return number.remainder(PRIME) ** 3 % PRIME
