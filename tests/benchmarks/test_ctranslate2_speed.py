"""CTranslate2 is measured on the same sentences, with our weights."""

from pathlib import Path

import pytest

from benchmarks.records import DECODED_LENGTH, Effort, Job
from benchmarks.sitting import CTRANSLATE2, common_jobs, plan_tasks

EFFORT = Effort(warm_up=1, batches=1)


def test_ctranslate2_follows_our_transformer_where_it_decodes():
    jobs = common_jobs(["training", "greedy"], ["additive", "transformer"], ["fp32", "bf16"], 2, 64)
    planned = [
        (task.job.what, task.job.model, task.job.precision)
        for task in plan_tasks(jobs, EFFORT, Path("peers"))
        if task.system == CTRANSLATE2
    ]
    assert planned == [("greedy", "transformer", "fp32")]
    assert not any(task.system == CTRANSLATE2 for task in plan_tasks(jobs, EFFORT, None))


def test_the_library_decodes_as_many_steps_with_our_weights(monkeypatch):
    library = pytest.importorskip("ctranslate2")
    from benchmarks import ctranslate2

    results = []

    class Translator(library.Translator):
        def translate_batch(self, *args, **options):
            results.extend(super().translate_batch(*args, **options))
            return results[-1:]

    monkeypatch.setattr(library, "Translator", Translator)
    job = Job("sentence-greedy", "transformer", "fp32", threads=1, vocabulary=50)
    outcome = ctranslate2.measure(job, EFFORT)
    assert outcome.value > 0
    assert outcome.peak_bytes > 0
    assert {len(each.hypotheses[0]) for each in results} == {DECODED_LENGTH}
