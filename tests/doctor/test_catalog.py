"""The scorers of the catalog keep all laws."""

import pytest

from seq2seq_attn.attention import scorer_classes
from seq2seq_attn.doctor import LAWS, check_subject, make_subject

# torch cannot trace the checks of shapes that are active here. `tests/attention` compiles the catalog in a separate
# process, and `test_graphs.py` shows that the doctor finds what breaks a graph.
CHECKED = [law for law in LAWS["scorer"] if law not in ("compiled", "exported", "translator")]
OURS = {name: each for name, each in scorer_classes().items() if each.__module__.startswith("seq2seq_attn.")}


@pytest.mark.parametrize("name", OURS)
def test_our_scorers_keep_all_laws(name):
    findings = check_subject(make_subject(OURS[name]), CHECKED).findings
    assert {law: finding.message for law, finding in findings.items() if finding.verdict == "wrong"} == {}
