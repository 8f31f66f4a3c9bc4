"""The workloads: steps of a search, parts of a training step."""

from itertools import islice

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks import workloads
from benchmarks.common_task import MODELS, synthetic_corpus, training_batches, untrained_model
from benchmarks.records import OTHER, PARTS, Effort, Job
from benchmarks.workloads import TrainingStep, by_part, labeled, measure_profile
from seq2seq_attn import search

EFFORT = Effort(warm_up=1, batches=2)


@pytest.mark.parametrize(("length", "steps"), [(None, 20), (6, 6)])
@pytest.mark.parametrize("what", ["greedy", "sentence-beam"])
def test_every_sentence_is_decoded_for_exactly_the_given_number_of_steps(what, length, steps, monkeypatch):
    job = Job(what, "general", "bf16", threads=1, batch=3, length=length, vocabulary=17)
    found = []

    def watched(translator, sources, options):
        hypotheses = search.search(translator, sources, options)
        found.extend((options.beam_size, len(best.tokens)) for (best,) in hypotheses)

    monkeypatch.setattr(workloads, "search", watched)
    measure = workloads.measure_batched_decoding if what == "greedy" else workloads.measure_single_sentences
    assert measure(job, EFFORT).value > 0
    beams = {beam for beam, _ in found}
    assert beams == {1 if what == "greedy" else 5}
    # The last step may have predicted </s>, which does not count as a token of the hypothesis.
    assert {count for _, count in found} <= {steps - 1, steps}
    warm_up, timed = (3, 2 * 3) if what == "greedy" else (1, 2)
    assert len(found) == warm_up + timed


ONE_STEP = Effort(warm_up=0, batches=1)


def job(model):
    return Job("profile", model, "fp32", threads=1, batch=2, length=3, vocabulary=17)


@pytest.mark.parametrize("model", [name for name, config in MODELS.items() if config.kind == "recurrent"])
def test_the_parts_add_up_to_the_step(model):
    outcome = measure_profile(job(model), ONE_STEP)
    assert list(outcome.parts) == [*PARTS, OTHER]
    assert min(outcome.parts.values()) > 0
    assert sum(outcome.parts.values()) == pytest.approx(outcome.value)


def test_profiling_changes_neither_the_results_nor_the_model():
    corpus = synthetic_corpus(job("additive"), ONE_STEP)
    (batch,) = islice(training_batches(corpus, job("additive")), 1)

    def trained(watched):
        step = TrainingStep(untrained_model(job("additive"), corpus.entries), "fp32", "cpu")
        if watched:
            with labeled(step):
                step(batch)
            assert "encode" not in vars(step.model)
            assert "step" not in vars(step.model.decoder.context)
        else:
            step(batch)
        return step.model.state_dict()

    torch.testing.assert_close(trained(watched=True), trained(watched=False), rtol=0, atol=0)


def test_a_backward_operation_belongs_to_the_part_of_its_forward_operation():
    weight = torch.ones(3, 5, requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU]) as profiler, record_function(f"part: {OTHER}"):
        with record_function("part: encoder"):
            hidden = torch.tanh(torch.ones(2, 3) @ weight)
            with record_function("part: readout"):
                loss = hidden.exp().sum()
        loss.backward()
    events = {event.name: event.cpu_time_total for event in profiler.events()}

    def back(*nodes):
        return sum(events[f"autograd::engine::evaluate_function: {node}Backward0"] for node in nodes)

    taken = by_part(profiler.events(), "cpu")
    inner, outer, whole = (events[f"part: {part}"] for part in ("readout", "encoder", OTHER))
    assert taken["readout"] == pytest.approx(inner + back("Sum", "Exp"))
    assert taken["encoder"] == pytest.approx(outer - inner + back("Tanh", "Mm"))
    assert taken[OTHER] == pytest.approx(whole - outer - back("Sum", "Exp", "Tanh", "Mm"))
