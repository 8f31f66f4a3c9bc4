"""The attention doctor: says of a scorer, normaliser, window or context whether it keeps the laws of attention.

>>> from seq2seq_attn.attention import Dot
>>> report = check_scorer(Dot, query_size=8, key_size=8)  # print(report) shows one line per law
>>> report.findings["padding"].verdict
'ok'
>>> report.findings["saturation"].verdict  # the inner product of 1024 numbers is too large for softmax
'warning'

A law is a function of a `Subject` that returns a `Finding`; `check.py` lists the laws by kind and asks them. `calls.py`
has the laws of calls, `positions.py` those of shapes and positions, `numerics.py` those of numbers and gradients,
`parts.py` those of normalisers, windows and contexts, `integration.py` those of graphs and translators. `catalogue.py`
lists all parts with their costs.

**What it cannot decide.** A part is a black box that is called with random numbers, so

- whether it computes its equation, only that what it computes is consistent: a dot product with one sign wrong keeps
  every law;
- anything that needs particular inputs: a branch on a value, a length or a batch size that was not tried, as beyond
  1100 positions, 200 steps or 5 sentences;
- whether scores that do not depend on the query, or on the keys, are meant (a warning, a note);
- the values of training mode where it draws random numbers that are not torch's dropout. Dropout is a sound part of a
  scorer: it is switched off while training mode is compared with eval mode. What else is random is only held to
  shapes, to torch's generator and to sentences that do not meet;
- whether a gradient that is not the derivative is a straight-through estimator or an error, except where the results
  are constant (a note): elsewhere such a scorer is called wrong;
- a position table that repeats or extends its last entry, which gives every position a valid score;
- accelerators: it runs on the CPU, so it sees no kernel of another device and no data race;
- whether it can be trained to do anything useful.
"""

from seq2seq_attn.doctor.catalogue import Cost, Entry, ScorerCost, catalogue, cost_of
from seq2seq_attn.doctor.check import (
    LAWS,
    Patient,
    Report,
    Request,
    check_part,
    check_scorer,
    examine,
    examine_named,
    report_on,
)
from seq2seq_attn.doctor.subject import Finding, Kind, Law, Subject, Verdict, subject_of

__all__ = [
    "LAWS",
    "Cost",
    "Entry",
    "Finding",
    "Kind",
    "Law",
    "Patient",
    "Report",
    "Request",
    "ScorerCost",
    "Subject",
    "Verdict",
    "catalogue",
    "check_part",
    "check_scorer",
    "cost_of",
    "examine",
    "examine_named",
    "report_on",
    "subject_of",
]
