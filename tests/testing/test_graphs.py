"""The laws of graphs, in a process without checks of shapes, which torch cannot trace.

Slow, as torch's compiler is: python -m pytest -m slow tests/testing/test_graphs.py
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
from seq2seq_attn.api import catalog
from seq2seq_attn.testing import laws

for module, examples in ((laws, 4), (catalog, 3)):
    assert doctest.testmod(module, extraglobs={"s2s": s2s}) == (0, examples)
for name in sys.argv[1:]:
    found = [laws.outcome_of(law) for law in laws.laws_of(name) if law.name in ("compiled", "exported")]
    print(json.dumps([name, {each.law: [each.verdict, each.message] for each in found}]))
"""


@pytest.fixture(scope="module")
def outcomes():
    """Verdict and message by part and law. The process also runs the doctests of the package."""
    names = [f"{HERE / 'broken_scorers.py'}:{name}" for name in NAMES]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)  # what torch prints and logs is suppressed
    return {name.rpartition(":")[2]: found for name, found in map(json.loads, done.stdout.splitlines())}


def test_a_scorer_with_a_history_is_compiled_and_exported(outcomes):
    assert {verdict for verdict, _ in outcomes["SumsWeights"].values()} == {"holds"}


def test_a_branch_on_values_breaks_both_graphs(outcomes):
    for law in ("compiled", "exported"):
        verdict, said = outcomes["BranchesOnValues"][law]
        place, _, message = said.partition(": ")
        line = int(place.removeprefix("broken_scorers.py, line "))
        assert verdict == "broken"
        assert "if scores.abs().max()" in (HERE / "broken_scorers.py").read_text().splitlines()[line - 1]
        assert "ata-dependent" in message


def test_a_program_for_a_fixed_batch_size_is_a_warning(outcomes):
    assert outcomes["FixesItsBatchSize"]["compiled"][0] == "holds"
    verdict, message = outcomes["FixesItsBatchSize"]["exported"]
    assert verdict == "warning"
    assert ".size()[0] == 3" in message
