"""`check`: whether a part keeps the laws of attention."""

from __future__ import annotations

from typing import Annotated

import typer

from seq2seq_attn.cli.arguments import AsJson, argument, complete_scorers, require_file
from seq2seq_attn.cli.console import answer


def check(
    parts: Annotated[
        list[str],
        argument(
            "PART|OPTION=VALUE",
            "A scorer, normalizer, window or context: my_scorer.py:MyScorer, package.module:MyScorer, or a name listed "
            "by `scorers`; and arguments of these parts, as in query_size=64 hidden_size=16. By default a query has "
            "size 16 and a key 24, or 16 if both must be equal.",
            complete_scorers,
        ),
    ],
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds per part; the law that it is in is then broken.")
    ] = 600,
    as_json: AsJson = False,
) -> None:
    """Check attention parts against the laws of attention.

    The parts are scorers, normalizers, windows and contexts. Prints one line per law: it holds; it is broken, with what
    is wrong and the line of the file if the part raised an error; a warning (allowed but rarely intended); or skipped,
    with the reason. The laws cover padding, batches, queries together and one by one, long sources, memory
    layouts, gradients against finite differences, training mode, what the weights depend on, saturation, NaN, half
    precision, copies, torch.compile and torch.export. Each part is checked in its own process. The exit code is 1 if a
    law is broken. `pytest --check-scorer PART` has the same laws as tests.

    Parts are called with random numbers on the CPU. The check cannot show that a part computes its equation, nor find
    defects on inputs that were not tried. In training mode, values are compared only if dropout is the only source of
    randomness. `seq2seq_attn.testing` lists these limits.

    Examples:
        seq2seq-attn check my_scorer.py:MyScorer
        seq2seq-attn check additive my_scorer.py:MyScorer query_size=512 key_size=1024 hidden_size=256
        seq2seq-attn check my_package.scorers:MyScorer --json
    """
    for part in parts:
        require_file(part)

    from seq2seq_attn.testing.command import run

    code = run(parts, as_json=as_json, answer=answer, timeout=timeout)
    if code:
        raise typer.Exit(code)
