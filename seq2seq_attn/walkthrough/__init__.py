"""Attention step by step, with all intermediate numbers.

>>> import torch
>>> from seq2seq_attn.attention import Attention, Dot
>>> query = torch.tensor([[10.0, 5, 10]])
>>> states = torch.tensor([[0.0, 1, 1], [5, 0, 1], [1, 1, 0], [0, 5, 1]])
>>> walked = walk(Attention(Dot(query_size=3, key_size=3)), query, states)
>>> walked.steps[0].scores.tolist()
[15.0, 60.0, 15.0, 35.0]
>>> print(as_text(walked, words=["Tom", "chases", "Jerry", "."]))
Query q: a state of the decoder
   q  10  5  10
<BLANKLINE>
Keys k and values v: the states of the encoder
   1 Tom     0  1  1
   2 chases  5  0  1
   3 Jerry   1  1  0
   4 .       0  5  1
<BLANKLINE>
1. Score: how well does each key match the query?
   e = q · k   (Luong et al. 2015, sec. 3.1, "dot")
   1 Tom     10·0 + 5·1 + 10·1 =  15
   2 chases  10·5 + 5·0 + 10·1 =  60
   3 Jerry   10·1 + 5·1 + 10·0 =  15
   4 .       10·0 + 5·5 + 10·1 =  35
<BLANKLINE>
2. Normalise: from scores to weights
   a_j = exp(e_j / τ) / Σ_k exp(e_k / τ)   (Bahdanau et al. 2015, eq. 6)
   with temperature = 1.0
   The maximum is subtracted, so exp cannot overflow; the weights do not change.
              e  e - max  exp((e-max)/τ)       a
   1 Tom     15      -45       2.863e-20  0.0000
   2 chases  60        0               1  1.0000  ████████████
   3 Jerry   15      -45       2.863e-20  0.0000
   4 .       35      -25       1.389e-11  0.0000
                                       1  1.0000  <- sum
<BLANKLINE>
3. Sum: the context is the sum of the values, each times its weight
   C = Σ_j a_j v_j
   1 Tom     0.0000 · [0  1  1]  = [0  0  0]
   2 chases  1.0000 · [5  0  1]  = [5  0  1]
   3 Jerry   0.0000 · [1  1  0]  = [0  0  0]
   4 .       0.0000 · [0  5  1]  = [0  0  0]
                              C  = [5  0  1]
"""

from seq2seq_attn.walkthrough.text import Walk, WalkStep, as_text, walk

__all__ = ["Walk", "WalkStep", "as_text", "walk"]
