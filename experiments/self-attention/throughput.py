"""Speed and memory against the length of sentences, for models of equal size.

Every measurement is made in a process of its own, for its peak memory; random words, as they do not change the time.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from seq2seq_attn.models.config import ModelConfig
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.models.transformer.config import TransformerConfig
from seq2seq_attn.ops import fuse
from seq2seq_attn.ops.host import keep_freed_memory
from seq2seq_attn.runs.building import count_parameters
from seq2seq_attn.search import SearchOptions, search

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, which has the benchmarks
from benchmarks.common_task import BenchCorpus, synthetic_corpus, training_batches
from benchmarks.records import Effort, Job
from benchmarks.workloads import TrainingStep, elapsed_seconds, peak_bytes

VOCABULARY = 2000
BATCH_TOKENS = 2000  # of each side
WARM_UP = 2  # batches, and translations

NO_DROPOUT = {"embedding": 0.0, "state": 0.0, "readout": 0.0}

# The sizes of decoders and feed-forward networks are such that all have nearly the same number of parameters.
MODELS: dict[str, ModelConfig] = {
    "GRU, additive attention": RecurrentConfig.model_validate(
        {
            "embedding_size": 128,
            "tie_embeddings": "none",
            "encoder": {"hidden_size": 192},
            "decoder": {"kind": "bahdanau", "hidden_size": 253},
            "dropout": NO_DROPOUT,
        }
    ),
    "minGRU, no feeding": RecurrentConfig.model_validate(
        {
            "embedding_size": 128,
            "tie_embeddings": "none",
            "dropout": NO_DROPOUT,
            "encoder": {"cell": "mingru", "hidden_size": 192},
            "context": {"scorer": "general"},
            "decoder": {"kind": "luong", "input_feeding": False, "cell": "mingru", "hidden_size": 548},
        }
    ),
    "Transformer": TransformerConfig.model_validate(
        {
            "embedding_size": 128,
            "tie_embeddings": "none",
            "dropout": NO_DROPOUT,
            "encoder": {"layers": 3, "feed_forward_size": 460},
            "decoder": {"layers": 3, "feed_forward_size": 460},
        }
    ),
}


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of the function in a new process, which owns its allocator and its peak memory."""
    with multiprocessing.get_context("spawn").Pool(1, keep_freed_memory) as pool:
        return pool.apply(function, arguments)


def speed(lengths: Sequence[int], batches: int, rounds: int, run: Callable[..., Any] = apart) -> dict[str, object]:
    """Tokens/s of training, seconds of a greedy translation, and peak bytes of training: one of each per round."""
    measured: dict[str, dict[str, list[list[float]]]] = {
        quantity: {name: [[] for _ in lengths] for name in MODELS} for quantity in ("training", "latency", "memory")
    }
    for _ in range(rounds):  # models in turn, so that a slow minute of the machine does not hit one alone
        for place, length in enumerate(lengths):
            for name in MODELS:
                tokens, memory = run(training, name, length, batches)
                seconds = run(latency, name, length, batches)
                for quantity, value in (("training", tokens), ("latency", seconds), ("memory", memory)):
                    measured[quantity][name][place].append(round(value, 5))
                print(f"{name}, length {length}: {tokens:,.0f} tokens/s, {1000 * seconds:,.0f} ms", flush=True)
    return {
        "lengths": list(lengths),
        "batches": batches,
        "rounds": rounds,
        "vocabulary": VOCABULARY,
        "batch tokens": BATCH_TOKENS,
        "parameters": {name: count_parameters(untrained(name)) for name in MODELS},
        **measured,
    }


def untrained(name: str) -> Seq2Seq:
    torch.manual_seed(1)
    return MODELS[name].build(VOCABULARY, VOCABULARY, joint=False)


def corpus(length: int, batches: int) -> tuple[BenchCorpus, Job]:
    """Random sentences of this length, `</s>` included, in batches of BATCH_TOKENS, or of one sentence if longer."""
    job = Job(
        "training", "additive", "fp32", 1, batch=max(1, BATCH_TOKENS // length), length=length, vocabulary=VOCABULARY
    )
    return synthetic_corpus(job, Effort(WARM_UP, batches)), job


def training(name: str, length: int, batches: int) -> tuple[float, int]:
    """Target tokens/s of training steps, and the bytes by which the process grew at most."""
    sentences, job = corpus(length, batches)
    before = peak_bytes("cpu")
    step, drawn = TrainingStep(untrained(name), "fp32", "cpu"), training_batches(sentences, job)
    for _ in range(WARM_UP):
        step(next(drawn))
    counts: list[int] = []
    taken = elapsed_seconds(lambda: counts.extend(step(next(drawn)) for _ in range(batches)))
    return sum(counts) / taken, peak_bytes("cpu") - before


def latency(name: str, length: int, repeats: int) -> float:
    """Median seconds of the greedy translation of one sentence into as many tokens."""
    source = corpus(length, 1)[0].test[0]
    options = SearchOptions(beam_size=1, min_length=length, max_length=length, max_length_ratio=None)
    model = fuse(untrained(name).eval(), constant=True)
    taken = []
    for _ in range(WARM_UP + repeats):
        started = time.perf_counter()
        search(model, [source], options)
        taken.append(time.perf_counter() - started)
    return median(taken[WARM_UP:])
