"""Time to quality: validation BLEU against minutes of training, for this project, JoeyNMT and OpenNMT-py.

Each system trains on Multi30k English to German, on lowercased, tokenized text, with a small RNN recipe that its
authors publish; after every epoch its greedy translations of the validation set are scored. Minutes are those since its
training command was started, with the validation that it does itself: this project's includes these translations; the
peers keep a checkpoint of every epoch, translated afterward.

    benchmarks/peers/setup.sh peers                                             # first; then, on an idle machine:
    python benchmarks/quality.py train peers seq2seq_attn --minutes 25
    python benchmarks/quality.py train peers opennmt --minutes 45
    python benchmarks/quality.py train peers joeynmt --minutes 45
    python benchmarks/quality.py show                                           # the table and the picture
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from seq2seq_attn.evaluation.corpus_scores import Expected, bleu
from seq2seq_attn.report.figures import Picture, drawing, legend_below, line_styles, render
from seq2seq_attn.report.table import markdown_table
from seq2seq_attn.runs.provenance import hardware

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
RECIPE = ROOT / "experiments" / "multi30k-en-de" / "best.yaml"
EPOCH = 454  # updates of 64 sentences
GOALS = (30, 35, 38)
NAMES = {"seq2seq_attn": "seq2seq_attn, bf16", "opennmt": "OpenNMT-py 3.5.1", "joeynmt": "JoeyNMT 2.3.0"}

Curve = list[tuple[float, float]]  # minutes since the start, validation BLEU


def main() -> None:
    """The commands `train` and `show`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train", help="train one system and write its curve")
    training.add_argument("peers", type=Path, help="folder of setup.sh")
    training.add_argument("system", choices=NAMES)
    training.add_argument("--minutes", type=float, default=60.0, help="time limit of the training")
    training.add_argument("--threads", type=int, default=2)
    training.add_argument("--output", type=Path, help="default: benchmarks/results/quality-SYSTEM.json")
    training.set_defaults(run=train)
    commands.add_parser("show", help="write the picture, and print the table of all curves").set_defaults(run=show)
    options = parser.parse_args()
    options.run(options)


def train(options: argparse.Namespace) -> None:
    """One system's curve, in `benchmarks/results/quality-SYSTEM.json`."""
    peers, minutes = options.peers.resolve(), options.minutes
    environment = os.environ | {name: str(options.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    systems: dict[str, Callable[..., Curve]] = {
        "seq2seq_attn": _ours,
        "joeynmt": _joeynmt,
        "opennmt": _opennmt,
    }
    with tempfile.TemporaryDirectory() as folder:
        curve = systems[options.system](peers, Path(folder), minutes, environment)
    if not curve:
        raise SystemExit(f"no epoch ended within {minutes:g} minutes; give more with --minutes")
    result = {
        "system": NAMES[options.system],
        "hardware": hardware("auto", options.threads),
        "minutes": minutes,
        "signature": bleu(["a"], Expected([["a"]], tokenize="none")).signature,
        "curve": [{"minutes": round(at, 2), "bleu": round(score, 2)} for at, score in curve],
    }
    path = options.output or RESULTS / f"quality-{options.system}.json"
    path.write_text(f"{json.dumps(result, indent=2)}\n", encoding="utf-8")
    print(f"{path}: {curve[-1][1]:.1f} BLEU after {curve[-1][0]:.1f} minutes")


def _ours(peers: Path, folder: Path, minutes: float, environment: dict[str, str]) -> Curve:
    data = peers / "data"
    text = {
        "train": {"source": str(data / "train.tok.en"), "target": str(data / "train.tok.de")},
        "validation": {"source": str(data / "val.tok.en"), "target": str(data / "val.tok.de")},
    }
    config = yaml.safe_load(RECIPE.read_text(encoding="utf-8")) | {"data": text}
    config["training"] |= {"precision": "bf16"}
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [sys.executable, "-m", "seq2seq_attn", "train", f"{folder}/config.yaml", "--output", f"{folder}/run"]
    curve = []
    for line, seconds in _lines(command, minutes, environment, cwd=folder):
        if found := re.search(r"epoch \d+/\d+, .*BLEU ([\d.]+)", line):
            curve.append((seconds / 60, float(found[1])))
    return curve


def _joeynmt(peers: Path, folder: Path, minutes: float, environment: dict[str, str]) -> Curve:
    """The model and the optimizer of its configs/iwslt_deen_bahdanau.yaml; a checkpoint after every epoch."""
    config = _peer("joey").configuration("bahdanau", folder / "model")
    embeddings = {"embedding_dim": 256, "scale": False, "dropout": 0.0}
    layer = {"rnn_type": "lstm", "embeddings": embeddings, "hidden_size": 256}
    config["model"]["encoder"] |= layer | {"dropout": 0.0}
    config["model"]["decoder"] |= layer | {"dropout": 0.2, "hidden_dropout": 0.2, "init_hidden": "last"}
    config["training"] |= {"learning_rate_min": 0.00005, "patience": 0, "decrease_factor": 0.5}
    config["training"] |= {"early_stopping_metric": "ppl"}
    config["training"] |= {"updates": 1_000_000, "validation_freq": EPOCH, "logging_freq": EPOCH, "keep_best_ckpts": -1}
    config["testing"] |= {"beam_size": 1, "max_output_length": 80}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    python = peers / "venv" / "bin" / "python"
    command = [str(python), "-m", "joeynmt", "train", str(path), "--skip-test"]

    def translate(checkpoint: Path, output: Path) -> None:
        config["testing"]["load_model"] = str(checkpoint)  # without it, the best checkpoint is loaded
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        done = [str(python), "-m", "joeynmt", "translate", str(path)]  # its option for a file fails in this release
        with (peers / "data" / "val.bpe.en").open("rb") as lines, output.open("wb") as file:
            subprocess.run(done, cwd=peers, env=environment, stdin=lines, stdout=file, check=True)

    return _checkpoints(command, folder / "model", "[0-9]*.ckpt", translate, peers, minutes, environment)


def _opennmt(peers: Path, folder: Path, minutes: float, environment: dict[str, str]) -> Curve:
    """The default model and optimizer of `onmt_train`, as in its quickstart: two LSTM layers of 500, general, SGD."""
    common = _peer("opennmt").configuration({"attention": "general", "input_feeding": True})
    kept = ["data", "src_vocab", "tgt_vocab", "src_vocab_size", "tgt_vocab_size", "overwrite", "seed", "num_workers"]
    kept += ["bucket_size", "bucket_size_init", "batch_type", "batch_size", "world_size", "valid_steps"]
    config = {key: common[key] for key in kept} | {
        "save_data": str(folder / "run"),
        "save_model": str(folder / "model" / "model"),
        "train_steps": 1_000_000,
        "save_checkpoint_steps": EPOCH,
        "keep_checkpoint": -1,
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    commands = peers / "venv" / "bin"

    def translate(checkpoint: Path, output: Path) -> None:
        source = peers / "data" / "val.bpe.en"
        words = f"-model {checkpoint} -src {source} -output {output} -beam_size 1 -batch_size 64 -max_length 80"
        done = [str(commands / "onmt_translate"), *words.split()]
        subprocess.run(done, cwd=peers, env=environment, check=True, capture_output=True)

    command = [str(commands / "onmt_train"), "-config", str(path)]
    return _checkpoints(command, folder / "model", "*.pt", translate, peers, minutes, environment)


def _checkpoints(
    command: list[str],
    folder: Path,
    pattern: str,
    translate: Callable[[Path, Path], None],
    peers: Path,
    minutes: float,
    environment: dict[str, str],
) -> Curve:
    """Trains, then translates the validation set with every checkpoint; minutes are those at which it was written."""
    began = time.time()
    for line, seconds in _lines(command, minutes, environment, cwd=peers):
        print(f"{seconds / 60:6.1f} min  {line[-110:]}")
    references = (peers / "data" / "val.tok.de").read_text(encoding="utf-8").splitlines()
    curve: Curve = []
    before: list[str] = []
    for checkpoint in sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime):
        output = folder / "translations"
        translate(checkpoint, output)
        translations = output.read_text(encoding="utf-8").replace("@@ ", "").splitlines()
        if translations == before:
            raise SystemExit(f"{checkpoint.name}: the translations of the checkpoint before; was this one loaded?")
        before = translations
        score = bleu(translations, Expected([references], tokenize="none")).value
        curve.append(((checkpoint.stat().st_mtime - began) / 60, score))
        print(f"{checkpoint.name}: {curve[-1][0]:.1f} min, {score:.2f}")
    return curve


def _lines(command: list[str], minutes: float, environment: dict[str, str], cwd: Path) -> Iterator[tuple[str, float]]:
    """The lines that a command prints, with the seconds since its start; it is terminated at the time limit."""
    began = time.monotonic()
    paths = environment | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH"))))}
    with subprocess.Popen(
        command, cwd=cwd, env=paths, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        limit = threading.Timer(60 * minutes, os.killpg, (process.pid, signal.SIGTERM))
        limit.start()
        for line in process.stdout or ():
            yield line.rstrip(), time.monotonic() - began
        limit.cancel()
    if process.returncode and time.monotonic() - began < 60 * minutes:
        raise SystemExit(f"{' '.join(command)} failed")


def _peer(name: str) -> Any:
    """A driver's module, for its configuration."""
    sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
    return importlib.import_module(name)


def show(_: argparse.Namespace) -> None:
    """The table, on standard output, and the picture, in `docs/speed`."""
    results = measured()
    print(table(results))
    styles = line_styles([result["system"] for result in results])
    with drawing([]):
        figure = Picture(figsize=(7.6, 4.4), layout="constrained")
        axes = figure.subplots()
        for result in results:
            minutes, scores = ([each[key] for each in result["curve"]] for key in ("minutes", "bleu"))
            axes.plot(minutes, scores, label=result["system"], markersize=4, **styles[result["system"]])
        axes.set(xlabel="minutes of training", ylabel="BLEU of the validation set, greedy")
        legend_below(figure, axes)
        (ROOT / "docs" / "speed" / "time-to-quality.png").write_bytes(render(figure, "png"))


def measured() -> list[dict[str, Any]]:
    """The results of the systems that have been measured, this project's first."""
    paths = [path for name in NAMES if (path := RESULTS / f"quality-{name}.json").exists()]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def table(results: list[dict[str, Any]]) -> str:
    """Minutes to each goal, the best BLEU, and the minutes after which the last epoch ended."""
    rows = []
    for result in results:
        reached = [next((each["minutes"] for each in result["curve"] if each["bleu"] >= goal), None) for goal in GOALS]
        cells = ["not reached" if at is None else f"{at:.1f}" for at in reached]
        best, last = max(each["bleu"] for each in result["curve"]), result["curve"][-1]["minutes"]
        rows.append([result["system"], *cells, f"{best:.1f}", f"{last:.1f}"])
    goals = (f"minutes to {goal} BLEU" for goal in GOALS)
    return markdown_table(["system", *goals, "best BLEU", "minutes trained"], rows)


if __name__ == "__main__":
    main()
