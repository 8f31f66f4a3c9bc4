"""Training speed on the common task: target tokens a second, and peak memory.

    python benchmarks/training_speed.py FOLDER [--precision bf16] [--decoder bahdanau] [--context attention] ...

FOLDER holds train.bpe.en and train.bpe.de (Multi30k en-de, lowercased and tokenised, joint BPE of 8,000 merges) and
their joint.vocab, one entry a line: the files on which JoeyNMT and OpenNMT-py are measured. The model has their sizes:
GRU encoder 256 a direction, GRU decoder 512, embeddings 256, dropout 0.3, 64 sentences a batch, Adam, gradient norm
clipped to 1. The figure is that of all tokens over all seconds after a warm-up.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from pathlib import Path

import torch

from seq2seq_attn.models.recurrent.config import RecurrentConfig, build_recurrent
from seq2seq_attn.text.codec import Codec
from seq2seq_attn.text.vocabulary import Vocabulary
from seq2seq_attn.text.word import Word
from seq2seq_attn.training.batches import Batch, EncodedPairs, loader
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.module import TranslationModule
from seq2seq_attn.training.optimiser import make_optimiser


def main() -> None:
    options = arguments()
    torch.manual_seed(1)
    random.seed(1)
    codec = Codec(Word(), Vocabulary((options.folder / "joint.vocab").read_text().split()))
    source, target = (
        [codec.encode(line) for line in (options.folder / f"train.bpe.{side}").read_text().splitlines()]
        for side in ("en", "de")
    )
    size = len(codec.vocabulary)
    model = build_recurrent(model_config(options), size, size, joint=False)
    module = TranslationModule(model, TrainingConfig())
    optimiser = make_optimiser(list(model.parameters()), module.config.optimiser)

    def step(batch: Batch) -> int:
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            loss, _, count = module.loss(batch)
        (loss / count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        return count

    batches = iter(loader(EncodedPairs(source, target), 64, "sentences", seed=1))
    for _ in range(options.warm_up):
        step(next(batches))
    tokens, started = 0, time.perf_counter()
    for _ in range(options.steps):
        tokens += step(next(batches))
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{options.decoder}, {options.context}, {options.scorer}, {options.precision}: "
        f"{tokens / seconds:,.0f} target tokens a second over {options.steps} steps, "
        f"{torch.get_num_threads()} threads, peak memory {peak:.2f} GB"
    )


def model_config(options: argparse.Namespace) -> RecurrentConfig:
    return RecurrentConfig.model_validate(
        {
            "embedding_size": 256,
            "encoder": {"hidden_size": 256},
            "decoder": {"kind": options.decoder, "hidden_size": 512, "input_feeding": options.input_feeding},
            "context": {"kind": options.context, "scorer": options.scorer},
            "dropout": {"embedding": 0.3, "state": 0.3, "readout": 0.3},
        }
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--decoder", choices=["bahdanau", "luong", "conditional"], default="bahdanau")
    parser.add_argument("--context", choices=["attention", "mean", "fixed", "none"], default="attention")
    parser.add_argument("--scorer", default="additive")
    parser.add_argument("--input-feeding", action="store_true", help="of the luong decoder")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=10)
    return parser.parse_args()


if __name__ == "__main__":
    main()
