"""Laws about graphs, asked as a user asks them: in a process of its own, as torch cannot trace the checks of shapes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAMES = ["Sound", "SumsWeights", "BranchesOnNumbers", "KnowsOneBatch"]
OTHERS = ["softmax", "local_m", "seq2seq_attn.attention:MeanContext"]
PROGRAM = """
import doctest, json, sys
import seq2seq_attn.doctor
from seq2seq_attn.doctor import Request, check_subject

assert doctest.testmod(seq2seq_attn.doctor) == (0, 4)
for name in sys.argv[1:]:
    report = check_subject(Request(name).subject(), ["compiled", "exported"])
    print(json.dumps([name, {law: finding._asdict() for law, finding in report.findings.items()}]))
"""


@pytest.fixture(scope="module")
def findings():
    """What is not ok, by scorer and law. The example of the package runs on the way."""
    names = [f"{HERE / 'broken_scorers.py'}:{name}" for name in NAMES] + OTHERS
    done = subprocess.run([sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)  # torch's own words are kept to itself
    return {
        name.rpartition(":")[2]: {law: it for law, it in found.items() if it["verdict"] != "ok"}
        for name, found in map(json.loads, done.stdout.splitlines())
    }


def test_nothing_is_said_of_scorers_that_can_be_compiled_and_exported(findings):
    assert findings["Sound"] == {}
    assert findings["SumsWeights"] == {}


def test_parts_of_other_kinds_are_compiled_and_exported_too(findings):
    for name in ("softmax", "local_m", "MeanContext"):
        assert findings[name] == {}


def test_a_branch_on_numbers_breaks_both_graphs(findings):
    found = findings["BranchesOnNumbers"]
    assert {law: finding["verdict"] for law, finding in found.items()} == {"compiled": "wrong", "exported": "wrong"}
    for finding in found.values():
        place, _, message = finding["message"].partition(": ")
        line = int(place.removeprefix("broken_scorers.py, line "))
        assert "if scores.abs().max()" in (HERE / "broken_scorers.py").read_text().splitlines()[line - 1]
        assert "ata-dependent" in message


def test_a_program_for_one_size_of_batch_is_a_warning(findings):
    assert {law: finding["verdict"] for law, finding in findings["KnowsOneBatch"].items()} == {"exported": "warning"}
    assert ".size()[0] == 3" in findings["KnowsOneBatch"]["exported"]["message"]
