"""The endpoints: LibreTranslate's, so that its clients work as they are, and those of this package under /v1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from prometheus_client import generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

import seq2seq_attn
from seq2seq_attn import report
from seq2seq_attn.analysis.step_interventions import Intervention
from seq2seq_attn.analysis.stepwise import DecodedStep, exact, source_tokens
from seq2seq_attn.errors import UserError
from seq2seq_attn.options import AlignOptions, SearchOptions
from seq2seq_attn.serve import Settings, requests
from seq2seq_attn.serve.batches import Batches, QueueFullError, StoppingError
from seq2seq_attn.serve.guard import STOPPING, Exchange, Guard, Metrics, check_key, error_response
from seq2seq_attn.serve.pages import docs_page, schema
from seq2seq_attn.serve.requests import ApiError, Lines, as_lines
from seq2seq_attn.serve.tasks import (
    AlignTask,
    AttentionTask,
    HypothesesTask,
    ModelTask,
    NeighborsTask,
    NextStepTask,
    ScoreTask,
    ServedModel,
    StepsItem,
    StepsTask,
    TranslateTask,
    step_record,
)

PAGE = Path(__file__).parent / "page"  # built from frontend/
FONTS = Path(report.__file__).parent / "fonts"  # Chinese characters, for systems without

_Body = TypeVar("_Body", bound=requests._Body)
_Line = TypeVar("_Line")


class Server:
    """The models and settings of a server, its queue, and the parts of an answer that endpoints share."""

    def __init__(self, models: Sequence[ServedModel], settings: Settings) -> None:
        self.models = {each.name: each for each in models}
        self.settings = settings
        self.metrics = Metrics()
        self.batches = Batches(settings.workers, settings.max_waiting, self.metrics.batch)

    async def body(self, request: Request, record: type[_Body]) -> _Body:
        """The body of a request that may be answered. ApiError, UserError: it may not, or the body is wrong."""
        if "authorization" in request.headers:
            check_key(request, None, self.settings)  # before a body is read
        body, key = await requests.read(request, record, self.settings)
        check_key(request, key, self.settings)
        return body

    def model(self, name: str | None) -> ServedModel:
        """The model with this name, or the first."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise ApiError(400, f"model {name!r} is not served; choose from {', '.join(self.models)}")
        return self.models[name]

    def pair(self, source: str, target: str) -> ServedModel:
        """The first model that translates between these languages; `auto` is any source language."""
        for each in self.models.values():
            if each.target == target and source in ("auto", each.source):
                return each
        known = ", ".join(dict.fromkeys(f"{each.source} to {each.target}" for each in self.models.values()))
        raise ApiError(400, f"no model translates from {source!r} to {target!r}; served: {known}")

    async def lengths(
        self, count: Callable[[Sequence[_Line]], list[int]], lines: Sequence[_Line], most: int
    ) -> list[int]:
        """The tokens of each line. ApiError: there are too many lines, or too many tokens in one."""
        if len(lines) > self.settings.max_lines:
            limit = f"this server takes at most {self.settings.max_lines} at once"
            raise ApiError(413, f"{len(lines)} lines; {limit}")
        lengths = await asyncio.to_thread(count, lines)
        for number, length in enumerate(lengths, start=1):
            if length > most:
                raise ApiError(400, f"line {number}: {length} tokens; at most {most} are translated, so split it")
        return lengths

    async def source_lengths(self, served: ServedModel, lines: Sequence[Lines]) -> list[int]:
        """As `lengths`, for text or tokens that a model is to read; it reads no more tokens than in training."""
        most = min(self.settings.max_tokens, served.model.config.data.max_length)
        return await self.lengths(served.source_tokens, lines, most)

    async def pair_lengths(self, served: ServedModel, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """As `lengths`, for the longer side of each pair."""
        most = self.settings.max_tokens
        sources = await self.lengths(served.source_tokens, [source for source, _ in pairs], most)
        targets = await self.lengths(served.target_tokens, [target for _, target in pairs], most)
        return list(map(max, sources, targets))

    async def run(self, request: Request, task: ModelTask, items: Sequence[Any], lengths: Sequence[int]) -> list[Any]:
        """The results of a task for these items. ApiError, QueueFullError: it is too much, or too much at once."""
        is_large = Exchange.of(request).admit(sum(map(task.work, items, lengths)))
        return await self.batches.run(task, items, lengths, is_large=is_large)

    async def run_on(
        self, request: Request, task: ModelTask, items: Sequence[Any], lengths: Sequence[int]
    ) -> list[Any]:
        """The same for what follows from work that was admitted: the next step of a stream, links of translations."""
        is_large = Exchange.of(request).is_large
        return await self.batches.run(task, items, lengths, is_large=is_large, admitted=True)

    async def translate(
        self, request: Request, served: ServedModel, lines: Sequence[str], options: SearchOptions, weights: bool = False
    ) -> list[dict[str, Any]]:
        """The records of the translations of some lines."""
        lengths = await self.source_lengths(served, lines)
        return await self.run(request, TranslateTask(served, options, weights), lines, lengths)

    async def one(self, request: Request, task: ModelTask, item: Any, length: int) -> dict[str, Any]:
        """The record of a single item, whose source has `length` tokens."""
        (found,) = await self.run(request, task, [item], [length])
        return dict(found)


class Application(NamedTuple):
    """What a process serves."""

    asgi: ASGIApp
    guard: Guard
    server: Server


def create_app(models: Sequence[ServedModel], settings: Settings) -> Application:
    """The endpoints for these models, behind their guard."""
    server = Server(models, settings)
    app = FastAPI(title="seq2seq_attn", version=seq2seq_attn.__version__, docs_url=None, redoc_url=None)
    _add_libretranslate(app, server)
    _add_lines(app, server)
    _add_neighbors(app, server)
    _add_steps(app, server)
    _add_about(app, server)
    for kind in (UserError, ApiError, QueueFullError, StoppingError, ClientDisconnect, HTTPException, Exception):
        app.add_exception_handler(kind, _error)
    guard = Guard(app, settings, server.metrics)
    if not settings.cors:
        return Application(guard, guard, server)
    headers = ("authorization", "content-type")
    asgi = CORSMiddleware(guard, allow_origins=settings.cors, allow_methods=("GET", "POST"), allow_headers=headers)
    return Application(asgi, guard, server)


async def _answer(served: ServedModel, content: dict[str, Any]) -> Response:
    """JSON, written in a thread: the weights of a long sentence are megabytes."""
    return await asyncio.to_thread(JSONResponse, {"model": served.name, **content})


async def _error(_: Request, error: Exception) -> Response:
    if isinstance(error, ApiError):
        return error_response(error.status, str(error), error.headers)
    if isinstance(error, QueueFullError):
        return error_response(429, "too many lines wait; try again in a moment", {"Retry-After": "1"})
    if isinstance(error, StoppingError):
        return error_response(503, STOPPING, {"Retry-After": "5", "Connection": "close"})
    if isinstance(error, ClientDisconnect):
        return error_response(400, "the body ended before its end")  # for the metrics: nobody reads it
    if isinstance(error, HTTPException):
        return error_response(
            error.status_code, f"{error.detail}; /docs lists the endpoints", dict(error.headers or {})
        )
    if isinstance(error, UserError):
        return error_response(400, str(error))
    return error_response(500, "an error of the server, not of the request; its log has the details")


def _add_libretranslate(app: FastAPI, server: Server) -> None:
    @app.post("/translate", openapi_extra=schema(requests.LibreTranslateBody))
    async def libretranslate(request: Request) -> Any:
        """Translate a text or a list of texts, with the fields of LibreTranslate."""
        body = await server.body(request, requests.LibreTranslateBody)
        count = 1 + body.alternatives
        if count > server.settings.max_beam:
            raise ApiError(
                400, f"alternatives = {body.alternatives}: at most {server.settings.max_beam - 1} are searched"
            )
        served = server.pair(body.source, body.target)
        options = served.model.config.search
        if body.alternatives:
            options = served.model.search_options(beam_size=max(options.beam_size, count), n_best=count)
        texts = as_lines(body.q)
        lines = [text.replace("\r\n", "\n").split("\n") for text in texts]
        every = [line for each in lines for line in each]
        found = iter(await server.translate(request, served, every, options))
        records = [[next(found) for _ in each] for each in lines]
        answers = [_joined([record["translations"] for record in each], count) for each in records]
        unknown = [[word for record in each for word in record["unknown"]] for each in records]
        best, others = [each[0] for each in answers], [each[1:] for each in answers]
        is_list = not isinstance(body.q, str)
        answer: dict[str, Any] = {"translatedText": best if is_list else best[0]}
        if body.alternatives:
            answer["alternatives"] = others if is_list else others[0]
        if any(unknown):
            answer["unknownWords"] = unknown if is_list else unknown[0]
        if body.source == "auto":
            detected = {"confidence": 100, "language": served.source}
            answer["detectedLanguage"] = [detected] * len(texts) if is_list else detected
        return JSONResponse(answer)

    @app.get("/languages")
    async def languages(request: Request) -> Any:
        """The source languages, each with the target languages that it can be translated into."""
        await server.body(request, requests.NoBody)
        targets: dict[str, list[str]] = {}
        for each in server.models.values():
            targets.setdefault(each.source, []).append(each.target)
        return JSONResponse(
            [{"code": code, "name": code, "targets": sorted(set(into))} for code, into in targets.items()]
        )


def _joined(lines: list[list[dict[str, Any]]], count: int) -> list[str]:
    """The `count` best translations of a text of several lines: the nth ones of its lines; "" for a blank line."""
    found = max(1, min(count, max(map(len, lines))))
    return [
        "\n".join(line[min(rank, len(line) - 1)]["text"] if line else "" for line in lines) for rank in range(found)
    ]


def _add_lines(app: FastAPI, server: Server) -> None:
    @app.post("/v1/translate", openapi_extra=schema(requests.TranslateBody))
    async def translate(request: Request) -> Any:
        """Translate sentences: n best, scores, tokens; attention weights and word links if asked for."""
        body = await server.body(request, requests.TranslateBody)
        served, lines = server.model(body.model), as_lines(body.source)
        options = served.model.search_options(**body.options(server.settings))
        results = await server.translate(request, served, lines, options, body.weights)
        if body.align:
            translations = [(each, found["source"]) for found in results for each in found["translations"]]
            pairs = [(source, each["text"]) for each, source in translations]
            lengths = [len(source) + len(text) for source, text in pairs]
            found = await server.run_on(request, AlignTask(served, AlignOptions()), pairs, lengths)
            for (each, _), links in zip(translations, found, strict=True):
                each["links"] = links["links"]
        return await _answer(served, {"results": results})

    @app.post("/v1/score", openapi_extra=schema(requests.PairsBody))
    async def score(request: Request) -> Any:
        """Log-probabilities of given translations, in total and of each token."""
        body = await server.body(request, requests.PairsBody)
        served, pairs = server.model(body.model), requests.pairs(body)
        results = await server.run(request, ScoreTask(served), pairs, await server.pair_lengths(served, pairs))
        return await _answer(served, {"results": results})

    @app.post("/v1/align", openapi_extra=schema(requests.AlignBody))
    async def align(request: Request) -> Any:
        """Links between the words of given translations, as [source word, target word], counted from 0."""
        body = await server.body(request, requests.AlignBody)
        served, pairs = server.model(body.model), requests.pairs(body)
        task = AlignTask(served, body.options)
        results = await server.run(request, task, pairs, await server.pair_lengths(served, pairs))
        return await _answer(served, {"results": results})

    @app.post("/v1/attention", openapi_extra=schema(requests.AttentionBody))
    async def attention(request: Request) -> Any:
        """Attention weights between a sentence and its translation; of every layer and head if asked for."""
        body = await server.body(request, requests.AttentionBody)
        served = server.model(body.model)
        if body.target is None:
            (length,) = await server.source_lengths(served, [body.source])
        else:
            (length,) = await server.pair_lengths(served, [(body.source, body.target)])
        return await _answer(served, await server.one(request, AttentionTask(served), body, length))


def _add_neighbors(app: FastAPI, server: Server) -> None:
    @app.post("/v1/neighbors", openapi_extra=schema(requests.NeighborsBody))
    async def neighbors(request: Request) -> Any:
        """The training pairs with the nearest sources, or the nearest steps of decoding; 503 until they are read."""
        body = await server.body(request, requests.NeighborsBody)
        served = server.model(body.model)
        (length,) = await server.source_lengths(served, [body.source])
        if isinstance(body.target, str):
            await server.lengths(served.target_tokens, [body.target], server.settings.max_tokens)
        elif body.target is not None and len(body.target) > server.settings.max_tokens:
            raise ApiError(400, f"target: {len(body.target)} tokens; at most {server.settings.max_tokens} are decoded")
        index = served.state_index()
        if index is None:
            raise ApiError(
                503, "the training sentences are being read, once; ask again in a few seconds", retry_after="5"
            )
        return await _answer(served, await server.one(request, NeighborsTask(served, index), body, length))


def _add_steps(app: FastAPI, server: Server) -> None:
    async def item(
        body: requests.PrefixBody,
        target: str | None = None,
        interventions: tuple[Intervention, ...] = (),
        *,
        several: bool = False,
        **defaults: Any,
    ) -> tuple[ServedModel, StepsItem, int]:
        served, given = server.model(body.model), body.options(server.settings)
        if target is not None and given:
            raise ApiError(400, f"{', '.join(given)}: options of a search, but the target is given; leave them out")
        # A run that keeps several hypotheses may be asked for one, by a narrower beam.
        base = exact(served.model.config.search, n_best=None if several else 1)
        options = served.model.search_options(base=base, **(defaults | given))
        others = [each.other for each in interventions if each.other is not None]
        length, *_ = await server.source_lengths(served, [body.source, *others])
        most = server.settings.max_tokens
        texts = [text for text in (target, body.prefix) if isinstance(text, str)]
        await server.lengths(served.target_tokens, texts, most)
        if not isinstance(body.prefix, str) and len(body.prefix) > most:
            raise ApiError(400, f"prefix: {len(body.prefix)} tokens; at most {most} are decoded")
        return served, StepsItem(body.source, target, body.prefix, interventions, options), length

    @app.post("/v1/steps", openapi_extra=schema(requests.StepsBody))
    async def steps(request: Request) -> Any:
        """Every step of decoding: weights by layer and head, scores, contributions to C, likely next tokens."""
        body = await server.body(request, requests.StepsBody)
        served, given, length = await item(body, body.target)
        return await _answer(served, await server.one(request, StepsTask(served), given, length))

    @app.post("/v1/intervene", openapi_extra=schema(requests.InterveneBody))
    async def intervene(request: Request) -> Any:
        """The same with interventions: weights of a step replaced, or its context; decoding goes on from there."""
        body = await server.body(request, requests.InterveneBody)
        served, given, length = await item(body, body.target, body.interventions)
        return await _answer(served, await server.one(request, StepsTask(served), given, length))

    @app.post("/v1/hypotheses", openapi_extra=schema(requests.HypothesesBody))
    async def hypotheses(request: Request) -> Any:
        """The n best translations that begin with a prefix, with or without interventions."""
        body = await server.body(request, requests.HypothesesBody)
        served, given, length = await item(body, None, body.interventions, several=True)
        return await _answer(served, await server.one(request, HypothesesTask(served), given, length))

    @app.post("/v1/stream", openapi_extra=schema(requests.StreamBody))
    async def stream(request: Request) -> Any:
        """Server-sent events while decoding: a `step` for each token, then `end`; by default, greedy search."""
        body = await server.body(request, requests.StreamBody)
        served, given, length = await item(body, body.target, body.interventions, beam_size=1)
        task = NextStepTask(served, given)
        (first,) = await server.run(request, task, [given], [length])  # a mistake in the request is no event
        more = partial(server.run_on, request, task, [given], [length])
        events = _events(served, given, first, more)
        return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})


async def _events(
    served: ServedModel, given: StepsItem, step: DecodedStep | None, more: Callable[[], Awaitable[list[Any]]]
) -> AsyncIterator[str]:
    """The first step and those after it, each computed when the one before has been sent, and the whole at the end."""
    tokens, total = [], 0.0
    yield _event("start", {"model": served.name, "source": source_tokens(served.model.trained, given.source)})
    while step is not None:
        tokens.append(step.token)
        total += step.log_probability
        yield _event("step", step_record(step) | {"text": served.text(tokens)})
        try:
            (step,) = await more()
        except UserError as error:
            yield _event("error", {"error": str(error)})
            return
        except StoppingError:
            yield _event("error", {"error": STOPPING})
            return
    yield _event("end", {"text": served.text(tokens), "log_probability": total, "tokens": tokens})


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, allow_nan=False)}\n\n"


def _add_about(app: FastAPI, server: Server) -> None:
    @app.get("/health")
    async def health() -> Any:
        """Whether the server answers; needs no key."""
        return JSONResponse({"status": "ok"})

    @app.get("/v1/models")
    async def models(request: Request) -> Any:
        """The models, the default one first."""
        await server.body(request, requests.NoBody)
        return JSONResponse({"models": [each.about() for each in server.models.values()]})

    @app.get("/metrics")
    async def metrics(request: Request) -> Any:
        """Counters and histograms for Prometheus."""
        await server.body(request, requests.NoBody)
        server.metrics.waiting.set(len(server.batches.waiting))
        return Response(generate_latest(server.metrics.registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Any:
        return HTMLResponse(docs_page(app.openapi()))

    @app.get("/", include_in_schema=False)
    async def page() -> Any:
        return FileResponse(PAGE / "index.html")

    app.mount("/assets", StaticFiles(directory=PAGE / "assets"))
    app.mount("/fonts", StaticFiles(directory=FONTS))
