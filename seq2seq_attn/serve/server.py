"""The process: loads the models, listens, and stops within seconds of a signal."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
from collections.abc import Sequence
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import uvicorn

from seq2seq_attn.api.model import Model
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs import Say
from seq2seq_attn.serve import Settings
from seq2seq_attn.serve.app import Application, create_app
from seq2seq_attn.serve.connections import NO_DESCRIPTOR, ServerConfig, max_connections
from seq2seq_attn.serve.tasks import ServedModel

ANSWER_SECONDS = 0.5  # in which what is ended sends its last words
STEP_SECONDS = 5.0  # in which a batch reaches its next step
REPORT_SECONDS = 60.0  # between two messages that no descriptor is left
BACKLOG = 2048  # connections that wait to be accepted


def load_models(runs: Sequence[Path], languages: Sequence[str], say: Say) -> list[ServedModel]:
    """The models of run folders under the shortest names that tell them apart.

    `languages` are pairs such as en-zh, one per run; those missing are in the configurations. UserError: a pair is
    malformed, there are more pairs than runs, or a run cannot be loaded.
    """
    if len(languages) > len(runs):
        raise UserError(
            f"{len(languages)} pairs of languages for {len(runs)} runs; give one for each run, in their order"
        )
    served = []
    for number, (run, name) in enumerate(zip(runs, _names(runs), strict=True)):
        model = Model.load(run)
        text = model.config.text
        pair = (text.source_language, text.target_language)
        if number < len(languages):
            source, dash, target = languages[number].partition("-")
            if not (source and dash and target) or "-" in target:
                raise UserError(f"languages {languages[number]!r}: give codes as in en-zh, with one hyphen")
            pair = (source, target)
        served.append(ServedModel.load(name, model, pair, say))
    return served


def _names(runs: Sequence[Path]) -> list[str]:
    """The last parts of the folders' paths, as many as they need to differ. UserError: a run is given twice.

    A run of a comparison, EXPERIMENT/runs/ARM/seed-N, is called by its arm, with its seed only if seeds differ.
    """
    runs_parts = [[part for part in run.resolve().parts if part != "runs"] for run in runs]
    arms = [parts[:-1] if re.fullmatch(r"seed-\d+", parts[-1]) else parts for parts in runs_parts]
    for named, fewest in ((arms, 1), (runs_parts, 2)):
        for count in range(fewest, max(map(len, named)) + 1):
            names = ["/".join(each[-count:]) for each in named]
            if len(set(names)) == len(names):
                return names
    raise UserError("a run is given twice")


def serve(models: Sequence[ServedModel], settings: Settings, say: Say) -> None:
    """Serve until SIGINT or SIGTERM. For a process of its own: sets torch's number of threads.

    UserError: the address cannot be listened on.
    """
    # Small products gain nothing from several threads; several batches at once do.
    torch.set_num_threads(max(1, torch.get_num_threads() // settings.workers))
    application = create_app(models, settings)
    listening = listen(settings)
    config = ServerConfig(
        application.asgi, max_connections=max_connections(), log_level="error", lifespan="off", backlog=1,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    host, port = f"[{settings.host}]" if ":" in settings.host else settings.host, listening.getsockname()[1]
    say(f"Serving {', '.join(each.name for each in models)} at http://{host}:{port}/ (Ctrl-C stops)")
    GracefulServer(config, application, say).run(sockets=[listening])
    application.server.batches.close()


class GracefulServer(uvicorn.Server):
    """A server that at a signal refuses what is new with 503, and then ends what is running.

    Running requests have `Settings.grace` seconds, none after a second signal; then batches end at their next step,
    and who waits for them gets 503, too.
    """

    def __init__(self, config: ServerConfig, application: Application, say: Say) -> None:
        super().__init__(config)
        self.application = application
        self.say = say
        self.reported = -inf  # when the log was told that no descriptor is left
        self.draining: asyncio.Task[None] | None = None
        self.is_hurried = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to accept connections."""
        asyncio.get_running_loop().set_exception_handler(self._report)
        await super().startup(sockets)
        # `config.backlog` is also how often asyncio tries again at once to accept a connection, and reports the same
        # error, where the process has no descriptor left. So it is 1 there, and the queue of the system is set here.
        for each in sockets or ():
            each.listen(BACKLOG)

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in NO_DESCRIPTOR):
            loop.default_exception_handler(context)
        elif loop.time() > self.reported + REPORT_SECONDS:
            self.reported = loop.time()
            self.say(f"{error.strerror}: new connections wait, and are tried again every second; raise ulimit -n")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by the signal."""
        guard = self.application.guard
        self.is_hurried = guard.stopping
        if self.draining is not None:
            return
        guard.stopping = True
        for each in self.application.server.models.values():
            each.stopping.set()
        # Whatever a thread does, the process ends: a step may be slow, and native code cannot be interrupted.
        last = threading.Timer(guard.settings.grace + STEP_SECONDS, os._exit, (0,))
        last.daemon = True
        last.start()
        self.draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        await self._until_idle(self.application.guard.settings.grace)
        self.application.server.batches.stop()
        self.is_hurried = False
        await self._until_idle(ANSWER_SECONDS)
        self.application.guard.ended.set()
        await self._until_idle(ANSWER_SECONDS)
        self.should_exit = True

    async def _until_idle(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.application.guard.running and not self.is_hurried and loop.time() < deadline:
            await asyncio.sleep(0.02)


def listen(settings: Settings) -> socket.socket:
    """A socket that listens at the address. UserError: it cannot, as for a port that is taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        place = f"{settings.host}:{settings.port}"
        raise UserError(f"{place} cannot be listened on: {error.strerror}; choose another --port or --host") from None
    # The accepted sockets inherit it. asyncio sets it only for sockets that name their protocol, and without it the
    # body of an answer waits until the client has acknowledged the header, for 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
