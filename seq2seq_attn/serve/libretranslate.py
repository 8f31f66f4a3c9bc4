"""The endpoints of LibreTranslate that its clients need; docs/serving.md names those that are replayed in the tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.runs.requests import SourceLine
from seq2seq_attn.serve import answers, requests
from seq2seq_attn.serve.answers import Detected
from seq2seq_attn.serve.calls import Call, Endpoints, Server
from seq2seq_attn.serve.documents import Document
from seq2seq_attn.serve.requests import ApiError, as_lines
from seq2seq_attn.serve.tasks import ServedModel

ENDPOINTS = Endpoints()
DETECTED = 2000  # characters from which a language is detected


@ENDPOINTS.at("/translate", answers.LibreTranslateAnswer, requests.LibreTranslateBody)
async def libretranslate(call: Call[requests.LibreTranslateBody]) -> dict[str, Any]:
    """Translate a text or a list of texts, plain or HTML, with the fields of LibreTranslate."""
    body, count = call.body, 1 + call.body.alternatives
    if count > call.settings.max_beam:
        raise ApiError(400, f"alternatives = {body.alternatives}: at most {call.settings.max_beam - 1} are searched")
    documents = await asyncio.to_thread(lambda: [Document.of(text, body.format) for text in as_lines(body.q)])
    lines = [line for each in documents for line in each.sentences]
    served, detected = await _served(call.server, body, lines)
    options = served.model.config.search
    if body.alternatives:
        options = served.model.search_options(**options.for_several(count))
    found = iter(await call.translate(served, list(map(SourceLine, lines)), options) if lines else ())
    records = [[next(found) for _ in each.sentences] for each in documents]
    filled = [_filled(*each, count) for each in zip(documents, records, strict=True)]
    unknown = [[word for record in each for word in record["unknown"]] for each in records]
    answer: dict[str, list[Any]] = {"translatedText": [each[0] for each in filled]}
    if body.alternatives:
        answer["alternatives"] = [each[1:] for each in filled]
    if any(unknown):
        answer["unknownWords"] = unknown
    if detected is not None:
        answer["detectedLanguage"] = [detected] * len(documents)
    return {key: values[0] for key, values in answer.items()} if isinstance(body.q, str) else answer


def _filled(document: Document, records: list[dict[str, Any]], count: int) -> list[str]:
    """The `count` best translations of a text: the nth ones of its sentences; "" for a blank line."""
    lines = [[each["text"] for each in record["translations"]] or [""] for record in records]
    found = max(1, min(count, max(map(len, lines), default=0)))
    return [document.filled(line[min(rank, len(line) - 1)] for line in lines) for rank in range(found)]


async def _served(
    server: Server, body: requests.LibreTranslateBody, lines: Sequence[str]
) -> tuple[ServedModel, Detected | None]:
    """The model for the languages of a request, and the source language if it was to be detected.

    It is one language for all texts of a request, as many of them are too short to tell.
    """
    served = server.pair(body.source, body.target)
    if body.source != "auto":
        return served, None
    models = [each for each in server.of_text if each.target == body.target]
    codecs = ((each.source, each.model.trained.text_source("serve")) for each in models)
    found = await asyncio.to_thread(detect, codecs, "\n".join(lines))
    if not found:
        return served, Detected(0, served.source)
    return server.pair(found[0].language, body.target), found[0]


def detect(codecs: Iterable[tuple[str, Codec]], text: str) -> list[Detected]:
    """The languages that a text may be in, the most probable first; none if no vocabulary has any of it.

    The confidence is the share of the text, in characters, that is in tokens of the language's vocabulary. Of equal
    ones, the language with fewer tokens comes first, since a vocabulary is learned to write its own language in few.

    Args:
        codecs: Codes of languages, each with a codec of it; of several for a language, the best counts.
        text: The text, of which the first characters are read.
    """
    best: dict[str, tuple[float, int]] = {}
    for language, codec in codecs:
        pieces = [piece for line in text[:DETECTED].splitlines() for piece in codec.pieces(line)]
        ids = codec.vocabulary.lookup_indices(pieces)
        known = sum(len(piece) for piece, index in zip(pieces, ids, strict=True) if index > EOS)
        share = known / max(1, sum(map(len, pieces)))
        best[language] = max(best.get(language, (0.0, 0)), (share, -len(pieces)))
    ranked = sorted(best, key=lambda language: best[language], reverse=True)
    return [Detected(round(100 * best[each][0]), each) for each in ranked if best[each][0] > 0]


@ENDPOINTS.at("/detect", list[Detected], requests.DetectBody)
async def detected_languages(call: Call[requests.DetectBody]) -> list[Detected]:
    """The served languages that a text may be in, the most probable first; none if no vocabulary knows any of it."""
    trained = [(each, each.model.trained) for each in call.server.of_text]
    codecs = [(each.source, model.text_source("serve")) for each, model in trained]
    codecs += [(each.target, model.target) for each, model in trained]
    return await asyncio.to_thread(detect, codecs, "\n".join(as_lines(call.body.q)))


@ENDPOINTS.at("/languages", list[answers.ServedLanguage], needs_key=False)
async def languages(call: Call[requests.NoBody]) -> list[dict[str, Any]]:
    """The languages, source languages first, each with the target languages that it can be translated into."""
    models = call.server.of_text
    targets: dict[str, set[str]] = {each.source: set() for each in models}
    for each in models:
        targets[each.source].add(each.target)
        targets.setdefault(each.target, set())
    return [{"code": code, "name": code, "targets": sorted(into)} for code, into in targets.items()]


@ENDPOINTS.at("/frontend/settings", answers.FrontendSettingsAnswer, needs_key=False)
async def frontend_settings(call: Call[requests.NoBody]) -> dict[str, Any]:
    """What the page of LibreTranslate asks for first: the languages it begins with, and what is not served."""
    served = call.server.model(None)
    begin = {"source": served.source, "target": served.target}
    return {
        "apiKeys": bool(call.settings.api_keys),
        "charLimit": -1,
        "filesTranslation": False,
        "frontendTimeout": 500,
        "keyRequired": bool(call.settings.api_keys),
        "language": {side: {"code": code, "name": code} for side, code in begin.items()},
        "suggestions": False,
        "supportedFilesFormat": [],
    }
