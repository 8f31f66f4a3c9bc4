"""Jobs, peers and rounds of a sitting."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hand_made_measurements import PEER, measurement
from torch.nn.modules.module import register_module_forward_hook

from benchmarks.records import OURS, Effort, Job, Outcome
from benchmarks.sitting import (
    DRIVERS,
    PEERS,
    MeasurementFailedError,
    Task,
    common_jobs,
    plan_tasks,
    run_rounds,
    sweep_jobs,
    unfused_models,
)
from seq2seq_attn.errors import UserError

EFFORT = Effort()


def test_peers_follow_our_jobs_of_the_same_model_in_fp32():
    planned = plan_tasks(
        common_jobs(["training", "products"], ["distracted", "general"], ["fp32", "bf16"], 2, 64), EFFORT, Path("peers")
    )
    assert [(task.system, task.job.what, task.job.model, task.job.precision) for task in planned] == [
        (OURS, "training", "distracted", "fp32"),
        (OURS, "training", "distracted", "bf16"),
        (OURS, "training", "general", "fp32"),
        (OURS, "training", "general", "bf16"),
        ("OpenNMT-py general", "training", "general", "fp32"),
        (OURS, "products", "distracted", "fp32"),
        (OURS, "products", "distracted", "bf16"),
        (OURS, "products", "general", "fp32"),
        (OURS, "products", "general", "bf16"),
    ]


def test_the_floor_and_the_parts_of_a_step_are_those_of_recurrent_models():
    jobs = common_jobs(["training", "products", "profile"], ["additive", "transformer"], ["fp32"], 2, 64)
    assert [(job.what, job.model) for job in jobs] == [
        ("training", "additive"), ("training", "transformer"), ("products", "additive"), ("profile", "additive"),
    ]  # fmt: skip
    with pytest.raises(UserError, match="bytes: measured for recurrent models only, not for transformer"):
        common_jobs(["bytes"], ["transformer"], ["fp32"], 2, 64)


def test_a_sweep_changes_only_its_axis():
    job = Job("training", "additive", "fp32", threads=2, batch=5)
    for axis in ("batch", "vocabulary", "threads"):
        swept = sweep_jobs(axis, [job])
        assert {replace(each, sweep=None, **{axis: getattr(job, axis)}) for each in swept} == {job}
        assert len({getattr(each, axis) for each in swept}) == len(swept)
    assert [each.length for each in sweep_jobs("length", [job])] == [10, 25, 50, 100, 200, 400]


def scripted(system, log, *answers):
    """A task that returns these values in turn, or fails."""
    left = iter(answers)

    def measure():
        log.append(system)
        answer = next(left)
        if answer is None:
            raise MeasurementFailedError("exit code 1: out of memory")
        return Outcome(answer, int(answer), {"encoder": answer / 2})

    return Task(system, measurement("training", 1.0).job, measure)


def test_systems_are_measured_in_turn_and_saved_after_every_round(sitting):
    log, kept, said = [], [], []
    planned = [scripted(OURS, log, 5.0, 7.0), scripted(PEER, log, 2.0, 3.0)]
    found = run_rounds(sitting, planned, 2, said.append, kept.append)
    assert log == [OURS, PEER, OURS, PEER]
    assert [(each.system, each.values, each.peak_bytes, each.parts) for each in found.figures] == [
        (OURS, (5.0, 7.0), (5, 7), {"encoder": (2.5, 3.5)}),
        (PEER, (2.0, 3.0), (2, 3), {"encoder": (1.0, 1.5)}),
    ]
    assert [[each.values for each in record.figures] for record in kept] == [[(5.0,), (2.0,)], [(5.0, 7.0), (2.0, 3.0)]]
    assert said[2] == "round 2 of 2: seq2seq_attn, training, additive, bf16: 7.0 tokens/s, 0.00 GB"


def test_a_failing_task_is_reported_and_not_repeated(sitting):
    log, said = [], []
    planned = [scripted(PEER, log, 2.0, None), scripted(OURS, log, 5.0, 7.0, 9.0)]
    planned.append(scripted("other", log, None))
    found = run_rounds(sitting, planned, 3, said.append, lambda _: None)
    assert log == [PEER, OURS, "other", PEER, OURS, OURS]
    assert [(each.system, each.values) for each in found.figures] == [(PEER, (2.0,)), (OURS, (5.0, 7.0, 9.0))]
    assert said[3].endswith("exit code 1: out of memory")


@pytest.fixture
def order(monkeypatch):
    monkeypatch.syspath_prepend(str(DRIVERS))
    monkeypatch.delitem(sys.modules, "order", raising=False)  # an experiment has a module of this name
    yield importlib.import_module("order")
    for name in ("order", "joey", "opennmt"):
        sys.modules.pop(name, None)


def test_the_rate_covers_all_reports_after_the_first(order):
    """As many tokens at 1,000 as at 3,000 per second: 2 / (1 / 1000 + 1 / 3000) = 1,500."""
    log = "Tokens per Sec:   10, Lr\nother\nTokens per Sec: 1000, Lr\nTokens per Sec:   3000, Lr"
    assert order.rate(log, importlib.import_module("joey").REPORT) == pytest.approx(1500)


@pytest.mark.parametrize(("warm_up", "batches", "updates"), [(5, 30, (35, 5)), (40, 30, (80, 40)), (0, 3, (4, 1))])
def test_the_reports_after_the_first_cover_at_least_the_requested_batches(order, warm_up, batches, updates):
    assert order.updates({"effort": {"warm_up": warm_up, "batches": batches}}) == updates


def test_the_second_rate_in_a_report_of_opennmt_counts(order):
    log = "Step 1/9; 11/ 12 tok/s; 1 sec;\nStep 2/9; 2100/2000 tok/s; 2 sec;\nStep 3/9; 900/2000 tok/s; 3 sec;"
    assert order.rate(log, importlib.import_module("opennmt").REPORT) == pytest.approx(2000)


def test_a_search_is_reported_in_the_unit_of_its_workload(order, capsys):
    order.answer_search({"job": {"what": "beam"}, "steps": 20}, seconds=4, sentences=6)
    order.answer_search({"job": {"what": "sentence-beam"}, "steps": 20}, seconds=3, sentences=6)
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        '{"value": 30.0',
        '{"value": 500.0',
    ]


def test_every_peer_has_a_driver():
    assert all((DRIVERS / peer.driver).is_file() for peer in PEERS)


@pytest.mark.usefixtures("fused")
def test_a_sitting_first_reports_which_models_are_not_fused_and_why():
    jobs = common_jobs(["training"], ["additive", "general"], ["fp32", "bf16"], threads=1, batch=4)
    assert list(unfused_models(jobs)) == []
    handle = register_module_forward_hook(lambda *_: None)
    try:
        lines = list(unfused_models(jobs))
    finally:
        handle.remove()
    assert [line.partition(":")[0] for line in lines] == ["additive", "general"]
    assert all("hooks on all modules" in line for line in lines)
