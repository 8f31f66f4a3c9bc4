"""Measures OpenNMT-py 3.5: reads an order from stdin, writes the result to stdout. Run it in setup.sh's folder."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import order as orders
import yaml

ONMT_TRAIN = Path(sys.prefix) / "bin" / "onmt_train"
REPORT = r"/ *([\d.]+) tok/s"  # the second of two rates, that of target tokens


def main():
    order = orders.read()
    if order["job"]["what"] == "training":
        train(order)
    else:
        translate(order)


def train(order):
    """`onmt_train` without validation."""
    count, every = orders.updates(order)
    with tempfile.TemporaryDirectory() as folder:
        differs = {"train_steps": count, "report_every": every, "batch_size": order["job"]["batch"]} | on_gpu(order)
        command = onmt_train(order["settings"], Path(folder), save_model=f"{folder}/model", **differs)
        orders.train(command, REPORT)


def translate(order):
    """The engine of `onmt_translate`, with the same number of steps for every sentence."""
    from onmt.bin.translate import _get_parser
    from onmt.inference_engine import InferenceEnginePY
    from onmt.utils.parse import ArgumentParser

    steps, beam_size, batch = order["steps"], orders.beam_size(order), orders.batch_size(order)
    options = _get_parser().parse_args(
        f"-model {checkpoint(order['settings'])} -src - -output /dev/null -batch_size {batch} -beam_size {beam_size} "
        f"-random_sampling_topk 1 -min_length {steps} -max_length {steps} -max_length_ratio 0"
        f"{' -gpu 0' if on_gpu(order) else ''}".split()
    )
    ArgumentParser.validate_translate_opts(options)
    ArgumentParser._get_all_transform_translate(options)
    ArgumentParser._validate_transforms_opts(options)
    ArgumentParser.validate_translate_opts_dynamic(options)
    engine, sentences = InferenceEnginePY(options), order["sentences"]
    engine.infer_list(sentences[: min(batch, 8)])
    started = time.perf_counter()
    engine.infer_list(sentences)
    orders.answer_search(order, time.perf_counter() - started, len(sentences))


def on_gpu(order):
    """The options of `onmt_train` for the first GPU; none on a CPU."""
    return {"gpu_ranks": [0]} if order["effort"].get("device") == "cuda" else {}


def checkpoint(settings):
    """A model that was trained for one step; trained at the first order that needs it."""
    folder = Path("onmt")
    path = folder / f"{name(settings)}_step_1.pt"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        command = onmt_train(settings, folder, save_model=str(folder / name(settings)), train_steps=1)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(done.stdout)
    return path


def onmt_train(settings, folder, **differs):
    """The command; writes its configuration into the folder."""
    path = folder / f"{name(settings)}.yaml"
    config = configuration(settings) | {"save_data": str(folder / "run")} | differs
    path.write_text(yaml.safe_dump(config))
    return [str(ONMT_TRAIN), "-config", str(path)]


def name(settings):
    return settings["attention"] + ("-feed" if settings["input_feeding"] else "")


def configuration(settings):
    """GRU encoder of 256 per direction, GRU decoder 512, embeddings 256, dropout 0.3.

    Or, where the attention is transformer, 4 + 4 layers of width 128 with 4 heads and feed-forward networks of 256.
    """
    if settings["attention"] == "transformer":
        model = {
            "encoder_type": "transformer",
            "decoder_type": "transformer",
            "layers": 4,
            "heads": 4,
            "transformer_ff": 256,
            "hidden_size": 128,
            "word_vec_size": 128,
            "position_encoding": True,
            "dropout": [0.3],
            "attention_dropout": [0.0],
        }
    else:
        model = {
            "encoder_type": "brnn",
            "decoder_type": "rnn",
            "rnn_type": "GRU",
            "enc_layers": 1,
            "dec_layers": 1,
            "enc_hid_size": 512,
            "dec_hid_size": 512,
            "word_vec_size": 256,
            "dropout": 0.3,
            "bridge": True,
            "input_feed": int(settings["input_feeding"]),
            "global_attention": settings["attention"],
        }
    return model | {
        "data": {
            "train": {"path_src": "data/train.bpe.en", "path_tgt": "data/train.bpe.de", "transforms": []},
            "valid": {"path_src": "data/val.bpe.en", "path_tgt": "data/val.bpe.de", "transforms": []},
        },
        "src_vocab": "data/onmt.vocab",
        "tgt_vocab": "data/onmt.vocab",
        "share_vocab": False,
        "src_vocab_size": 20000,
        "tgt_vocab_size": 20000,
        "overwrite": True,
        "save_checkpoint_steps": 100_000,
        "valid_steps": 100_000,
        "seed": 42,
        "num_workers": 0,
        "bucket_size": 29_000,
        "bucket_size_init": 29_000,
        "batch_type": "sents",
        "batch_size": 64,
        "normalization": "tokens",
        "optim": "adam",
        "learning_rate": 0.001,
        "max_grad_norm": 1.0,
        "label_smoothing": 0.0,
        "world_size": 1,
    }


if __name__ == "__main__":
    main()
