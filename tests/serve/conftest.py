"""A model that writes the letters of short words backwards, and servers of it: in this process, and at a port."""

import asyncio
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import product
from pathlib import Path

import httpx
import pytest
import uvicorn
from plain_recipe import NO_DROPOUT, constant
from pydantic import TypeAdapter

import seq2seq_attn as s2s
from seq2seq_attn.serve import Settings, endpoints, libretranslate
from seq2seq_attn.serve.app import create_app
from seq2seq_attn.serve.connections import ServerConfig
from seq2seq_attn.serve.tasks import ServedModel

ROOT = Path(__file__).parents[2]
ANSWERS = {
    each.path: TypeAdapter(each.answers)
    for each in (*libretranslate.ENDPOINTS, *endpoints.ENDPOINTS)
    if not isinstance(each.answers, str)
}


@pytest.fixture(scope="module", autouse=True)
def certificates_are_read_once():
    """Of which httpx reads all for every client, 30 ms each; no server here has one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """The run folder; tests only read it."""
    folder = tmp_path_factory.mktemp("served")
    words = [letters for length in (1, 2, 3) for letters in product("abc", repeat=length)]
    for name, lines in (("source", words), ("target", [letters[::-1] for letters in words])):
        (folder / name).write_text("".join(f"{' '.join(line)}\n" for line in lines))
    pairs = {"source": str(folder / "source"), "target": str(folder / "target")}
    values = {
        "data": {"train": pairs, "validation": pairs, "max_length": 20},
        "text": {"tokenizer": "word", "source_language": "en", "target_language": "zh"},
        "model": {
            "embedding_size": 12,
            "encoder": {"hidden_size": 16},
            "decoder": {"kind": "luong", "hidden_size": 24},
            "dropout": NO_DROPOUT,
        },
        "training": {
            **constant(0.03),
            "batch_size": 13,
            "max_epochs": 25,
            "validate_every": 25,
            "patience": None,
            "monitor": "loss",
            "accelerator": "cpu",
        },
    }
    s2s.train(values, folder / "backwards", scorer="general", silent=True)
    return folder / "backwards"


@pytest.fixture(scope="session")
def model(run):
    return s2s.load(run)


@pytest.fixture(scope="session")
def served(model):
    return ServedModel.load("backwards", model, ("en", "zh"), print)


@pytest.fixture(scope="session")
def demo():
    """The first model of the package, which knows the words of its corpus."""
    return ServedModel.load("demo", s2s.load("demo"), ("en", "zh"), print)


@pytest.fixture(scope="session")
def send():
    """Sends one request to an application in this process, made once for these models and settings."""
    loop = asyncio.new_event_loop()  # the guard of an application belongs to one loop
    applications = {}

    def sent(models, settings, base, method, path, **request):
        if (models, settings) not in applications:
            applications[models, settings] = create_app(models, settings)
        application = applications[models, settings]

        async def exchange():
            transport = httpx.ASGITransport(application.asgi, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                return await client.request(method, path, **request)

        return loop.run_until_complete(exchange())

    yield sent
    loop.close()
    for application in applications.values():
        application.server.batches.close()


@pytest.fixture
def ask(served, send):
    """`ask("POST", "/translate", json={...})`."""

    def asked(method, path, *, settings=None, base="http://127.0.0.1", models=(served,), **request):
        answer = send(tuple(models), settings or Settings(), base, method, path, **request)
        kind = ANSWERS.get(path) if answer.status_code == 200 and method in ("GET", "POST") else None
        if kind is not None:
            kind.validate_json(answer.text)  # what /openapi.json says of it is true; unknown fields are errors
        return answer

    return asked


@pytest.fixture
def post(ask):
    """The JSON of a successful POST."""

    def posted(path, values, **rest):
        answer = ask("POST", path, json=values, **rest)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return posted


@pytest.fixture
def refused(ask):
    """The error of a refused request, whose status must be this one: JSON with one line."""

    def refusal(status, method, path, **request):
        answer = ask(method, path, **request)
        assert answer.status_code == status, answer.text
        (error,) = answer.json().values()
        assert "\n" not in error
        assert len(error) < 500
        return error

    return refusal


@contextmanager
def _listening(application, *, max_connections=None, **options):
    """The application at a port of this machine, in a thread; yields its address."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        place.listen()  # clients may connect before the thread runs
        config = ServerConfig(
            application.asgi, max_connections=max_connections, lifespan="off", log_level="error", **options
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            application.server.batches.close()


@pytest.fixture(scope="session")
def listening():
    """An application at a port: `with listening(application) as address`."""
    return _listening


@pytest.fixture
def start(run):
    """Starts the command with these options in a process of its own: (process, address)."""
    with ExitStack() as processes:

        def started(*options, path=ROOT, **rest):
            command = [sys.executable, "-m", "seq2seq_attn", "serve", str(run), "--port", "0", "--languages", "en-de"]
            environment = os.environ | {"PYTHONPATH": str(path)}
            process = processes.enter_context(
                subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, env=environment, **rest)
            )
            processes.callback(process.kill)
            return process, re.search(r"http://[\d.:]+", process.stderr.readline())[0]

        yield started


@pytest.fixture
def live(served):
    """Starts the server at a port: `with live() as address`, with any settings."""
    return lambda **settings: _listening(create_app([served], Settings(**settings)))


@pytest.fixture(scope="module")
def address(served, listening):
    with listening(create_app([served], Settings())) as address:
        yield address


@pytest.fixture
def visit(browser, address):
    """Opens the page at a fragment: nothing but its server can be reached, and its console stays empty."""
    contexts, problems = [], []

    def open_page(fragment="", at=address, **options):
        context = browser.new_context(**options)
        contexts.append(context)

        def only_the_server(route):
            if route.request.url.startswith((at, "data:", "blob:")):
                route.continue_()
            else:
                problems.append(route.request.url)
                route.abort()

        context.route("**/*", only_the_server)
        page = context.new_page()
        page.set_default_timeout(8000)
        page.on("console", lambda message: problems.append(message.text))
        page.on("response", lambda answer: answer.ok or problems.append(answer.text()))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{at}/#{fragment}")
        return page

    open_page.problems = problems
    yield open_page
    for context in contexts:
        context.close()
    assert problems == []
