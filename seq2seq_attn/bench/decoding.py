"""Search: tokens a second in batches, milliseconds of a single sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seq2seq_attn.bench.corpus import corpus_of
from seq2seq_attn.bench.job import BEAM_SIZE, DECODED_LENGTH, Effort, Job, Outcome
from seq2seq_attn.bench.models import build
from seq2seq_attn.bench.timing import peak_bytes, seconds
from seq2seq_attn.ops.inference import for_inference
from seq2seq_attn.search import SearchOptions, search
from seq2seq_attn.text.encoded import Ids


def measure_batches(job: Job, effort: Effort) -> Outcome:
    """Tokens a second over the test sentences, every one decoded for the same number of steps."""
    decode, sources = _decoder(job, effort)
    decode(sources[: job.batch])
    taken = seconds(lambda: decode(sources), effort.device)
    return Outcome(len(sources) * job.steps / taken, peak_bytes(effort.device))


def measure_sentences(job: Job, effort: Effort) -> Outcome:
    """Milliseconds a sentence, each translated alone: the mean, as it can be had of the peers, too."""
    decode, sources = _decoder(job, effort)
    for source in sources[: effort.warm_up]:
        decode([source])
    taken = seconds(lambda: [decode([source]) for source in sources], effort.device)
    return Outcome(1000 * taken / len(sources), peak_bytes(effort.device))


def chosen(lengths: Sequence[int], job: Job, effort: Effort) -> list[int]:
    """Which test sentences are translated: as many batches as asked for, or as many sentences of about 20 tokens."""
    if job.what in ("greedy", "beam"):
        return list(range(len(lengths)))[: effort.batches * job.batch]
    return sorted(range(len(lengths)), key=lambda index: abs(lengths[index] - DECODED_LENGTH))[: effort.batches]


def _decoder(job: Job, effort: Effort) -> tuple[Callable[[Sequence[Ids]], object], list[Ids]]:
    """What translates sentences, and the sentences."""
    corpus = corpus_of(job, effort)
    options = SearchOptions(
        precision=job.precision,
        beam_size=BEAM_SIZE if job.what.endswith("beam") else 1,
        min_length=job.steps,
        max_length=job.steps,
        max_length_ratio=None,
        batch_size=job.batch,
        batch_tokens=job.batch * max(map(len, corpus.test)),
    )
    with options.autocast(effort.device):
        model = for_inference(build(job, corpus.entries).to(effort.device).eval())

    def decode(sources: Sequence[Ids]) -> None:
        search(model, sources, options)

    return decode, [corpus.test[index] for index in chosen([len(ids) for ids in corpus.test], job, effort)]
