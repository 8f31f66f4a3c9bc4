"""CTranslate2 decoding an untrained Transformer of this package, which is exported to it first.

`python -m seq2seq_attn.speed.ctranslate2` is the process of one measurement, as `sitting` describes it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import TypeAdapter

from seq2seq_attn.config import Config
from seq2seq_attn.export import export_model, need
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.speed.common_task import MODELS, bench_corpus, untrained_model
from seq2seq_attn.speed.measurements import BEAM_SIZE, Effort, Job, Outcome
from seq2seq_attn.speed.workloads import elapsed_seconds, peak_bytes, timed_sentences


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
    single = job.what.startswith("sentence")
    options = {
        "beam_size": BEAM_SIZE if job.what.endswith("beam") else 1,
        "min_decoding_length": job.steps,
        "max_decoding_length": job.steps,
    }
    with TemporaryDirectory() as folder:
        path = export_model(model, "ctranslate2", Path(folder) / "model")
        translator = ctranslate2.Translator(
            str(path), device="cpu", compute_type="float32", inter_threads=1, intra_threads=job.threads
        )

    def translate(batch: list[list[str]]) -> object:
        return translator.translate_batch(batch, max_batch_size=job.batch, **options)

    groups = [[source] for source in sources] if single else [sources]
    translate(sources[: effort.warm_up if single else job.batch])
    taken = elapsed_seconds(lambda: [translate(group) for group in groups], "cpu")
    value = 1000 * taken / len(sources) if single else len(sources) * job.steps / taken
    return Outcome(value, peak_bytes("cpu"))


def main() -> None:
    order = json.load(sys.stdin)
    job, effort = TypeAdapter(Job).validate_python(order["job"]), TypeAdapter(Effort).validate_python(order["effort"])
    print(json.dumps(measure(job, effort)._asdict()))


if __name__ == "__main__":
    main()
