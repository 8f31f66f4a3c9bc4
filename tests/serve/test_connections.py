"""Connections that say nothing, take nothing, or are too many: others are still answered, and the log stays short."""

import json
import resource
import signal
import socket
import time
from contextlib import ExitStack

import httpx
import pytest

from seq2seq_attn.serve import Settings
from seq2seq_attn.serve.app import create_app


@pytest.fixture
def connect():
    """Connects to an address; all connections are closed at the end."""
    with ExitStack() as opened:

        def connected(address):
            place = ("127.0.0.1", int(address.rpartition(":")[2]))
            return opened.enter_context(socket.create_connection(place, timeout=20))

        yield connected


def error_of(connection):
    """The status and the error that the server sends before it closes a connection."""
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


@pytest.mark.slow
def test_where_no_descriptor_is_left_one_line_says_so_and_requests_are_answered(start, connect):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    process, address = start(preexec_fn=few)
    silent = [connect(address) for _ in range(200)]
    statuses = []
    while statuses.count(200) < 3:  # 503 in the first second
        statuses.append(httpx.get(f"{address}/health", timeout=20).status_code)
        assert statuses[-1] in (200, 503)
        assert len(statuses) < 100
        time.sleep(0.1)
    for each in silent:
        each.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    log = process.stderr.read()
    assert log.count("\n") == 1
    assert "Too many open files: new connections wait" in log


def test_a_connection_that_is_silent_makes_way_for_a_new_one_and_a_busy_one_does_not(served, listening, connect):
    with listening(create_app([served], Settings()), max_connections=2) as address:
        silent, slow = connect(address), connect(address)
        slow.sendall(b"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{")
        time.sleep(1.2)  # silent for more than a second
        assert httpx.get(f"{address}/health").status_code == 200
        assert silent.recv(1) == b""
        full = [connect(address) for _ in range(2)]
        assert error_of(full[1]) == (503, "too many connections; try again in a moment")
        slow.setblocking(False)
        with pytest.raises(BlockingIOError):  # it is still open
            slow.recv(1)
        slow.close()


def test_a_client_that_does_not_send_the_head_of_a_request_in_time_gets_408(served, listening, connect):
    with listening(create_app([served], Settings()), patience=1) as address:
        nothing, half, second = connect(address), connect(address), connect(address)
        half.sendall(b"GET /health HTTP/1.1\r\nhost:")
        second.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"200 OK" in second.recv(1 << 16)
        second.sendall(b"GET ")
        for each in (nothing, half, second):
            assert error_of(each) == (408, "no request within 1 seconds")


def test_a_client_that_does_not_take_its_answers_is_cut(served, listening, connect):
    application = create_app([served], Settings())
    with listening(application, patience=1) as address:
        lazy = connect(address)
        lazy.settimeout(1)
        with pytest.raises((TimeoutError, ConnectionError)):
            # The answers fill every buffer, and then the requests do.
            lazy.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 400_000)
        for _ in range(400):
            if application.guard.running == 0:
                break
            time.sleep(0.025)
        assert application.guard.running == 0
        assert httpx.get(f"{address}/health").status_code == 200


def test_head_has_the_head_of_get_alone(live):
    with live() as address, httpx.Client(base_url=address) as client:
        for path in ("/health", "/", "/v1/models"):
            get, head = client.get(path), client.head(path)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-length"] == get.headers["content-length"]
        assert client.head("/nothing").status_code == 404


CHUNKED = b"POST /translate HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 TLS\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"a" * 200_000 + b"\r\n\r\n",
        CHUNKED + b"1\r\n{\r\nno size\r\n",
    ],
    ids=["not HTTP", "a huge header", "a broken chunk"],
)
def test_what_is_not_a_request_is_400_and_not_worth_a_line_in_the_log(served, listening, connect, caplog, data):
    application = create_app([served], Settings())
    with listening(application) as address:
        connection = connect(address)
        connection.sendall(data)
        assert error_of(connection) == (400, "this is not a request of HTTP/1.1")
        assert httpx.get(f"{address}/health").status_code == 200
    assert application.guard.running == 0
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_bytes_that_are_not_a_request_after_an_answer_has_begun_end_the_connection(served, listening, connect, caplog):
    with listening(create_app([served], Settings(api_keys=frozenset({"secret"})))) as address:
        connection = connect(address)
        # Refused before its body is read.
        connection.sendall(CHUNKED.replace(b"\r\nhost", b"\r\nauthorization: Bearer no\r\nhost"))
        answer = b""
        while b"}" not in answer:
            answer += connection.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 401")
        connection.sendall(b"no size\r\n")
        assert connection.recv(1 << 16) == b""
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
