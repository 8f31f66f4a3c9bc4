"""Connections: how many there may be, and how long one may be silent.

Every connection takes a descriptor of the process, which also needs some for files. So their number is limited, and
where the limit is reached, the connection that has been silent for longest makes way for the new one.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)  # why accepting a connection may fail
SPARE_DESCRIPTORS = 32  # for files, and for connections that are being refused
SILENT_SECONDS = 1.0  # after which a connection makes way for a new one
REFUSED_SECONDS = 1.0  # in which a refused client is to read why


def max_connections() -> int | None:
    """How many connections leave some descriptors to the process; None: as many as there are."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return None
    used = SPARE_DESCRIPTORS
    with suppress(OSError):  # no such folder on this system
        used += len(os.listdir("/dev/fd"))
    return max(1, limit - used)


class ServerConfig(uvicorn.Config):
    """The configuration of uvicorn with these connections; `patience` is in seconds."""

    def __init__(self, app: ASGIApp, *, max_connections: int | None, patience: int = 30, **options: Any) -> None:
        super().__init__(app, http=Connection, timeout_keep_alive=patience, **options)
        self.max_connections = max_connections


class Connection(H11Protocol):
    """A connection that is closed when its client does not go on.

    In `patience` seconds, a client is to send the head of a request, and to take a part of an answer that waits for it.
    """

    config: ServerConfig

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()  # when it was made, or the last answer was complete
        self.is_refused = False
        self.timer = self.loop.call_later(self.timeout_keep_alive, self._check_head)
        limit = self.config.max_connections
        if limit is not None and len(self.connections) > limit and not self._displace():
            self._refuse(503, "too many connections; try again in a moment")

    def _displace(self) -> bool:
        """Closes the connection that has been silent for longest, and returns whether there was one."""
        before = self.loop.time() - SILENT_SECONDS
        others = [each for each in self.connections if isinstance(each, Connection)]
        silent = [each for each in others if each.is_silent and each.since < before]
        if not silent:
            return False
        min(silent, key=lambda each: each.since).transport.abort()
        return True

    @property
    def is_silent(self) -> bool:
        """Whether no whole head of a request has arrived, and no answer waits to be taken."""
        return self.conn.their_state is h11.IDLE and not self.transport.get_write_buffer_size()

    def data_received(self, data: bytes) -> None:
        if self.is_refused:
            self.transport.abort()  # the data are read: unread ones would reset the connection before the answer
            return
        if self.timeout_keep_alive_task is not None:  # the first bytes after an answer
            self._restart(self._check_head)
        super().data_received(data)

    def _restart(self, check: Callable[..., object], *arguments: int) -> None:
        self.timer.cancel()
        self.timer = self.loop.call_later(self.timeout_keep_alive, check, *arguments)

    def _check_head(self) -> None:
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._refuse(408, f"no request within {self.timeout_keep_alive} seconds")

    def _check_progress(self, before: int) -> None:
        waiting = self.transport.get_write_buffer_size()
        if waiting >= before:
            self.transport.abort()
        else:
            self._restart(self._check_progress, waiting)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._restart(self._check_progress, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self.timer.cancel()

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        if waiting := self.transport.get_write_buffer_size():
            self._restart(self._check_progress, waiting)
        else:
            super().timeout_keep_alive_handler()

    def connection_lost(self, exc: Exception | None) -> None:
        self.timer.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Ends a connection whose bytes are not a request; uvicorn would answer although an answer has begun."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(400, "this is not a request of HTTP/1.1")
        else:
            self.transport.abort()

    def _refuse(self, status: int, message: str) -> None:
        """An answer to what has not been asked yet, and the end of the connection."""
        body = json.dumps({"error": message}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        if status == 503:
            headers.append(("retry-after", "1"))
        for event in (
            h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.is_refused = True
        self.timer.cancel()
        self.timer = self.loop.call_later(REFUSED_SECONDS, self.transport.abort)
