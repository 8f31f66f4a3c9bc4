"""`serve`: a REST server for trained runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2seq_attn.cli.arguments import Plugin, argument, check_runs, complete_runs, file, load_plugins
from seq2seq_attn.cli.console import say
from seq2seq_attn.runs import shipped_runs


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
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 5000,
    workers: Annotated[int, typer.Option(min=1, help="Threads that decode, each one batch at a time.")] = 2,
    languages: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE-CODE", help="The languages of each RUN in turn, as in en-zh. Repeatable."),
    ] = None,
    api_key_file: Annotated[
        Path | None, file("API keys, one per line; every request but /health and the pages then needs one.")
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Pages of this origin may use the server, as https://x.org. Repeatable."),
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Let other machines connect without a key.")] = False,
    max_lines: Annotated[int, typer.Option(min=1, help="Lines of a request at most.")] = 128,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a line at most.")] = 512,
    max_beam: Annotated[int, typer.Option(min=1, help="Hypotheses or samples of a line at most.")] = 32,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request at most.")] = 1 << 20,
    max_waiting: Annotated[int, typer.Option(min=1, help="Lines that wait at most; with more: 429.")] = 512,
    max_work: Annotated[int, typer.Option(min=1, help="Hypotheses x tokens of a request at most.")] = 1 << 18,
    max_total_work: Annotated[
        int, typer.Option(min=1, help="Hypotheses x tokens of all large requests together at most; with more: 429.")
    ] = 1 << 20,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for a request at most.")] = 60.0,
    grace: Annotated[float, typer.Option(min=0.0, help="Seconds for running requests when the server stops.")] = 2.0,
    plugin: Plugin = None,
) -> None:
    """Serve trained runs over HTTP.

    Without RUN, serves the demo's trained models, which are part of the package. Translates, scores, aligns, and
    returns attention weights and every step of decoding. POST /translate and GET /languages are those of
    LibreTranslate, so its clients work as they are; /v1/... are those of this package, listed at /docs. Lines of
    different clients are decoded together. Ctrl-C or SIGTERM stops the server within seconds; requests that do not end
    in these are answered with 503. docs/serving.md describes everything.
    """
    from seq2seq_attn.serve import Settings, read_keys

    settings = Settings(
        host=host,
        port=port,
        workers=workers,
        api_keys=read_keys(api_key_file) if api_key_file else frozenset(),
        cors=tuple(cors or ()),
        insecure=insecure,
        max_lines=max_lines,
        max_tokens=max_tokens,
        max_beam=max_beam,
        max_body=max_body,
        max_waiting=max_waiting,
        max_work=max_work,
        max_total_work=max_total_work,
        timeout=timeout,
        grace=grace,
    )
    load_plugins(plugin)
    from seq2seq_attn.ops.host import keep_freed_memory
    from seq2seq_attn.serve import server

    keep_freed_memory()
    server.serve(server.load_models(runs or list(shipped_runs().values()), languages or (), say), settings, say)
