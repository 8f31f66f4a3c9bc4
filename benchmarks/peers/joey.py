"""Measures JoeyNMT 2.3: reads an order from stdin, writes the result to stdout. Run it in setup.sh's folder."""

import sys
import tempfile
import time
from pathlib import Path

import order as orders
import yaml

REPORT = r"Tokens per Sec: +([\d.]+)"


def main():
    order = orders.read()
    work = train if order["job"]["what"] == "training" else translate
    with tempfile.TemporaryDirectory() as folder:
        work(order, Path(folder))


def train(order, folder):
    """`joeynmt train` without validation."""
    count, every = orders.updates(order)
    config = configuration(order["settings"]["attention"], folder / "model")
    never = (count // every + 1) * every  # must be a multiple of logging_freq
    config["training"] |= {"updates": count, "logging_freq": every, "validation_freq": never}
    config["training"]["batch_size"] = order["job"]["batch"]
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    orders.train([sys.executable, "-m", "joeynmt", "train", str(path), "--skip-test"], REPORT)


def translate(order, folder):
    """`predict` with an untrained model, and the same number of steps for every sentence."""
    from joeynmt import search
    from joeynmt.config import parse_global_args
    from joeynmt.data import load_data
    from joeynmt.model import build_model
    from joeynmt.prediction import predict

    sentences, steps, batch = order["sentences"], order["steps"], orders.batch_size(order)
    config = configuration(order["settings"]["attention"], folder / "model")
    for part, lines in {"dev": sentences[: max(1, min(batch, 8))], "test": sentences}.items():
        for language in ("en", "de"):
            (folder / f"{part}.{language}").write_text("".join(f"{line}\n" for line in lines))
        config["data"][part] = str(folder / part)
    arguments = parse_global_args(config, rank=0, mode="train")
    source, target, _, warm_up, test = load_data(cfg=arguments.data, datasets=["dev", "test"])
    model = build_model(arguments.model, src_vocab=source, trg_vocab=target)
    for name in (
        "recurrent_greedy",
        "transformer_greedy",
        "beam_search",
    ):  # `predict` does not pass the minimum length on to them
        setattr(search, name, with_minimum_length(getattr(search, name), steps))
    options = arguments.test._replace(
        beam_size=orders.beam_size(order), batch_size=batch, max_output_length=steps, min_output_length=steps
    )

    def run(data):
        started = time.perf_counter()
        predict(model, data, arguments.device, 0, args=options, autocast=arguments.autocast)
        return time.perf_counter() - started

    run(warm_up)
    orders.answer_search(order, run(test), len(sentences))


def with_minimum_length(search, steps):
    return lambda *args, **kwargs: search(*args, **{**kwargs, "min_output_length": steps})


def configuration(attention, folder):
    """GRU encoder of 256 per direction, GRU decoder 512, embeddings 256, dropout 0.3; always with input feeding.

    Or, where `attention` is transformer, 4 + 4 layers of width 128 with 4 heads and feed-forward networks of 256.
    """

    def side(language):
        return {
            "lang": language,
            "level": "word",
            "voc_file": "data/joint.vocab",
            "tokenizer_type": "subword-nmt",
            "tokenizer_cfg": {"pretokenizer": "none"},
            "max_length": 100,
            "min_length": 1,
            "lowercase": False,
            "normalize": False,
        }

    if attention == "transformer":
        embeddings = {"embedding_dim": 128, "scale": True, "dropout": 0.3}
        sizes = {"num_layers": 4, "num_heads": 4, "hidden_size": 128, "ff_size": 256}
        encoder = decoder = {
            "type": "transformer",
            "embeddings": embeddings,
            "dropout": 0.3,
            "layer_norm": "pre",
        } | sizes
    else:
        embeddings = {"embedding_dim": 256, "scale": False, "dropout": 0.3}
        layer = {"type": "recurrent", "rnn_type": "gru", "embeddings": embeddings, "dropout": 0.3, "num_layers": 1}
        encoder = layer | {"hidden_size": 256, "bidirectional": True}
        decoder = layer | {
            "hidden_size": 512,
            "hidden_dropout": 0.3,
            "input_feeding": True,
            "init_hidden": "bridge",
            "attention": attention,
        }
    return {
        "name": attention,
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder),
        "use_cuda": False,
        "fp16": False,
        "random_seed": 42,
        "data": {
            "train": "data/train.bpe",
            "dev": "data/val.bpe",
            "dataset_type": "plain",
            "src": side("en"),
            "trg": side("de"),
            "special_symbols": {
                "unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>",
                "unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3,
            },
        },
        "testing": {"beam_alpha": 1.0, "batch_type": "sentence", "eval_metrics": []},
        "training": {
            "optimizer": "adam",
            "learning_rate": 0.001,
            "clip_grad_norm": 1.0,
            "loss": "crossentropy",
            "batch_size": 64,
            "batch_type": "sentence",
            "normalization": "tokens",
            "scheduling": "plateau",
            "patience": 50,
            "epochs": 100,
            "early_stopping_metric": "loss",
            "overwrite": True,
            "shuffle": True,
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "normal",
            "embed_init_weight": 0.1,
            "tied_embeddings": False,
            "tied_softmax": False,
            "encoder": encoder,
            "decoder": decoder,
        },
    }  # fmt: skip


if __name__ == "__main__":
    main()
