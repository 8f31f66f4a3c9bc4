"""The endpoints: LibreTranslate's, so that its clients work as they are, and those of this package under /v1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

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
from seq2seq_attn.analysis.neighbors import find_neighbors
from seq2seq_attn.analysis.step_interventions import other_sources
from seq2seq_attn.analysis.stepwise import (
    DecodedStep,
    continuations,
    decode_steps,
    decoded,
    exact,
    refuse_rules,
    source_tokens,
)
from seq2seq_attn.api.model import Model
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.plain import plain
from seq2seq_attn.options import AlignOptions, SearchOptions
from seq2seq_attn.runs.requests import SourceLine, rules_of
from seq2seq_attn.serve import Settings, requests, tasks
from seq2seq_attn.serve.batches import Batches, QueueFullError, StoppingError
from seq2seq_attn.serve.guard import STOPPING, Exchange, Guard, Metrics, bearer_key, check_key, error_response
from seq2seq_attn.serve.pages import docs_page, schema
from seq2seq_attn.serve.requests import ApiError, Lines, as_lines
from seq2seq_attn.serve.tasks import ServedModel, Task, search_work

PAGE = Path(__file__).parent / "page"  # built from frontend/
FONTS = Path(report.__file__).parent / "fonts"  # Chinese characters, for systems without


class Server:
    """The models and settings of a server, and its queue."""

    def __init__(self, models: Sequence[ServedModel], settings: Settings) -> None:
        self.models = {each.name: each for each in models}
        self.settings = settings
        self.metrics = Metrics()
        self.batches = Batches(settings.workers, settings.max_waiting, self.metrics.batch)

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


Body = TypeVar("Body", bound=requests.Body)


@dataclass(frozen=True)
class Call(Generic[Body]):
    """A request that may be answered, with its body, and the parts of an answer that endpoints share."""

    server: Server
    exchange: Exchange
    body: Body
    served: ServedModel  # the one that the body names, or the first

    @property
    def settings(self) -> Settings:
        return self.server.settings

    async def lengths(self, codec: Codec, lines: Sequence[Lines], most: int | None = None, name: str = "") -> list[int]:
        """The tokens of each line, text or tokens. ApiError: there are too many lines, or too many tokens in one."""
        if len(lines) > self.settings.max_lines:
            limit = f"this server takes at most {self.settings.max_lines} at once"
            raise ApiError(413, f"{len(lines)} lines; {limit}")
        most = self.settings.max_tokens if most is None else most

        def count() -> list[int]:
            return [len(codec.pieces(line) if isinstance(line, str) else line) for line in lines]

        lengths = await asyncio.to_thread(count)
        for number, length in enumerate(lengths, start=1):
            if length > most:
                place = name or f"line {number}"
                raise ApiError(400, f"{place}: {length} tokens; at most {most} are translated, so split it")
        return lengths

    async def source_lengths(self, served: ServedModel, lines: Sequence[Lines]) -> list[int]:
        """As `lengths`, for what a model is to predict from; it reads no more tokens than in training."""
        most = min(self.settings.max_tokens, served.model.config.data.max_length)
        return await self.lengths(served.model.trained.text_source("serve"), lines, most)

    async def pair_lengths(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """As `lengths`, for the longer side of each pair."""
        trained = self.served.model.trained
        sources = await self.lengths(trained.text_source("serve"), [source for source, _ in pairs])
        targets = await self.lengths(trained.target, [target for _, target in pairs])
        return list(map(max, sources, targets))

    async def run(self, task: Task, items: Sequence[Any], lengths: Sequence[int], work: int) -> list[Any]:
        """The results of a task for these items. ApiError, QueueFullError: it is too much, or too much at once."""
        is_large = self.exchange.admit(work)
        return await self.server.batches.run(task, items, lengths, is_large=is_large)

    async def run_on(self, task: Task, items: Sequence[Any], lengths: Sequence[int]) -> list[Any]:
        """The same for what follows from work that was admitted: the next step of a stream, links of outputs."""
        is_large = self.exchange.is_large
        return await self.server.batches.run(task, items, lengths, is_large=is_large, admitted=True)

    async def translate(
        self, served: ServedModel, lines: Sequence[SourceLine], options: SearchOptions, weights: bool = False
    ) -> list[dict[str, Any]]:
        """The records of the outputs of some lines."""
        most = min(self.settings.max_tokens, options.max_length - 1)
        target = served.model.trained.target
        await self.lengths(target, [line.prefix for line in lines], most, "prefix")
        await asyncio.to_thread(rules_of, target, lines, options)  # a mistake of one client is no other's
        lengths = await self.source_lengths(served, [line.source for line in lines])
        work = sum(search_work(options, length, weights=weights) for length in lengths)
        return await self.run(tasks.translations(served, options, weights), lines, lengths, work)

    async def answer(self, answer: tasks.Answer, length: int, work: int) -> Any:
        """What this function of the model returns, for a source of `length` tokens."""
        (found,) = await self.run(Task(tasks.answer, self.served, batch_size=1), [answer], [length], work)
        return found


class Endpoint(NamedTuple):
    """A path, the record of its body, and what answers it: a record for JSON, or a whole response."""

    method: str
    path: str
    record: type[requests.Body]
    answer: Callable[[Call[Any]], Awaitable[Any]]


ENDPOINTS: list[Endpoint] = []

_Answer = TypeVar("_Answer", bound=Callable[..., Awaitable[Any]])


def _endpoint(path: str, record: type[requests.Body] = requests.NoBody) -> Callable[[_Answer], _Answer]:
    def add(answer: _Answer) -> _Answer:
        ENDPOINTS.append(Endpoint("GET" if record is requests.NoBody else "POST", path, record, answer))
        return answer

    return add


class Application(NamedTuple):
    """What a process serves."""

    asgi: ASGIApp
    guard: Guard
    server: Server


def create_app(models: Sequence[ServedModel], settings: Settings) -> Application:
    """The endpoints for these models, behind their guard."""
    server = Server(models, settings)
    app = FastAPI(title="seq2seq_attn", version=seq2seq_attn.__version__, docs_url=None, redoc_url=None)
    for each in ENDPOINTS:
        _add(app, server, each)
    _add_pages(app)
    for kind in (UserError, ApiError, QueueFullError, StoppingError, ClientDisconnect, HTTPException, Exception):
        app.add_exception_handler(kind, _error)
    guard = Guard(app, settings, server.metrics)
    if not settings.cors:
        return Application(guard, guard, server)
    headers = ("authorization", "content-type")
    asgi = CORSMiddleware(guard, allow_origins=settings.cors, allow_methods=("GET", "POST"), allow_headers=headers)
    return Application(asgi, guard, server)


def _add(app: FastAPI, server: Server, endpoint: Endpoint) -> None:
    async def answer(request: Request) -> Any:
        if bearer_key(request) is not None:
            check_key(request, None, server.settings)  # before a body is read
        body = await requests.read(request, endpoint.record, server.settings)
        check_key(request, body.api_key, server.settings)
        served = server.model(getattr(body, "model", None))
        found = await endpoint.answer(Call(server, Exchange.of(request), body, served))
        if isinstance(found, Response):
            return found
        if isinstance(body, requests.ModelBody):
            found = {"model": served.name, **found}
        return await asyncio.to_thread(lambda: JSONResponse(plain(found)))  # weights of a long sentence: megabytes

    function = endpoint.answer
    described = {} if endpoint.record is requests.NoBody else schema(endpoint.record)
    app.add_api_route(
        endpoint.path,
        answer,
        methods=[endpoint.method],
        name=function.__name__,
        description=function.__doc__ or "",
        openapi_extra=described,
    )


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
        headers = dict(error.headers or {})
        if headers.get("Allow") == "GET":
            headers["Allow"] = "GET, HEAD"  # see Exchange
        return error_response(error.status_code, f"{error.detail}; /docs lists the endpoints", headers)
    if isinstance(error, UserError):
        return error_response(400, str(error))
    return error_response(500, "an error of the server, not of the request; its log has the details")


@_endpoint("/translate", requests.LibreTranslateBody)
async def libretranslate(call: Call[requests.LibreTranslateBody]) -> dict[str, Any]:
    """Translate a text or a list of texts, with the fields of LibreTranslate."""
    body, count = call.body, 1 + call.body.alternatives
    if count > call.settings.max_beam:
        raise ApiError(400, f"alternatives = {body.alternatives}: at most {call.settings.max_beam - 1} are searched")
    served = call.server.pair(body.source, body.target)
    options = served.model.config.search
    if body.alternatives:
        options = served.model.search_options(beam_size=max(options.beam_size, count), n_best=count)
    texts = as_lines(body.q)
    lines = [text.replace("\r\n", "\n").split("\n") for text in texts]
    found = iter(await call.translate(served, [SourceLine(line) for each in lines for line in each], options))
    records = [[next(found) for _ in each] for each in lines]
    answers = [_joined([record["translations"] for record in each], count) for each in records]
    unknown = [[word for record in each for word in record["unknown"]] for each in records]
    answer: dict[str, list[Any]] = {"translatedText": [each[0] for each in answers]}
    if body.alternatives:
        answer["alternatives"] = [each[1:] for each in answers]
    if any(unknown):
        answer["unknownWords"] = unknown
    if body.source == "auto":
        answer["detectedLanguage"] = [{"confidence": 100, "language": served.source}] * len(texts)
    return {key: values[0] for key, values in answer.items()} if isinstance(body.q, str) else answer


def _joined(lines: list[list[dict[str, Any]]], count: int) -> list[str]:
    """The `count` best translations of a text of several lines: the nth ones of its lines; "" for a blank line."""
    found = max(1, min(count, max(map(len, lines))))
    return [
        "\n".join(line[min(rank, len(line) - 1)]["text"] if line else "" for line in lines) for rank in range(found)
    ]


@_endpoint("/languages")
async def languages(call: Call[requests.NoBody]) -> list[dict[str, Any]]:
    """The source languages, each with the target languages that it can be translated into."""
    targets: dict[str, set[str]] = {}
    for each in call.server.models.values():
        targets.setdefault(each.source, set()).add(each.target)
    return [{"code": code, "name": code, "targets": sorted(into)} for code, into in targets.items()]


@_endpoint("/v1/translate", requests.TranslateBody)
async def translate(call: Call[requests.TranslateBody]) -> dict[str, Any]:
    """Predict the targets of sources: n best, scores, tokens; attention weights and word links if asked for."""
    options = call.served.model.search_options(**call.body.options(call.settings))
    results = await call.translate(call.served, call.body.lines(), options, call.body.weights)
    if call.body.align:
        translations = [(each, found["source"]) for found in results for each in found["translations"]]
        pairs = [(source, each["text"]) for each, source in translations]
        lengths = [len(source) + len(text) for source, text in pairs]
        found = await call.run_on(Task(tasks.align, call.served, AlignOptions()), pairs, lengths)
        for (each, _), links in zip(translations, found, strict=True):
            each["links"] = links.links
    return {"results": results}


@_endpoint("/v1/score", requests.PairsBody)
async def score(call: Call[requests.PairsBody]) -> dict[str, Any]:
    """Log-probabilities of given targets, in total and of each token."""
    return await _of_pairs(call, Task(Model.score, call.served))


@_endpoint("/v1/align", requests.AlignBody)
async def align(call: Call[requests.AlignBody]) -> dict[str, Any]:
    """Links between the words of sources and given targets, as [source word, target word], counted from 0."""
    return await _of_pairs(call, Task(tasks.align, call.served, call.body.options))


async def _of_pairs(call: Call[Any], task: Task) -> dict[str, Any]:
    pairs = call.body.pairs()
    lengths = await call.pair_lengths(pairs)
    return {"results": await call.run(task, pairs, lengths, sum(lengths))}


@_endpoint("/v1/attention", requests.AttentionBody)
async def attention(call: Call[requests.AttentionBody]) -> dict[str, Any]:
    """Attention weights between a source and its target; of every layer and head if asked for."""
    body, options = call.body, call.served.model.config.search
    if body.target is None:
        (length,) = await call.source_lengths(call.served, [body.source])
        work = search_work(options, length)
    else:
        (length,) = await call.pair_lengths([(body.source, body.target)])
        work = options.limit(length + 1)

    def answer(model: Model) -> dict[str, Any]:
        target = body.target
        if target is None:
            target = model.translate([body.source], say=lambda _: None).sentences[0]
        found = model.attention(body.source, target, words=body.words)
        record = {"source": found.source, "target": found.target, "weights": found.weights}
        if not body.heads:
            return record
        maps = model.attention_maps(body.source, target)
        layers = {name: each.layers if each else () for name, each in maps._asdict().items()}
        return layers | {"source_tokens": maps.cross.source, "target_tokens": maps.cross.target} | record

    return dict(await call.answer(answer, length, work))


@_endpoint("/v1/neighbors", requests.NeighborsBody)
async def neighbors(call: Call[requests.NeighborsBody]) -> dict[str, Any]:
    """The training pairs with the nearest sources, or the nearest steps of decoding; 503 until they are read."""
    body, trained = call.body, call.served.model.trained
    (length,) = await call.source_lengths(call.served, [body.source])
    if body.target is not None:
        await call.lengths(trained.target, [body.target], name="target")
    index = call.served.state_index()
    if index is None:
        raise ApiError(503, "the training sentences are being read, once; ask again in a few seconds", retry_after="5")

    def answer(model: Model) -> dict[str, Any]:
        found = find_neighbors(model.trained, index, body.source, body.target, body.step, body.most)
        return {"neighbors": found}

    return dict(await call.answer(answer, length, search_work(trained.config.search, length)))


@_endpoint("/v1/steps", requests.StepsBody)
async def steps(call: Call[Any]) -> dict[str, Any]:
    """Every step of decoding: weights by layer and head, scores, contributions to C, likely next tokens."""
    arguments, length, work = await _arguments(call)

    def answer(model: Model) -> dict[str, Any]:
        return vars(decoded(model.trained, call.body.source, decode_steps(model.trained, **arguments)))

    return dict(await call.answer(answer, length, work))


@_endpoint("/v1/intervene", requests.InterveneBody)
async def intervene(call: Call[requests.InterveneBody]) -> dict[str, Any]:
    """The same with interventions: weights of a step replaced, or its context; decoding goes on from there."""
    return await steps(call)


@_endpoint("/v1/hypotheses", requests.HypothesesBody)
async def hypotheses(call: Call[requests.HypothesesBody]) -> dict[str, Any]:
    """The n best outputs that begin with a prefix, with or without interventions."""
    arguments, length, work = await _arguments(call, n_best=None)

    def answer(model: Model) -> dict[str, Any]:
        return {"hypotheses": continuations(model.trained, **arguments)}

    return dict(await call.answer(answer, length, work))


@_endpoint("/v1/stream", requests.StreamBody)
async def stream(call: Call[requests.StreamBody]) -> Response:
    """Server-sent events while decoding: a `step` for each token, then `end`; by default, greedy search."""
    arguments, length, work = await _arguments(call, beam_size=1)
    answer = tasks.next_step(call.served, arguments)
    first = await call.answer(answer, length, work)  # a mistake in the request is no event
    events = _events(call, answer, first, length)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}  # nginx would collect the events
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def _arguments(call: Call[Any], n_best: int | None = 1, **defaults: Any) -> tuple[dict[str, Any], int, int]:
    """The arguments of `decode_steps` or `continuations`, the tokens of the source, and the work."""
    body, served = call.body, call.served
    given, own = body.options(call.settings), body.own_arguments()
    if own.get("target") is not None and given:
        raise ApiError(400, f"{', '.join(given)}: options of a search, but the target is given; leave them out")
    # A run that keeps several hypotheses may be asked for one, by a narrower beam.
    base = exact(served.model.config.search, n_best=n_best)
    options = served.model.search_options(base=base, **(defaults | given))
    refuse_rules(options)
    others = other_sources(own.get("interventions", ()))
    length, *_ = await call.source_lengths(served, [body.source, *others])
    for name in ("target", "prefix"):
        if own.get(name) is not None:
            await call.lengths(served.model.trained.target, [own[name]], name=name)
    return own | {"options": options}, length, (1 + len(others)) * search_work(options, length)


async def _events(
    call: Call[requests.StreamBody], answer: tasks.Answer, step: DecodedStep | None, length: int
) -> AsyncIterator[str]:
    """The first step and those after it, each computed when the one before has been sent, and the whole at the end."""
    served, tokens, total = call.served, list[str](), 0.0
    yield _event("start", {"model": served.name, "source": source_tokens(served.model.trained, call.body.source)})
    while step is not None:
        tokens.append(step.token)
        total += step.log_probability
        yield _event("step", step._asdict() | {"text": served.text(call.body.source, tokens)})
        try:
            (step,) = await call.run_on(Task(tasks.answer, served, batch_size=1), [answer], [length])
        except UserError as error:
            yield _event("error", {"error": str(error)})
            return
        except StoppingError:
            yield _event("error", {"error": STOPPING})
            return
    yield _event("end", {"text": served.text(call.body.source, tokens), "log_probability": total, "tokens": tokens})


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(plain(data), ensure_ascii=False, allow_nan=False)}\n\n"


@_endpoint("/v1/models")
async def models(call: Call[requests.NoBody]) -> dict[str, Any]:
    """The models, the default one first."""
    return {"models": [each.about() for each in call.server.models.values()]}


@_endpoint("/metrics")
async def metrics(call: Call[requests.NoBody]) -> Response:
    """Counters and histograms for Prometheus."""
    found = call.server.metrics
    found.waiting.set(len(call.server.batches.waiting))
    return Response(generate_latest(found.registry), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_pages(app: FastAPI) -> None:
    """What needs no key."""

    @app.get("/health")
    async def health() -> Any:
        """Whether the server answers; needs no key."""
        return JSONResponse({"status": "ok"})

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Any:
        return HTMLResponse(docs_page(app.openapi()))

    @app.get("/", include_in_schema=False)
    async def page() -> Any:
        return FileResponse(PAGE / "index.html")

    app.mount("/assets", StaticFiles(directory=PAGE / "assets"))
    app.mount("/fonts", StaticFiles(directory=FONTS))
