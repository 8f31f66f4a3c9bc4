"""The laws of graphs, in a process without checks of shapes, which torch cannot trace.

Slow, as torch's compiler is: python -m pytest -m slow tests/doctor/test_graphs.py
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
NAMES = ["SumsWeights", "BranchesOnValues", "FixesItsBatchSize"]
PROGRAM = """
import doctest, json, sys
import seq2seq_attn as s2s
from seq2seq_attn import doctor
from seq2seq_attn.doctor import Request, catalog, check_subject, isolation

for module, examples in ((doctor, 4), (isolation, 4), (catalog, 3)):
    assert doctest.testmod(module, extraglobs={"s2s": s2s}) == (0, examples)
for name in sys.argv[1:]:
    report = check_subject(Request(name).subject(), ["compiled", "exported"])
    print(json.dumps([name, {law: finding._asdict() for law, finding in report.findings.items()}]))
"""


@pytest.fixture(scope="module")
def findings():
    """Findings other than ok, by part and law. The process also runs the doctests of the package."""
    names = [f"{HERE / 'broken_scorers.py'}:{name}" for name in NAMES]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)  # what torch prints and logs is suppressed
    return {
        name.rpartition(":")[2]: {law: finding for law, finding in found.items() if finding["verdict"] != "ok"}
        for name, found in map(json.loads, done.stdout.splitlines())
    }


def test_a_scorer_with_a_history_is_compiled_and_exported(findings):
    assert findings["SumsWeights"] == {}


def test_a_branch_on_values_breaks_both_graphs(findings):
    found = findings["BranchesOnValues"]
    assert {law: finding["verdict"] for law, finding in found.items()} == {"compiled": "wrong", "exported": "wrong"}
    for finding in found.values():
        place, _, message = finding["message"].partition(": ")
        line = int(place.removeprefix("broken_scorers.py, line "))
        assert "if scores.abs().max()" in (HERE / "broken_scorers.py").read_text().splitlines()[line - 1]
        assert "ata-dependent" in message


def test_a_program_for_a_fixed_batch_size_is_a_warning(findings):
    found = findings["FixesItsBatchSize"]
    assert {law: finding["verdict"] for law, finding in found.items()} == {"exported": "warning"}
    assert ".size()[0] == 3" in found["exported"]["message"]
