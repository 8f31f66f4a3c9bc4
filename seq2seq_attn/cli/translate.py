"""`translate`: one line of output per line of input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2seq_attn.cli.arguments import AsJson, AttentionFile, Plugin, RunFolder, argument, load_model
from seq2seq_attn.cli.console import answer, answer_json, progress, say

if TYPE_CHECKING:
    from seq2seq_attn.runs.model import TrainedModel
    from seq2seq_attn.search.hypotheses import Hypothesis
    from seq2seq_attn.search.options import SearchOptions

CHUNK = 512  # lines translated together: sorted by length, they make batches with little padding


def translate(
    run: RunFolder,
    file: Annotated[
        Path | None, argument("FILE", "Source sentences, one per line, plain or .gz; default: stdin.")
    ] = None,
    beam_size: Annotated[int | None, typer.Option(help="Hypotheses per sentence; 1 is greedy search.")] = None,
    n_best: Annotated[int | None, typer.Option(help="Maximum translations per line, best first, as JSON.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="log p is divided by ((5 + tokens) / 6) to this power; 0 ranks by log p.")
    ] = None,
    min_length: Annotated[int | None, typer.Option(help="Minimum number of target tokens, </s> included.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Maximum number of target tokens, </s> included.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="Of matrix products: fp32, or faster and less exact bf16, int8 (CPU only).")
    ] = None,
    shortlist: Annotated[
        bool | None,
        typer.Option(help="Predict only likely tokens: faster, with a lexicon that the first call learns."),
    ] = None,
    attention: AttentionFile = None,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """Translate a file or stdin, line by line.

    Prints one line per input line, a blank one for a blank line. Options default to the run's configuration. With
    --json or --n-best above 1, a line is {"source", "translations": [{"text", "score", "log_probability"}]}, where the
    score is log p divided by the length penalty. A line with more tokens than the run's data.max_length is truncated,
    with a warning. --attention writes the weights of all translations of --n-best.
    """
    from seq2seq_attn.analysis.attention_files import attention_file, searched_attention
    from seq2seq_attn.runs.model import with_lexicon
    from seq2seq_attn.text.files import decoded_lines, read_lines

    lines: Iterable[str] = read_lines(file) if file else decoded_lines(sys.stdin.buffer, "stdin")
    writing = attention_file(attention) if attention else nullcontext()
    model = load_model(run, plugin)
    options = _options(
        _with_shortlist(model.config.search, shortlist),
        beam_size=beam_size,
        n_best=n_best,
        length_penalty=length_penalty,
        min_length=min_length,
        max_length=max_length,
        precision=precision,
    )
    model = with_lexicon(model, run, options, say).for_inference(options)
    as_json = as_json or options.n_best > 1
    size = 1 if file is None and sys.stdin.isatty() else CHUNK
    done = 0
    with progress("lines", len(lines) if isinstance(lines, list) else None) as advance, writing as write:
        for chunk in _chunks(lines, size):
            found = model.search(
                chunk, options, with_weights=write is not None, progress=advance, warn=say, first_line=done + 1
            )
            advance(sum(not hypotheses for hypotheses in found))  # blank lines were not searched
            for line, hypotheses in zip(chunk, found, strict=True):
                _answer(model, line, hypotheses, as_json)
                if write is not None:
                    write(searched_attention(model, line, hypotheses))
            sys.stdout.flush()
            done += len(chunk)


def _with_shortlist(base: SearchOptions, wanted: bool | None) -> SearchOptions:
    """The run's options with a shortlist (its own or the default one) or without; unchanged if `wanted` is None."""
    from seq2seq_attn.search.options import ShortlistOptions

    if wanted is None or wanted == (base.shortlist is not None):
        return base
    return base.model_copy(update={"shortlist": ShortlistOptions() if wanted else None})


def _options(base: SearchOptions, **given: Any) -> SearchOptions:
    """The run's options, overridden by those that were given."""
    from seq2seq_attn.search.options import SearchOptions
    from seq2seq_attn.strict import parse

    return parse(SearchOptions, base.model_dump() | {key: value for key, value in given.items() if value is not None})


def _chunks(lines: Iterable[str], size: int) -> Iterator[Sequence[str]]:
    rest = iter(lines)
    while chunk := list(islice(rest, size)):
        yield chunk


def _answer(model: TrainedModel, line: str, hypotheses: Sequence[Hypothesis], as_json: bool) -> None:
    if not as_json:
        answer(model.text(hypotheses[0]) if hypotheses else "")
        return
    translations = [
        {"text": model.text(found), "score": found.score, "log_probability": found.log_probability}
        for found in hypotheses
    ]
    answer_json({"source": line, "translations": translations})
