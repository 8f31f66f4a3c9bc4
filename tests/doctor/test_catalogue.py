"""The doctor's visit to our own catalogue."""

import pytest

from seq2seq_attn.attention import scorer_classes
from seq2seq_attn.doctor import LAWS, check_subject, make_subject

# No graph can be made here, where shapes are checked at every call; `tests/attention` makes those of the catalogue in
# a process of its own, and `test_graphs.py` shows that the doctor finds what breaks one.
ASKED = [law for law in LAWS["scorer"] if law not in ("compiled", "exported", "translator")]
OURS = {name: each for name, each in scorer_classes().items() if each.__module__.startswith("seq2seq_attn.")}


@pytest.mark.parametrize("name", OURS)
def test_nothing_is_wrong_with_a_scorer_of_ours(name):
    findings = check_subject(make_subject(OURS[name]), ASKED).findings
    assert {law: finding.message for law, finding in findings.items() if finding.verdict == "wrong"} == {}
