"""`serve`: a REST server for trained runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from seq2seq_attn.cli.arguments import Plugin, argument, check_runs, complete_runs, file, prepare
from seq2seq_attn.cli.console import say
from seq2seq_attn.options import takes
from seq2seq_attn.runs import shipped_runs
from seq2seq_attn.serve import ServeOptions, Settings, read_keys
from seq2seq_attn.strict import parse


@takes(ServeOptions)
def serve(
    runs: Annotated[
        list[Path] | None,
        argument(
            "RUN",
            "Run folders, as written by train, or demo. The first is the default. Without any: the demo's models.",
            complete_runs,
            check_runs,
        ),
    ] = None,
    *,
    languages: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE-CODE", help="The languages of each RUN in turn, as in en-zh. Repeatable."),
    ] = None,
    api_key_file: Annotated[
        Path | None, file("API keys, one per line; requests then need one. /health, /languages and the pages do not.")
    ] = None,
    plugin: Plugin = None,
    **options: Any,
) -> None:
    """Serve trained runs over HTTP.

    Without RUN, serves the demo's trained models, which are part of the package. Translates, scores, aligns, and
    returns attention weights and every step of decoding. /translate, /detect and /languages answer clients of
    LibreTranslate; /v1/... are those of this package, listed at /docs. Lines of different clients are decoded
    together. Ctrl-C or SIGTERM stops the server within seconds; requests that do not end in these are answered with
    503. docs/serving.md describes everything.

    Examples:
        seq2seq-attn serve
        seq2seq-attn serve runs/x runs/y --port 8000 --languages en-zh --languages zh-en
        seq2seq-attn serve runs/x --host 0.0.0.0 --api-key-file keys.txt --cors https://example.org
    """
    settings = parse(Settings, options | {"api_keys": read_keys(api_key_file) if api_key_file else frozenset()})
    prepare(plugin)

    from seq2seq_attn.serve import server

    server.serve(server.load_models(runs or list(shipped_runs().values()), languages or (), say), settings, say)
