"""What holds for every request, whatever its endpoint: limits of number, work and time, clients that leave, the end."""

from __future__ import annotations

import asyncio
import hmac
import time
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2seq_attn.serve import LOCAL, SMALL_WORK, Settings
from seq2seq_attn.serve.requests import ApiError

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
LINES = (1, 2, 4, 8, 16, 32, 64)
STOPPING = "the server is stopping; try again in a moment"

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src data:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def stopping() -> ApiError:
    """The answer to what is not begun, or does not end, because the server stops."""
    return ApiError(503, STOPPING, Retry_After="5", Connection="close")


class Metrics:
    """What `/metrics` reports, in a registry of this server's own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        prefix, own = "seq2seq_attn_", self.registry
        by_status, by_endpoint = ("endpoint", "status"), ("endpoint",)
        self.requests = Counter(f"{prefix}requests", "Answers by endpoint and status", by_status, registry=own)
        self.seconds = Histogram(
            f"{prefix}request_seconds", "Time to the end of an answer", by_endpoint, registry=own, buckets=SECONDS
        )
        self.lines = Counter(f"{prefix}lines", "Lines that were decoded", registry=own)
        self.batches = Histogram(f"{prefix}batch_lines", "Lines decoded together", registry=own, buckets=LINES)
        self.running = Gauge(f"{prefix}requests_running", "Requests that are being answered", registry=own)
        self.waiting = Gauge(f"{prefix}lines_waiting", "Lines that wait for a worker", registry=own)

    def batch(self, lines: int) -> None:
        """Counts a batch."""
        self.lines.inc(lines)
        self.batches.observe(lines)


class Guard:
    """ASGI middleware around all endpoints; JSON errors with 408, 429, 503 and 504 come from here."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self.app = app
        self.settings = settings
        self.metrics = metrics
        self.running = 0
        self.large: set[Exchange] = set()  # whose work is above SMALL_WORK
        self.stopping = False
        self.ended = asyncio.Event()  # what still runs is not answered any more

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = Exchange(self, scope, receive, send)
        started = time.perf_counter()
        self.running += 1
        self.metrics.running.set(self.running)
        try:
            refusal = self._refusal(scope)
            if refusal is None:
                await self._answer(exchange)
            else:
                await exchange.refuse(refusal)
        finally:
            self.running -= 1
            self.large.discard(exchange)
            self.metrics.running.set(self.running)
            endpoint = getattr(exchange.scope.get("route"), "path", "other")
            self.metrics.requests.labels(endpoint, str(exchange.status)).inc()
            self.metrics.seconds.labels(endpoint).observe(time.perf_counter() - started)

    def _refusal(self, scope: Scope) -> ApiError | None:
        """Why a request is not answered at all."""
        if self.stopping:
            return stopping()
        if self.running > self.settings.max_requests:
            return ApiError(429, "too many requests at once; try again in a moment", Retry_After="1")
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        name = (host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host).lower()
        # A page elsewhere whose name resolves to this machine would otherwise reach a server that needs no key.
        if self.settings.is_local and not self.settings.api_keys and name.strip("[]") not in LOCAL:
            return ApiError(400, f"host {name!r}: this server answers to {LOCAL[0]} and {LOCAL[1]} alone")
        return None

    async def _answer(self, exchange: Exchange) -> None:
        """The answer of the endpoint, unless it takes too long, the client goes away or the server ends."""
        work = asyncio.ensure_future(self.app(exchange.scope, exchange.receive, exchange.send))
        gone = asyncio.create_task(exchange.disconnected())
        ended = asyncio.create_task(self.ended.wait())
        every = {work, gone, ended}
        try:
            await asyncio.wait(every, timeout=self.settings.timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_left = not work.done() and not gone.done()
            for task in every:
                task.cancel()
            for task in every:
                with suppress(asyncio.CancelledError):
                    await task
        if not is_left or exchange.status != 0:
            return
        if self.ended.is_set():
            await exchange.refuse(stopping())
        else:
            seconds = f"{self.settings.timeout:g} seconds"
            if exchange.has_body.is_set():
                await exchange.refuse(ApiError(504, f"no answer within {seconds}; send fewer or shorter lines at once"))
            else:
                await exchange.refuse(ApiError(408, f"the body did not arrive within {seconds}", Connection="close"))


class Exchange:
    """One request and its answer."""

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self.guard = guard
        # The answer to HEAD is that to GET; uvicorn, which has the original scope, sends its head alone.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        self.scope = {**scope, "method": method, "exchange": self}
        self.status = 0  # none was sent
        self.work = 0  # hypotheses x tokens, if large
        self.has_body = asyncio.Event()  # whether the body has arrived
        self._receive = receive
        self._send = send

    @classmethod
    def of(cls, request: Request) -> Exchange:
        """The exchange of a request that has passed the guard."""
        found: Exchange = request.scope["exchange"]
        return found

    @property
    def is_large(self) -> bool:
        """Whether smaller requests go first."""
        return self in self.guard.large

    def admit(self, work: int) -> bool:
        """Takes on hypotheses x tokens until the answer has been sent, and returns whether that is large.

        ApiError: it is more than a request may ask for, or more than all large requests together may.
        """
        settings, unit = self.guard.settings, "hypotheses x tokens"
        if work > settings.max_work:
            limit = f"this server searches at most {settings.max_work:,} for one request"
            way = "send fewer or shorter lines at once, or ask for fewer hypotheses, tokens or weights"
            raise ApiError(413, f"{work:,} {unit}: {limit}; {way}")
        if work <= SMALL_WORK:
            return False
        self.work, taken = work, sum(each.work for each in self.guard.large)
        if taken and taken + work > settings.max_total_work:
            limit = f"this server searches at most {settings.max_total_work:,} for all large requests together"
            raise ApiError(429, f"{work:,} {unit} more: {limit}; try again in a moment", Retry_After="5")
        self.guard.large.add(self)
        return True

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            self.has_body.set()
        return message

    async def disconnected(self) -> None:
        """Returns when the client goes away, which shows only after the body that the endpoint reads."""
        await self.has_body.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = {name for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in own]
            message = {**message, "headers": [*message["headers"], *more]}
        await self._send(message)

    async def refuse(self, error: ApiError) -> None:
        await error_response(error.status, str(error), error.headers)(self.scope, self._receive, self.send)


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """{"error": message} on one line, long values cut in their middle."""
    line = " ".join(message.split()).encode("utf-8", "replace").decode()
    shown = line if len(line) <= 400 else f"{line[:250]} ... {line[-130:]}"
    return JSONResponse({"error": shown}, status, headers)


def bearer_key(request: Request) -> str | None:
    """The key in a header `Authorization: Bearer KEY`; None without one. Other schemes are those of a proxy."""
    headers = (value.partition(" ") for value in request.headers.getlist("authorization"))
    return next((key.strip() for scheme, _, key in headers if scheme.lower() == "bearer"), None)


def check_key(request: Request, given: str | None, settings: Settings) -> None:
    """ApiError unless the request has one of the keys: in its header or, without one there, in its body or query."""
    if not settings.api_keys:
        return
    key = bearer_key(request)
    found = given or request.query_params.get("api_key", "") if key is None else key
    # All keys are compared, in constant time: how long this takes tells nothing about them.
    matches = [hmac.compare_digest(found.encode("utf-8", "replace"), known.encode()) for known in settings.api_keys]
    if not any(matches):
        way = "send one as the field api_key, or in the header Authorization: Bearer KEY"
        problem = "this API key is not known" if found else "this server asks for an API key"
        raise ApiError(401, f"{problem}; {way}", WWW_Authenticate="Bearer")
