"""HTML: models in one file that decodes in the page itself, with no server and no network.

The file contains the live page of the server (`serve/frontend`, built into `page/`), onnxruntime for browsers, and for
each model its graphs in ONNX, with inputs for interventions, its vocabularies and pairs of its test set.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.errors import UserError
from seq2seq_attn.export import Exported
from seq2seq_attn.export.graphs import graphs_of
from seq2seq_attn.export.onnx import need_packages, program_of
from seq2seq_attn.files.writing import explained, write_bytes
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import sample_pairs
from seq2seq_attn.runs.model import TrainedModel

FILE = "live.html"
TOKENIZERS = ("word", "character")  # those of serve/frontend/src/offline/codec.ts

_PAGE = Path(__file__).parent / "page"

# The file forbids itself every request, so that it cannot depend on one.
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'unsafe-inline' 'wasm-unsafe-eval'",
        "style-src 'unsafe-inline'",
        "font-src data:",
        "img-src data: blob:",
    ]
)

_USAGE = f"""
`{FILE}` is the page: open it in a browser, or send it to someone. It translates and shows attention without a server or
a network. `export.json` describes its model. The tokenizer files are those of the run; the page contains them, too.
"""


def write(model: TrainedModel, folder: Path) -> Exported:
    """Write the page of one model. UserError: as for `live_page`."""
    write_bytes(folder / FILE, live_page({"model": model}))
    return Exported({"file": FILE, "model": model.about()}, _USAGE)


def live_page(models: Mapping[str, TrainedModel], say: Say = lambda _: None) -> bytes:
    """The page of these models, by their names, the first of which is shown first.

    UserError: a library is not installed, the page does not know a tokenizer, hard attention, or torch.export cannot
    record a model.
    """
    need_packages("html")
    for name, model in models.items():
        _refuse_tokenizers(name, model)
        if not model.translator.sums_values:
            raise UserError(
                f"{name}: a page without a server replaces what a step reads, and hard attention reads one position "
                f"(model.decoder.kind=hard); show the run with seq2seq-attn serve"
            )
    records, parts = [], {"runtime": _read("onnxruntime.wasm.gz")}
    for number, (name, model) in enumerate(models.items()):
        say(f"recording the graphs of {name}")
        record, graphs = _model(name, model, f"model-{number}")
        records.append(record)
        parts |= graphs
    return _document(records, parts).encode()


def _refuse_tokenizers(name: str, model: TrainedModel) -> None:
    for codec in (model.text_source(f"{name}: a page without a server"), model.target):
        if codec.tokenizer.kind not in TOKENIZERS:
            raise UserError(
                f"{name}: its tokenizer is {codec.tokenizer.kind}, and a page without a server knows only "
                f"{' and '.join(TOKENIZERS)}; show the run with seq2seq-attn serve, or train with text.tokenizer=word"
            )
        if codec.tokenizer.protected or codec.vocabulary.slots:
            what = "protected symbols" if codec.tokenizer.protected else "text.copy_slots"
            raise UserError(
                f"{name}: has {what}, which a page without a server does not know; show the run with seq2seq-attn serve"
            )


def _model(name: str, model: TrainedModel, place: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The record of a model for the page, and its graphs, compressed, by the ids of their elements."""
    text, graphs = model.config.text, graphs_of(model, with_interventions=True)
    languages = {"source": text.source_language, "target": text.target_language}
    shown = {"examples": sample_pairs(model.config.data.test), "glosses": model.glosses()}
    record = {
        "about": {"name": name, **languages, **model.about(), **shown},
        "codecs": {"source": _codec(model.text_source(name)), "target": _codec(model.target)},
        "graphs": {kind: graph.description(f"{place}-{kind}") for kind, graph in graphs.items()},
        "start_token": model.translator.start_token,
    }
    packed = {
        f"{place}-{kind}": gzip.compress(program_of(graph).model_proto.SerializeToString(), mtime=0)
        for kind, graph in graphs.items()
    }
    return record, packed


def _codec(codec: Codec) -> dict[str, Any]:
    tokens = codec.vocabulary.get_itos()
    rules = {"lowercase": codec.lowercase, "match_known_forms": codec.match_known_forms}
    return {"kind": codec.tokenizer.kind, "tokens": tokens} | rules


def _document(records: list[dict[str, Any]], parts: Mapping[str, bytes]) -> str:
    models = json.dumps(records, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    packed = "\n".join(
        f'<script type="text/plain" id="{place}">{base64.b64encode(content).decode("ascii")}</script>'
        for place, content in parts.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>Attention in translation</title>
<link rel="icon" href="data:,">
<style>{_read("live.css").decode()}</style>
</head>
<body>
<noscript>This page translates in the browser and needs JavaScript.</noscript>
<script type="application/json" id="models">{models}</script>
{packed}
<details class="notices"><summary>Licenses</summary><pre>{html.escape(_notices())}</pre></details>
<script type="module">{_read("live.js").decode()}</script>
</body>
</html>
"""


def _notices() -> str:
    """Of the packages in the page, which ask that they are kept."""
    return "\n".join(_read(name).decode() for name in ("licenses.md", "onnxruntime.LICENSE"))


def _read(name: str) -> bytes:
    with explained(_PAGE / name):
        return (_PAGE / name).read_bytes()
