"""The laws that a scorer, normalizer, window or context has to keep, for tests with pytest and for the command `check`.

    from seq2seq_attn.testing import check_part, parametrize_with_laws

    def test_my_scorer_keeps_the_laws():
        check_part(MyScorer)

    @parametrize_with_laws(MyScorer, MyWindow)  # one test per law
    def test_my_parts_keep_the_laws(law):
        law()

`pytest --check-scorer my_scorer.py:MyScorer` does the same without a test file. torch is all that
the laws need.

A law is a function of a `Subject`; its first sentence says what holds. `laws.py` lists the laws of each kind of part:
those of all parts are in `calls.py`, `numbers.py` (numbers and gradients) and `graphs.py`, those of what a decoder sees
in `contexts.py`, those of one kind in `scorers.py` and `normalizers.py` (and windows). `command.py` is the command.

**Limits.** A part is a black box that is called with random numbers on the CPU. The laws do not find out

- whether a part computes its equation; they only compare results: a dot product with one sign flipped keeps all laws;
- what depends on particular inputs, such as a branch on a value, a length or a batch size that was not tried; nothing
  is tried beyond 200 positions, 200 steps or 5 sentences;
- whether scores that do not depend on the query, or on the keys, are intended (a warning);
- the values in training mode if the part draws random numbers other than torch's dropout. Dropout is switched off while
  training mode is compared with eval mode. Other randomness is checked only for the use of torch's generator, and for
  sentences that affect each other;
- whether a gradient that is not the derivative is a straight-through estimator or an error, unless the results are
  constant (a warning). Otherwise the law is broken;
- whether a position table repeats or extends its last entry, since every position then has a valid score;
- faults of kernels on other devices, and data races;
- whether the part can be trained for anything useful.
"""

from seq2seq_attn.testing.laws import (
    Law,
    LawOutcome,
    LawWarning,
    Report,
    check,
    check_part,
    laws_of,
    parametrize_with_laws,
)

__all__ = ["Law", "LawOutcome", "LawWarning", "Report", "check", "check_part", "laws_of", "parametrize_with_laws"]
