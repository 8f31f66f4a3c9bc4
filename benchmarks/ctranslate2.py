"""CTranslate2 decoding an untrained Transformer of this package, which is exported to it first.

`python -m benchmarks.ctranslate2` is the process of one measurement, as `sitting` describes it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common_task import MODELS, bench_corpus, untrained_model
from benchmarks.records import BEAM_SIZE, Effort, Job, Outcome
from benchmarks.sitting import main
from benchmarks.workloads import time_batches, time_sentences, timed_sentences
from seq2seq_attn.config import Config
from seq2seq_attn.export import export_model, need
from seq2seq_attn.runs.model import TrainedModel


def measure(job: Job, effort: Effort) -> Outcome:
    """The job with CTranslate2 in float32: tokens/s in batches, milliseconds for one sentence at a time."""
    ctranslate2 = need("ctranslate2", "ctranslate2")
    corpus = bench_corpus(job, effort)
    pair = {"source": "unused", "target": "unused"}
    codec = corpus.codec
    config = Config.model_validate({"data": {"train": pair, "validation": pair}, "model": MODELS[job.model]})
    model = TrainedModel(config, codec, codec, untrained_model(job, corpus.entries))
    sources = [
        codec.vocabulary.lookup_tokens(corpus.test[index][:-1])  # the library adds </s> itself
        for index in timed_sentences([len(ids) for ids in corpus.test], job, effort)
    ]
    options = {
        "max_batch_size": job.batch,
        "beam_size": BEAM_SIZE if job.what.endswith("beam") else 1,
        "min_decoding_length": job.steps,
        "max_decoding_length": job.steps,
    }
    with TemporaryDirectory() as folder:
        path = export_model(model, "ctranslate2", Path(folder) / "model")
        # Each thread decodes batches of its own: several threads on one batch of so small a model take longer than one.
        translator = ctranslate2.Translator(
            str(path), device="cpu", compute_type="float32", inter_threads=job.threads, intra_threads=1
        )

    decode = partial(translator.translate_batch, **options)
    timed = time_sentences if job.what.startswith("sentence") else time_batches
    return timed(decode, sources, job, effort)


if __name__ == "__main__":
    main(measure)
