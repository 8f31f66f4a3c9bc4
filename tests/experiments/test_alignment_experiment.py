"""The alignment experiment: error rates of its arms with the joint test, and its committed figures."""

import json
import re
import runpy
from pathlib import Path

import pytest

from seq2seq_attn.evaluation.alignment import GoldCorpus

FOLDER = Path(__file__).parents[2] / "experiments/alignment"


@pytest.fixture(scope="module")
def rates():
    return runpy.run_path(str(FOLDER / "error_rate.py"))


@pytest.fixture
def rules(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)  # as when the file is run
    return runpy.run_path(str(FOLDER / "links.py"))


# Ten pairs, each with one sure link and one that is only possible.
GOLD = GoldCorpus([frozenset({(0, 0)})] * 10, [frozenset({(0, 0), (1, 1)})] * 10)


def counted(rates, arms):
    sources = [str(number) for number in range(10)]
    return {arm: [rates["counts_of"](lines, GOLD, sources) for lines in runs] for arm, runs in arms.items()}


def test_error_rates_worked_by_hand(rates):
    right, wrong = "0-0 1-1", "0-1 1-0"
    arms = {
        "base": [[wrong] * 10, [wrong] * 5 + [right] * 5],
        "good": [[right] * 10, ["0-0"] * 10],
        "half": [[right] * 5 + [wrong] * 5, ["0-0 1-0"] * 10],
    }
    found = rates["error_rates"](counted(rates, arms), "base", [("good", "half")])
    # Of 20 predicted and 10 sure links, `right` finds 10 sure and 20 possible ones; "0-0 1-0" finds 10 and 10.
    assert found["arms"]["base"]["runs"] == pytest.approx([1, 0.5])
    assert found["arms"]["good"]["runs"] == pytest.approx([0, 0])
    assert found["arms"]["half"]["runs"] == pytest.approx([0.5, 1 / 3])
    pairs = [(each["arm"], each["against"], each["difference"][0]) for each in found["differences"]]
    assert pairs == [
        ("good", "base", pytest.approx(-0.75)),
        ("half", "base", pytest.approx(-1 / 3)),
        ("good", "half", pytest.approx(-5 / 12)),
    ]
    assert not any(each["paired"] for each in found["differences"])
    low, high = found["arms"]["half"]["interval"]
    assert low < 5 / 12 < high
    again = rates["error_rates"](counted(rates, arms), "base", [("good", "half")], {("half", "base")})
    assert [each["paired"] for each in again["differences"]] == [False, True, False]
    assert again["differences"][1]["difference"][1] != found["differences"][1]["difference"][1]
    rows = rates["tables"](found).splitlines()
    assert rows[2].startswith("| base | 0.750 ± 0.354 | [")
    assert rows[-1].startswith("| *good* against *half* | -0.417 [")


def test_one_training_has_an_error_rate_and_no_test(rates):
    found = rates["error_rates"](counted(rates, {"base": [["0-0"] * 10], "other": [["1-1"] * 10]}), "base")
    assert [each["runs"] for each in found["arms"].values()] == [[0], [0.5]]
    assert found["arms"]["base"]["interval"] is None
    assert found["differences"] == []
    assert rates["tables"](found).splitlines()[2] == "| base | 0.000 |  |"


def test_the_committed_error_rates_are_those_of_the_runs(rates):
    evidence = rates["Evidence"].load(FOLDER / "results/evidence.json.gz")
    found = json.loads((FOLDER / "results/error_rate.json").read_text("utf-8"))
    assert list(found["arms"]) == [arm.name for arm in evidence.arms]
    compared = rates["Results"].load(FOLDER / "results/results.json").tested
    tested = {(pair.arm, pair.baseline): pair.joint.paired for pair in compared}
    assert {(each["arm"], each["against"]): each["paired"] for each in found["differences"]} == tested
    assert sum(tested.values()) == 2, "those that differ in nothing but the links they learn from"
    for arm in evidence.arms:
        expected = [run.metrics["test"]["aer"] for run in arm.runs]
        assert found["arms"][arm.name]["runs"] == pytest.approx(expected)
    assert rates["tables"](found) in (FOLDER / "README.md").read_text("utf-8")


def test_rules_of_links_worked_by_hand(rates, rules):
    predicts, reads, *_ = rules["RULES"]
    both, *_ = rules["BOTH"]
    arms = {predicts: [["0-0 1-1"] * 10, ["0-1 1-0"] * 10], reads: [["0-0"] * 10] * 2, both: [[""] * 10] * 2}
    found = counted(rates, arms)
    rows = rules["table"]({"de-en": {rule: found[rule] for rule in (predicts, reads)}, "en-fr": found}).splitlines()
    # One run has every sure link with precision 1, the other none; no link of a blank alignment is wrong.
    assert re.sub(r"\[.*?\]", "[]", rows[2]) == f"| {predicts}{' | 0.500 ± 0.707 | [] | 0.500 | 0.500' * 2} |"
    assert rows[3].startswith(f"| {reads} | 0.000 ± 0.000 | [0.000, 0.000] | 1.000 | 1.000 | 0.000 ")
    assert rows[4] == f"| {both} |  |  |  |  | 1.000 ± 0.000 | [1.000, 1.000] | 0.000 | 0.000 |"
    assert len(rows) == 5


def test_the_table_of_rules_is_that_of_the_runs(rules):
    found = json.loads((FOLDER / "results/links.json").read_text("utf-8"))
    assert [len(runs) for pairs in found.values() for runs in pairs.values()] == [3] * 15
    assert rules["table"](found) in (FOLDER / "README.md").read_text("utf-8")
