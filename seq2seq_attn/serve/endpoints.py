"""The endpoints of this package, under /v1, and what Prometheus reads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from fastapi.responses import Response, StreamingResponse
from prometheus_client import generate_latest

from seq2seq_attn.analysis.neighbors import find_neighbors
from seq2seq_attn.analysis.sentence_vector import WORDS, sentence_vector
from seq2seq_attn.analysis.step_interventions import other_sources
from seq2seq_attn.analysis.stepwise import (
    DecodedStep,
    continuations,
    decode_steps,
    decoded,
    exact,
    read_as,
    refuse_rules,
    source_tokens,
)
from seq2seq_attn.api.model import Model
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.plain import plain
from seq2seq_attn.options import AlignOptions
from seq2seq_attn.serve import answers, requests, tasks
from seq2seq_attn.serve.batches import StoppingError
from seq2seq_attn.serve.calls import Call, Endpoints
from seq2seq_attn.serve.guard import STOPPING
from seq2seq_attn.serve.requests import ApiError
from seq2seq_attn.serve.sent_files import seen
from seq2seq_attn.serve.tasks import ServedModel, Task, search_work

ENDPOINTS = Endpoints()


@ENDPOINTS.at("/v1/translate", answers.TranslateAnswer, requests.TranslateBody)
async def translate(call: Call[requests.TranslateBody]) -> dict[str, Any]:
    """Predict the targets of sources: n best, scores, tokens; attention weights and word links if asked for."""
    given = call.body.options(call.settings, call.served.model.config.search)
    options = call.served.model.search_options(**given)
    lines = await asyncio.to_thread(call.body.lines)  # a glossary takes time
    results = await call.translate(call.served, lines, options, call.body.weights)
    if call.body.align:
        translations = [(each, found["source"]) for found in results for each in found["translations"]]
        pairs = [(source, each["text"]) for each, source in translations]
        lengths = [len(source) + len(text) for source, text in pairs]
        found = await call.run_on(Task(tasks.align, call.served, AlignOptions()), pairs, lengths)
        for (each, _), links in zip(translations, found, strict=True):
            each["links"] = links.links
    return {"results": results}


@ENDPOINTS.at("/v1/score", answers.ScoreAnswer, requests.PairsBody)
async def score(call: Call[requests.PairsBody]) -> dict[str, Any]:
    """Log-probabilities of given targets, in total and of each token."""
    return await _of_pairs(call, Task(Model.score, call.served))


@ENDPOINTS.at("/v1/align", answers.AlignAnswer, requests.AlignBody)
async def align(call: Call[requests.AlignBody]) -> dict[str, Any]:
    """Links between the words of sources and given targets, as [source word, target word], counted from 0."""
    return await _of_pairs(call, Task(tasks.align, call.served, call.body.options))


async def _of_pairs(call: Call[Any], task: Task) -> dict[str, Any]:
    pairs = call.body.pairs()
    lengths = await call.pair_lengths(pairs)
    return {"results": await call.run(task, pairs, lengths, sum(lengths))}


@ENDPOINTS.at("/v1/attention", answers.AttentionAnswer, requests.AttentionBody)
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
            (best,) = model.translate([body.source], say=lambda _: None)
            if best.candidates and not best.text:
                return _without_rows(model, body, best.tokens)
            target = best.text
        found = model.attention(body.source, target, words=body.words)
        record = {"source": found.source, "target": found.target, "weights": found.weights}
        if not body.heads:
            return record
        maps = model.attention_maps(body.source, target)
        layers = {name: each.layers if each else () for name, each in maps._asdict().items()}
        return layers | {"source_tokens": maps.cross.source, "target_tokens": maps.cross.target} | record

    return dict(await call.answer(answer, length, work))


def _without_rows(model: Model, body: requests.AttentionBody, tokens: Sequence[str]) -> dict[str, Any]:
    """The answer for a source, of these tokens, whose best translation is blank: no word was predicted."""
    read = model.trained.source.words(body.source) if body.words else tokens
    layers = dict.fromkeys(("encoder", "decoder", "cross"), ()) | {"source_tokens": tokens, "target_tokens": ()}
    return {"source": read, "target": (), "weights": ()} | (layers if body.heads else {})


@ENDPOINTS.at("/v1/neighbors", answers.NeighborsAnswer, requests.NeighborsBody)
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


@ENDPOINTS.at("/v1/vector", answers.VectorAnswer, requests.VectorBody)
async def vector(call: Call[requests.VectorBody]) -> dict[str, Any]:
    """The one vector C of a sentence, and how far it moves when a token is exchanged for another word."""
    (length,) = await call.source_lengths(call.served, [call.body.source])

    def answer(model: Model) -> dict[str, Any]:
        return sentence_vector(model.trained, call.body.source)._asdict()

    return dict(await call.answer(answer, length, (1 + WORDS * length) * (length + 1)))


@ENDPOINTS.at("/v1/steps", answers.StepsAnswer, requests.StepsBody)
async def steps(call: Call[Any]) -> dict[str, Any]:
    """Every step of decoding: weights by layer and head, scores, contributions to C, likely next tokens."""
    arguments, length, work = await _arguments(call)

    def answer(model: Model) -> dict[str, Any]:
        found = decoded(model.trained, call.body.source, decode_steps(model.trained, **arguments))
        return vars(found) | seen(model.trained, call.body.source)

    return dict(await call.answer(answer, length, work))


@ENDPOINTS.at("/v1/intervene", answers.StepsAnswer, requests.InterveneBody)
async def intervene(call: Call[requests.InterveneBody]) -> dict[str, Any]:
    """The same with interventions: weights of a step replaced, or its context; decoding goes on from there."""
    return await steps(call)


@ENDPOINTS.at("/v1/plane", answers.PlaneAnswer, requests.PlaneBody)
async def plane(call: Call[requests.PlaneBody]) -> dict[str, Any]:
    """What a head reads of each source token, in the plane of the two largest principal components."""
    body = call.body
    (length,) = await call.source_lengths(call.served, [body.source])

    def answer(model: Model) -> dict[str, Any]:
        return model.value_plane(body.source, layer=body.layer, head=body.head)._asdict()

    return dict(await call.answer(answer, length, length))


@ENDPOINTS.at("/v1/hypotheses", answers.HypothesesAnswer, requests.HypothesesBody)
async def hypotheses(call: Call[requests.HypothesesBody]) -> dict[str, Any]:
    """The n best outputs that begin with a prefix, with or without interventions."""
    arguments, length, work = await _arguments(call, n_best=None)

    def answer(model: Model) -> dict[str, Any]:
        return {"hypotheses": continuations(model.trained, **arguments)}

    return dict(await call.answer(answer, length, work))


@ENDPOINTS.at("/v1/stream", "text/event-stream", requests.StreamBody)
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
    given, own = body.options(call.settings, served.model.config.search), body.own_arguments()
    if own.get("target") is not None and given:
        raise ApiError(400, f"{', '.join(given)}: options of a search, but the target is given; leave them out")
    if n_best is not None and given.get("n_best", n_best) != n_best:
        raise ApiError(400, f"n_best = {given['n_best']}: the steps are of one output; /v1/hypotheses has several")
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
    about = await asyncio.to_thread(_about_source, served, call.body.source, step)
    yield _event("start", {"model": served.name} | about)
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


def _about_source(served: ServedModel, source: str | Sequence[str], step: DecodedStep | None) -> dict[str, Any]:
    """What is read of a source, given a step that reads it."""
    trained = served.model.trained
    states = None if step is None or step.weights is None else len(step.weights)
    labels = {"source": source_tokens(trained, source, states), "read_as": read_as(trained, source)}
    return labels | seen(trained, source)


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(plain(data), ensure_ascii=False, allow_nan=False)}\n\n"


@ENDPOINTS.at("/v1/models", answers.ModelsAnswer)
async def models(call: Call[requests.NoBody]) -> dict[str, Any]:
    """The models, the default one first."""
    return {"models": [each.about() for each in call.server.models.values()]}


@ENDPOINTS.at("/metrics", "text/plain")
async def metrics(call: Call[requests.NoBody]) -> Response:
    """Counters and histograms for Prometheus."""
    found = call.server.metrics
    found.waiting.set(len(call.server.batches.waiting))
    return Response(generate_latest(found.registry), media_type="text/plain; version=0.0.4; charset=utf-8")
