"""What the peers' drivers can be held to without the peers."""

import importlib

import pytest

from seq2seq_attn.bench.peers import DRIVERS, PEERS


@pytest.fixture
def order(monkeypatch):
    monkeypatch.syspath_prepend(str(DRIVERS))
    return importlib.import_module("order")


def test_the_rate_is_that_of_all_reports_after_the_first(order):
    """As many tokens at 1,000 as at 3,000 a second: 2 / (1 / 1000 + 1 / 3000) = 1,500."""
    log = "Tokens per Sec:   10, Lr\nother\nTokens per Sec: 1000, Lr\nTokens per Sec:   3000, Lr"
    assert order.rate(log, importlib.import_module("joey").REPORT) == pytest.approx(1500)


@pytest.mark.parametrize(("warm_up", "batches", "updates"), [(5, 30, (35, 5)), (40, 30, (80, 40)), (0, 3, (4, 1))])
def test_a_report_follows_the_warm_up_s_over_at_least_as_many_batches_as_asked_for(order, warm_up, batches, updates):
    assert order.updates({"effort": {"warm_up": warm_up, "batches": batches}}) == updates


def test_of_the_two_rates_that_opennmt_reports_the_second_counts(order):
    log = "Step 1/9; 11/ 12 tok/s; 1 sec;\nStep 2/9; 2100/2000 tok/s; 2 sec;\nStep 3/9; 900/2000 tok/s; 3 sec;"
    assert order.rate(log, importlib.import_module("opennmt").REPORT) == pytest.approx(2000)


def test_a_search_is_said_in_the_unit_of_its_figure(order, capsys):
    order.answer_search({"job": {"what": "beam"}, "steps": 20}, seconds=4, sentences=6)
    order.answer_search({"job": {"what": "sentence-beam"}, "steps": 20}, seconds=3, sentences=6)
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        '{"value": 30.0',
        '{"value": 500.0',
    ]


def test_every_peer_has_its_driver():
    assert all((DRIVERS / peer.driver).is_file() for peer in PEERS)
