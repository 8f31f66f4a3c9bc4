"""The attention doctor checks whether a scorer, normalizer, window or context keeps the laws of attention.

>>> from seq2seq_attn.attention import Dot
>>> report = check(Dot, query_size=8, key_size=8)  # shown as one line per law
>>> report.findings["padding"].verdict
'ok'
>>> report.findings["saturation"].verdict  # the inner product of 1024 numbers is too large for softmax
'warning'

A law is a function of a `Subject` that returns a `Finding`. `laws.py` lists the laws by kind and runs them in this
process, `isolation.py` in another. The laws are in `calls.py` (calls and copies), `positions.py` (shapes and positions
of scores), `numerics.py` (numbers and gradients), `parts.py` (normalizers, windows and contexts), `reading.py` (masks,
values and growing sources), `integration.py` (graphs) and `translator.py`. `command.py` is the command, and
`catalog.py` lists all parts with their costs (`cost.py`).

**Limits.** A part is a black box that is called with random numbers on the CPU. The doctor does not find out

- whether a part computes its equation; it only checks consistency: a dot product with one sign flipped keeps all laws;
- what depends on particular inputs, such as a branch on a value, a length or a batch size that was not tried; nothing
  is tried beyond 1100 positions, 200 steps or 5 sentences;
- whether scores that do not depend on the query, or on the keys, are intended (it reports a warning or a note);
- the values in training mode if the part draws random numbers other than torch's dropout. Dropout is switched off while
  training mode is compared with eval mode. Other randomness is checked only for shapes, for the use of torch's
  generator, and for sentences that affect each other;
- whether a gradient that is not the derivative is a straight-through estimator or an error, unless the results are
  constant (a note). Otherwise it reports an error;
- whether a position table repeats or extends its last entry, since every position then has a valid score;
- faults of kernels on other devices, and data races;
- whether the part can be trained for anything useful.
"""

from seq2seq_attn.doctor.catalog import Catalog, Entry, scorers
from seq2seq_attn.doctor.cost import Cost, ScorerCost, measure_cost
from seq2seq_attn.doctor.isolation import IsolatedPart, Request, check, check_all
from seq2seq_attn.doctor.laws import LAWS, Report, check_law, check_subject, make_subject
from seq2seq_attn.doctor.subject import Finding, Kind, Law, Subject, Verdict

__all__ = [
    "LAWS",
    "Catalog",
    "Cost",
    "Entry",
    "Finding",
    "IsolatedPart",
    "Kind",
    "Law",
    "Report",
    "Request",
    "ScorerCost",
    "Subject",
    "Verdict",
    "check",
    "check_all",
    "check_law",
    "check_subject",
    "make_subject",
    "measure_cost",
    "scorers",
]
