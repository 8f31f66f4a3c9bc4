"""The application: all endpoints and pages behind one guard, and how an error becomes an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import FastAPI, Request, Security
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.security import APIKeyQuery, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

import seq2seq_attn
from seq2seq_attn import report
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.plain import plain
from seq2seq_attn.serve import Settings, answers, endpoints, libretranslate, requests
from seq2seq_attn.serve.batches import QueueFullError, StoppingError
from seq2seq_attn.serve.calls import Call, Endpoint, Server
from seq2seq_attn.serve.guard import Exchange, Guard, bearer_key, check_key, error_response, stopping
from seq2seq_attn.serve.pages import body, docs_page, responses
from seq2seq_attn.serve.requests import ApiError
from seq2seq_attn.serve.tasks import ServedModel

PAGE = Path(__file__).parent / "page"  # built from frontend/
DOCS_STYLE = Path(__file__).parent / "docs.css"
FONTS = Path(report.__file__).parent / "fonts"  # Chinese characters, for systems without


class Application(NamedTuple):
    """What a process serves."""

    asgi: ASGIApp
    guard: Guard
    server: Server


def create_app(models: Sequence[ServedModel], settings: Settings) -> Application:
    """The endpoints for these models, behind their guard."""
    server = Server(models, settings)
    app = FastAPI(title="seq2seq_attn", version=seq2seq_attn.__version__, docs_url=None, redoc_url=None)
    for each in (*libretranslate.ENDPOINTS, *endpoints.ENDPOINTS):
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
        if endpoint.needs_key and bearer_key(request) is not None:
            check_key(request, None, server.settings)  # before a body is read
        read = await requests.read(request, endpoint.record, server.settings)
        if endpoint.needs_key:
            check_key(request, read.api_key, server.settings)
        served = server.model(getattr(read, "model", None))
        found = await endpoint.answer(Call(server, Exchange.of(request), read, served))
        if isinstance(found, Response):
            return found
        if isinstance(read, requests.ModelBody):
            found = {"model": served.name, **found}
        return await asyncio.to_thread(lambda: JSONResponse(plain(found)))  # weights of a long sentence: megabytes

    function = endpoint.answer
    meaning = function.__doc__ or ""
    keys = (HTTPBearer(auto_error=False), APIKeyQuery(name="api_key", auto_error=False))  # for the description alone
    app.add_api_route(
        endpoint.path,
        answer,
        methods=[endpoint.method],
        name=function.__name__,
        description=meaning,
        openapi_extra=None if endpoint.record is requests.NoBody else body(endpoint.record),
        responses=responses(endpoint.answers, meaning),
        response_class=Response if isinstance(endpoint.answers, str) else JSONResponse,
        dependencies=[Security(each) for each in keys] if endpoint.needs_key and server.settings.api_keys else None,
    )


async def _error(_: Request, error: Exception) -> Response:
    if isinstance(error, StoppingError):
        error = stopping()
    if isinstance(error, ApiError):
        return error_response(error.status, str(error), error.headers)
    if isinstance(error, QueueFullError):
        return error_response(429, "too many lines wait; try again in a moment", {"Retry-After": "1"})
    if isinstance(error, ClientDisconnect):
        return error_response(400, "the body ended before its end")  # for the metrics: nobody reads it
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
        if error.status_code == 405 and headers.get("Allow", "GET") == "GET":  # files have none in older starlettes
            headers["Allow"] = "GET, HEAD"  # see Exchange
        return error_response(error.status_code, f"{error.detail}; /docs lists the endpoints", headers)
    if isinstance(error, UserError):
        return error_response(400, str(error))
    return error_response(500, "an error of the server, not of the request; its log has the details")


def _add_pages(app: FastAPI) -> None:
    """What needs no key."""

    @app.get("/health", responses=responses(answers.HealthAnswer, "The server answers."))
    async def health() -> Any:
        """Whether the server answers; needs no key."""
        return JSONResponse({"status": "ok"})

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Any:
        return HTMLResponse(docs_page(app.openapi()))

    @app.get("/docs.css", include_in_schema=False)
    async def docs_style() -> Any:
        return FileResponse(DOCS_STYLE)

    @app.get("/", include_in_schema=False)
    async def page() -> Any:
        return FileResponse(PAGE / "index.html")

    app.mount("/assets", StaticFiles(directory=PAGE / "assets"))
    app.mount("/fonts", StaticFiles(directory=FONTS))
