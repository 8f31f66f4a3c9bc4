"""Registration of all commands, with examples for their help texts.

A command imports what it needs in its body: importing torch takes seconds, and `--help` must return immediately.
"""

from __future__ import annotations

from typing import Annotated

import typer

import seq2seq_attn
from seq2seq_attn.cli import (
    align,
    check,
    data,
    evaluate,
    experiments,
    faithfulness,
    runs,
    scorers,
    serve,
    translate,
    walk,
)
from seq2seq_attn.cli.arguments import examples
from seq2seq_attn.cli.command import App
from seq2seq_attn.cli.console import answer

app = App(rich_markup_mode=None, pretty_exceptions_enable=False)


def _version(requested: bool) -> None:
    if requested:
        answer(f"seq2seq-attn {seq2seq_attn.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=examples("seq2seq-attn demo", "seq2seq-attn train --help"))
def program(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Encoder-decoder translation with pluggable attention, and the ablation that shows what attention is for."""
    if context.invoked_subcommand is None:
        answer(context.get_help())


app.command(epilog=examples("seq2seq-attn demo", "seq2seq-attn demo --quick --output quick-demo"))(experiments.demo)
app.add_typer(data.app, name="data")
app.command(
    epilog=examples(
        "seq2seq-attn train experiments/x.yaml --output runs/x training.batch_size=32",
        "seq2seq-attn train experiments/x.yaml --output runs/x --resume training.max_epochs=80",
        "seq2seq-attn train mine.yaml --plugin my_scorer.py model.context.scorer=my_scorer",
        "seq2seq-attn train --keys model.decoder",
    )
)(experiments.train)
app.command(
    epilog=examples(
        "seq2seq-attn translate runs/x test.en > test.de",
        "echo 'Tom chases Jerry' | seq2seq-attn translate demo",
        "seq2seq-attn translate runs/x test.en.gz --beam-size 10 --n-best 3 > test.nbest",
        "seq2seq-attn translate runs/x test.en --n-best 5 --json --attention attention.jsonl > test.jsonl",
        "seq2seq-attn translate runs/x test.en --ensemble runs/y --ensemble runs/z > test.de",
        "seq2seq-attn translate runs/x test.en --temperature 1 --n-best 10 --seed 3 > test.samples",
        "seq2seq-attn translate runs/x test.en --mbr chrf --candidates 10 --beam-size 10 > test.de",
    )
)(translate.translate)
app.command(
    epilog=examples(
        "seq2seq-attn evaluate runs/x",
        "seq2seq-attn evaluate --hypotheses mine.de --references test.de --baseline theirs.de",
        "seq2seq-attn evaluate --hypotheses mine.de --references test.de --lc-tok test.lc.norm.tok.de --language de",
        "seq2seq-attn evaluate --links mine.align --gold test.align",
    )
)(evaluate.evaluate)
app.command(
    epilog=examples(
        "seq2seq-attn average runs/x --output runs/x-average",
        "seq2seq-attn average runs/x --last 2 --output runs/x-average-2",
    )
)(runs.average)
app.command(
    epilog=examples(
        "seq2seq-attn compare experiments/multi30k-en-de/experiment.yaml",
        "seq2seq-attn compare experiments/x/experiment.yaml seeds=[1,2,3] training.max_epochs=20 --jobs 2",
    )
)(experiments.compare)
app.command(
    epilog=examples(
        "seq2seq-attn report experiments/multi30k-en-de",
        "seq2seq-attn report comparisons/demo --live",
        "seq2seq-attn report comparisons/demo --live --arm 'additive attention' --arm 'mean of states'",
    )
)(experiments.report)
app.command(
    epilog=examples(
        "seq2seq-attn align runs/x test.en test.de > test.align",
        "seq2seq-attn align runs/x test.en test.zh --gold test.align --json",
        "seq2seq-attn align runs/en-de test.en test.de --reverse runs/de-en --gold test.align",
        "seq2seq-attn align runs/x test.en test.de --attention attention.npz",
        "seq2seq-attn align runs/x test.en test.de --gold test.align --heads",
        "seq2seq-attn align runs/x pair.en pair.de --plot heads.svg",
    )
)(align.align)
app.command(epilog=examples("seq2seq-attn verify runs/x", "seq2seq-attn verify runs/x --score --json"))(runs.verify)
app.command(epilog=examples("seq2seq-attn score runs/x test.en test.de"))(align.score)
app.command(
    epilog=examples(
        "seq2seq-attn faithfulness runs/x test.en test.de",
        "seq2seq-attn faithfulness runs/x test.en test.de --sentences 200 --json",
    )
)(faithfulness.faithfulness)
app.command(
    epilog=examples(
        "seq2seq-attn export runs/x --to onnx --output exported",
        "seq2seq-attn export runs/x --to torch --output exported --overwrite",
        "seq2seq-attn export runs/x --to html --output exported",
    )
)(runs.export)
app.command(
    epilog=examples(
        "seq2seq-attn serve",
        "seq2seq-attn serve runs/x runs/y --port 8000 --languages en-zh --languages zh-en",
        "seq2seq-attn serve runs/x --host 0.0.0.0 --api-key-file keys.txt --cors https://example.org",
    )
)(serve.serve)
app.command(
    epilog=examples("seq2seq-attn scorers", "seq2seq-attn scorers --query-size 256 --key-size 256 --plugin mine.py")
)(scorers.scorers)
app.command(
    epilog=examples(
        "seq2seq-attn walk",
        "seq2seq-attn walk --query '1 0; 0 1' --states '2 0; 0 1; 1 1' --words 'Tom chases Jerry'",
        "seq2seq-attn walk additive hidden_size=4 --normalizer sparsemax --json",
        "seq2seq-attn walk self-attention",
        "seq2seq-attn walk self-attention --states '1 0 0 1; 0 1 0 0; 1 0 1 0' --words 'Jerry chases Tom'",
    )
)(walk.walk)
app.command(
    epilog=examples(
        "seq2seq-attn check my_scorer.py:MyScorer",
        "seq2seq-attn check additive my_scorer.py:MyScorer --query-size 512 --key-size 1024 hidden_size=256",
        "seq2seq-attn check my_package.scorers:MyScorer --json",
    )
)(check.check)
