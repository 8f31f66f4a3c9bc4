"""`scorers`: what attention can be made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2seq_attn.cli.console import answer_entries, answer_json
from seq2seq_attn.cli.options import AsJson, Plugin

if TYPE_CHECKING:
    from seq2seq_attn.attention import Scorer


def scorers(
    query_size: Annotated[int, typer.Option(min=1, help="Numbers in a decoder state.")] = 512,
    key_size: Annotated[int, typer.Option(min=1, help="Numbers in an encoder state, both directions together.")] = 1024,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """List the scorers that attention can be made of.

    Each with its name in a configuration, its equation in the query q and the key k, where it was published, how many
    parameters it has at these sizes, and its options with their defaults.
    """
    from seq2seq_attn.attention import scorer_classes
    from seq2seq_attn.lab.plugin import load_plugins

    load_plugins(plugin)
    found = [_describe(name, scorer, query_size, key_size) for name, scorer in scorer_classes().items()]
    if as_json:
        answer_json(found)
        return
    answer_entries({each["name"]: _lines(each) for each in found})


def _describe(name: str, scorer: type[Scorer], query_size: int, key_size: int) -> dict[str, Any]:
    """`parameters` is None where the sizes do not fit; `error` then says why."""
    import torch

    from seq2seq_attn.attention import own_options

    description: dict[str, Any] = {
        "name": name,
        "equation": scorer.equation,
        "options": {option: parameter.default for option, parameter in own_options(scorer).items()},
        "source": scorer.source,
        "parameters": None,
        "error": None,
    }
    try:
        with torch.device("meta"):  # shapes without numbers
            made = scorer(query_size, key_size)
    except ValueError as error:
        return description | {"error": str(error)}
    return description | {"parameters": sum(parameter.numel() for parameter in made.parameters())}


def _lines(description: dict[str, Any]) -> list[str]:
    parameters, options = description["parameters"], description["options"]
    said = ", ".join(f"{option}={'null' if value is None else value}" for option, value in options.items())
    return [
        f"{description['equation']}   ({description['source']})",
        description["error"] if parameters is None else f"parameters: {parameters:,}",
        *([f"options: {said}"] if said else []),
    ]
