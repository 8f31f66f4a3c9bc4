"""Several processes train the model that one process trains: joined by gloo, on toys."""

import signal
from functools import partial

import numpy as np
import pytest
import toy_processes
from safetensors.numpy import load_file
from test_loop import curve, last_state
from torch import distributed
from toy_processes import ended, in_processes, interrupted, resumed, toy_pairs, train

from seq2seq_attn.cli.console import sigterm_interrupts
from seq2seq_attn.errors import UserError
from seq2seq_attn.training import LAST, processes
from seq2seq_attn.training.batches import NO_PAIRS
from seq2seq_attn.training.processes import ALONE, LostProcessError, first_host, joined, launched, speaks

OPTIONS = {
    "tokens, accumulated, averaged, smoothed, frozen": {
        "batch_size": 40,
        "batch_unit": "tokens",
        "accumulate": 3,
        "ema_decay": 0.9,
        "label_smoothing": 0.1,
        "freeze": ["encoder.embedding"],
    },
    "R-Drop, guided alignment, coverage": {
        "r_drop": 2.0,
        "guided_alignment": {"links": "links", "weight": 0.5},
        "coverage_loss": 0.3,
    },
}


def assert_equal(found, expected, tolerance):
    for name, weight in expected.weights.items():
        np.testing.assert_allclose(found.weights[name], weight, rtol=0, atol=tolerance, err_msg=name)
    assert found.fitted.best == pytest.approx(expected.fitted.best, abs=tolerance)
    same = ("epochs", "steps", "best_epoch", "stopped", "skipped_steps")
    assert [getattr(found.fitted, name) for name in same] == [getattr(expected.fitted, name) for name in same]


def test_two_processes_equal_one(tmp_path):
    """In each of two epochs, a batch has one pair, and the second process none."""
    recipe = {"max_steps": 12, "clip_norm": 0.5}
    one = train(ALONE, tmp_path / "one", recipe=recipe)
    first, second = in_processes(2, train, tmp_path / "two", "recurrent", recipe)
    assert_equal(first, one, 1e-12)
    for name, weight in first.weights.items():
        assert np.array_equal(second.weights[name], weight)
    assert (first.gradients, second.gradients) == (12, 10)
    assert curve(tmp_path / "two") == pytest.approx(curve(tmp_path / "one"), abs=1e-12)
    assert last_state(tmp_path / "two")["tokens"] == last_state(tmp_path / "one")["tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("family", ["recurrent", "transformer"])
def test_several_processes_equal_one_after_a_hundred_steps_with_every_option(tmp_path, family, recipe):
    one = train(ALONE, tmp_path / "one", family, recipe)
    assert one.fitted.steps == 100
    for world in (2, 3):
        for each in in_processes(world, train, tmp_path / str(world), family, recipe):
            assert_equal(each, one, 1e-6)


@pytest.mark.slow
def test_a_process_without_memory_halves_its_own_batch_and_the_step_is_the_same(tmp_path):
    recipe = {"max_steps": 7}
    one = train(ALONE, tmp_path / "one", recipe=recipe)
    fault = partial(train, recipe=recipe, fault=toy_processes.no_memory_for_many_pairs)
    first, second = in_processes(2, fault, tmp_path / "two")
    assert_equal(first, one, 1e-12)
    assert (first.gradients, second.gradients) == (7, 3 * 6)
    assert first.fitted.split_steps == second.fitted.split_steps == last_state(tmp_path / "two")["split_steps"] == 6


@pytest.mark.slow
def test_a_loss_that_is_no_number_in_one_process_is_skipped_by_all(tmp_path):
    fault = partial(train, recipe={"max_steps": 14, "optimizer": {"name": "sgd", "learning_rate": 0.1}})
    first, second = in_processes(2, partial(fault, fault=toy_processes.no_number), tmp_path / "two")
    assert 0 < first.fitted.skipped_steps == second.fitted.skipped_steps < 14
    for name, weight in first.weights.items():
        assert np.isfinite(weight).all()
        assert np.array_equal(second.weights[name], weight)


@pytest.mark.slow
def test_a_training_resumed_by_as_many_processes_equals_an_uninterrupted_one_with_dropout(tmp_path):
    """Within the second epoch, of 7 steps."""
    recipe = {"max_steps": 20, "ema_decay": 0.9}
    whole = in_processes(2, partial(train, recipe=recipe, dropout=0.3), tmp_path / "whole")
    assert in_processes(2, interrupted, tmp_path / "parts", recipe, 10) == ["interrupted"] * 2
    parts = in_processes(2, resumed, tmp_path / "parts", recipe)
    for found, expected in zip(parts, whole, strict=True):
        assert all(np.array_equal(found.weights[name], each) for name, each in expected.weights.items())
        assert found.said == []
    found, expected = (load_file(tmp_path / name / LAST) for name in ("parts", "whole"))
    assert found.keys() == expected.keys() >= {"random.torch", "random.1.torch"}
    assert [name for name, each in expected.items() if not np.array_equal(found[name], each)] == []
    assert not np.array_equal(found["random.torch"], found["random.1.torch"])


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(2, 3), (2, 1), (1, 2)])
def test_another_number_of_processes_continues_and_says_so(tmp_path, before, after):
    recipe = {"max_steps": 14}
    in_processes(before, interrupted, tmp_path, recipe, 10)
    first, *others = in_processes(after, resumed, tmp_path, recipe)
    assert first.fitted.steps == 14
    assert len(first.said) == 1
    assert str(before) in first.said[0]
    assert str(after) in first.said[0]
    assert all(np.array_equal(each.weights[name], weight) for each in others for name, weight in first.weights.items())


@pytest.mark.slow
def test_weights_that_differ_between_processes_end_training_before_they_are_saved(tmp_path):
    for name, message in in_processes(2, ended, tmp_path, toy_processes.drift):
        assert name == "FailedError"
        assert "after step 7" in message
        assert "[1]" in message
    assert not (tmp_path / LAST).exists()


@pytest.mark.slow
def test_a_process_that_diverges_ends_all_with_the_same_error(tmp_path):
    first, second = in_processes(2, ended, tmp_path, toy_processes.no_number)
    assert first[0] == "DivergenceError"
    assert first == second


@pytest.mark.slow
def test_a_model_that_is_sharded_as_the_documentation_says_has_the_same_losses():
    losses, held = toy_processes.sharded(ALONE)
    for found, part in in_processes(2, toy_processes.sharded):
        assert found == pytest.approx(losses, rel=1e-5)
        assert part < 0.6 * held


def test_a_share_without_pairs_is_a_batch_of_none():
    assert [share.pairs for share in toy_pairs(8).shard(1, 60)].count(0) == 1
    assert any(share is NO_PAIRS for share in toy_pairs(8).shard(1, 60))


def test_one_process_is_alone_without_a_launcher(monkeypatch):
    for name in ("RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    with joined() as processes:
        assert processes is ALONE
    assert processes.interleave([3, 1]) == [3, 1]
    assert processes.once(lambda: 5) == 5
    assert processes.record() == {}


TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "a"} | {
    "MASTER_PORT": "29400", "TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_RESTART_COUNT": "1",
    "TORCHELASTIC_MAX_RESTARTS": "3", "TORCHELASTIC_USE_AGENT_STORE": "True",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "123456",
    "SLURM_STEP_ID": "3", "SLURM_STEP_NODELIST": "gpu[07-09,12]", "SLURM_RESTART_COUNT": "2",
}  # fmt: skip


class EndedByItsLauncher(distributed.HashStore):
    """The store of a process that gets SIGTERM while it asks whether it is the first to end."""

    def add(self, key, amount):
        signal.raise_signal(signal.SIGTERM)
        return super().add(key, amount)


def test_a_signal_that_comes_while_a_process_ends_hides_neither_that_it_speaks_nor_why(monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(processes, "_join", lambda _: EndedByItsLauncher())
    monkeypatch.setattr(distributed, "destroy_process_group", lambda: None)
    with sigterm_interrupts(), pytest.raises(LostProcessError), joined():
        raise LostProcessError("a process of this training has ended")
    assert speaks()


def test_the_environment_of_torchrun_says_which_process_this_is():
    launch = launched(TORCHRUN)
    assert launch[:5] == (5, 8, 1, "a", 29400)
    assert (launch.job, launch.restarts, launch.restarts_left, launch.has_store) == ("torchrun x", 1, 2, True)
    assert launch.command[:5] == ("torchrun", "--nnodes", "2", "...", "--nproc-per-node")


def test_the_environment_of_srun_says_which_process_this_is():
    launch = launched(SRUN)
    assert launch[:4] == (2, 4, 1, "gpu07")
    assert launched(SRUN | {"SLURM_PROCID": "0"}).port == launch.port
    assert launched(SRUN | {"SLURM_JOB_ID": "123457"}).port != launch.port
    assert launched(SRUN | {"MASTER_ADDR": "b", "MASTER_PORT": "7"})[3:5] == ("b", 7)
    assert (launch.job, launch.restarts, launch.has_store) == ("slurm 123456", 2, False)


def test_the_script_of_a_slurm_job_is_one_process_whatever_its_number_of_tasks():
    assert launched({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"}) is None


def test_an_environment_without_a_number_is_refused_with_its_variable():
    with pytest.raises(UserError, match="RANK=first"):
        launched(TORCHRUN | {"RANK": "first"})


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("n1", "n1"), ("n1,n2", "n1"), ("n[3-5,9],m", "n3"), ("r[2,4]-n[10-12]-ib", "r2-n10-ib"), ("n[007]", "n007")],
)
def test_the_first_host_of_a_list_of_slurm(nodes, first):
    assert first_host(nodes) == first
