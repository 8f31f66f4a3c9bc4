"""A server at a port of this machine: a real client, clients that leave or are slow, load, and how it stops."""

import asyncio
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import yaml

import seq2seq_attn as s2s
from seq2seq_attn.api.model import Model
from seq2seq_attn.cli import main
from seq2seq_attn.errors import UserError
from seq2seq_attn.serve import Settings, tasks
from seq2seq_attn.serve.app import create_app
from seq2seq_attn.serve.batches import _Batch
from seq2seq_attn.serve.server import _names, listen
from seq2seq_attn.serve.tasks import ServedModel

ROOT = Path(__file__).parents[2]


def test_head_is_answered_as_get_without_its_body(live):
    with live() as address, httpx.Client(base_url=address) as client:
        for path in ("/", "/health", "/languages", "/docs", "/assets/index.css"):
            head, got = client.head(path), client.get(path)
            assert head.status_code == got.status_code == 200
            assert head.headers["content-length"] == got.headers["content-length"]
            assert not head.content


def test_a_stream_arrives_while_it_is_decoded(live, served, monkeypatch):
    """The first step arrives although the second cannot be computed before it has been read."""
    may_go = threading.Event()
    decode = tasks.decode_steps

    def waiting(*arguments, **options):
        for number, step in enumerate(decode(*arguments, **options)):
            assert number < 2 or may_go.wait(10)  # the first is computed before the answer begins
            yield step

    monkeypatch.setattr(tasks, "decode_steps", waiting)
    with (
        live() as address,
        httpx.stream("POST", f"{address}/v1/stream", json={"source": "a b c"}, timeout=20) as answer,
    ):
        lines = answer.iter_lines()
        names = []
        for line in lines:
            if line.startswith("event: "):
                names.append(line.removeprefix("event: "))
            if names[-1:] == ["step"]:
                may_go.set()
        assert names[0] == "start"
        assert names[-1] == "end"
        assert len(names) >= 5


@pytest.fixture
def endless(monkeypatch):
    """Streams repeat their first step for ever; the list has an entry for each that was sent."""
    taken, decode = [], tasks.decode_steps

    def repeated(*arguments, **options):
        first = next(decode(*arguments, **options))
        while True:
            taken.append(first)
            time.sleep(0.01)
            yield first

    monkeypatch.setattr(tasks, "decode_steps", repeated)
    return taken


def test_a_stream_stops_when_its_client_leaves(served, listening, endless):
    application = create_app([served], Settings())
    with listening(application) as address:
        with httpx.stream("POST", f"{address}/v1/stream", json={"source": "a b c"}) as answer:
            next(answer.iter_lines())
        eventually(lambda: not application.guard.running and not application.server.batches.running)
        taken = len(endless)
        assert httpx.get(f"{address}/health").status_code == 200
        assert len(endless) == taken


def test_a_stream_that_takes_too_long_is_cut(live, endless):
    with live(timeout=0.5) as address, pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
        httpx.post(f"{address}/v1/stream", json={"source": "a b c"})


@pytest.fixture
def blocked(monkeypatch):
    """Scores wait until this event is set."""
    may_go = threading.Event()
    scores = Model.score

    def waiting(*given):
        may_go.wait(20)
        return scores(*given)

    monkeypatch.setattr(Model, "score", waiting)
    yield may_go
    may_go.set()


PAIR = {"source": "a", "target": "a"}


def test_lines_of_a_client_that_leaves_are_dropped_and_a_full_queue_is_429(served, blocked, listening):
    application = create_app([served], Settings(workers=1, max_waiting=3))
    waiting = application.server.batches
    with listening(application) as address:
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as first:
            body = json.dumps(PAIR | {"source": ["a"] * 4, "target": ["b"] * 4}).encode()
            head = f"POST /v1/score HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
            first.sendall(head.encode() + body)
            eventually(lambda: application.guard.running == 1)
            with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as second:
                second.sendall(head.encode() + body)
                eventually(lambda: len(waiting.waiting) == 4)
                answer = httpx.post(f"{address}/v1/score", json=PAIR)
                assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
                assert "too many lines wait" in answer.json()["error"]
            eventually(lambda: not waiting.waiting)  # the second has left
        blocked.set()
        eventually(lambda: application.guard.running == 0)
        assert httpx.post(f"{address}/v1/score", json=PAIR).status_code == 200


def eventually(condition):
    for _ in range(400):
        if condition():
            return
        time.sleep(0.025)
    raise AssertionError("did not happen within ten seconds")


def test_what_takes_too_long_is_504_and_leaves_the_queue(live, blocked):
    with live(timeout=0.3, workers=1) as address:
        for _ in range(2):
            answer = httpx.post(f"{address}/v1/score", json=PAIR)
            assert answer.status_code == 504
            assert "no answer within 0.3 seconds" in answer.json()["error"]


def test_a_body_that_does_not_arrive_is_408(live):
    with live(timeout=0.3) as address, socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as slow:
        slow.sendall(b"POST /v1/score HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{")
        slow.settimeout(10)
        assert slow.recv(1000).startswith(b"HTTP/1.1 408")


def test_too_many_requests_at_once_are_429(served, blocked, listening):
    application = create_app([served], Settings(max_requests=1))
    with listening(application) as address:
        first = threading.Thread(target=httpx.post, args=(f"{address}/v1/score",), kwargs={"json": PAIR})
        first.start()
        eventually(lambda: application.guard.running == 1)
        assert httpx.get(f"{address}/health").status_code == 429
        blocked.set()
        first.join()
        assert httpx.get(f"{address}/health").status_code == 200


# 245,760 hypotheses x tokens: half a minute
LARGE = {"source": ["a b c a b c"] * 128, "beam_size": 32, "min_length": 60, "max_length": 60}


def test_what_a_late_answer_was_computed_for_ends_at_its_next_step(served, listening):
    application = create_app([served], Settings(timeout=0.5))
    with listening(application) as address:
        assert httpx.post(f"{address}/v1/translate", json=LARGE, timeout=20).status_code == 504
        eventually(lambda: not application.server.batches.running)


@pytest.mark.parametrize("path", ["translate", "hypotheses", "steps", "stream"])
def test_what_a_client_that_has_left_asked_for_ends_at_its_next_step(served, listening, monkeypatch, path):
    """All 512 steps would take a minute."""
    at_step = _Batch.at_step

    def slow(self):
        time.sleep(0.1)
        at_step(self)

    monkeypatch.setattr(_Batch, "at_step", slow)
    application = create_app([served], Settings())
    with listening(application) as address:
        many_steps = {"source": "a b c", "beam_size": 2, "min_length": 512, "max_length": 512}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/v1/{path}", json=many_steps, timeout=httpx.Timeout(10, read=0.5))
        eventually(lambda: not application.server.batches.running and application.guard.running == 0)


def test_a_request_above_the_work_of_one_is_413_and_above_the_work_of_all_429(served, listening):
    application = create_app([served], Settings(workers=1, max_work=250_000, max_total_work=300_000))
    with listening(application) as address, httpx.Client(base_url=address, timeout=30) as client:
        too_large = client.post("/v1/translate", json=LARGE | {"min_length": 64, "max_length": 64})
        assert too_large.status_code == 413
        assert "262,144 hypotheses x tokens: this server searches at most 250,000 for one" in too_large.json()["error"]
        weights = client.post("/v1/translate", json=LARGE | {"weights": True})
        assert weights.status_code == 413  # 128 x 60 x 7 weights more
        with ThreadPoolExecutor(1) as thread:
            large = thread.submit(httpx.post, f"{address}/v1/translate", json=LARGE, timeout=60)
            eventually(lambda: application.server.batches.running)
            refused = client.post("/v1/translate", json=LARGE)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
            assert "at most 300,000 for all large requests together" in refused.json()["error"]
            for path in ("translate", "steps", "stream"):
                assert client.post(f"/v1/{path}", json={"source": "a b"}).status_code == 200
            assert application.guard.large  # the only worker still has the large request
            application.server.batches.stop()
            assert large.result().status_code == 503
        eventually(lambda: not application.guard.large)


def sentences(count, seed, longest=12):
    draw = random.Random(seed)
    return [" ".join(draw.choices("abc", k=draw.randint(1, longest))) for _ in range(count)]


async def many(address, clients, is_over, alone, target="zh", seed=1):
    """Clients that send mixed requests until it is over; asserts that every answer is that of the line alone."""
    statuses = {}

    async def one(number):
        draw = random.Random((seed, number).__hash__())
        # A connection of its own: a pool that many share searches all of its connections for every request.
        async with httpx.AsyncClient(base_url=address, timeout=60, verify=False) as client:
            while not is_over(statuses):
                line, other = draw.choice(list(alone)), draw.choice(list(alone))
                kind = draw.randrange(12)
                if kind == 0:
                    answer = await client.post("/translate", content=b'{"q": "a')
                    assert answer.status_code == 400
                elif kind == 1:
                    answer = await client.post("/translate", content=b'{"q": "\\ud800", "target": "zh"}')
                    assert answer.status_code == 400
                elif kind == 2:
                    with suppress(httpx.TimeoutException):
                        await client.post("/translate", json={"q": [line] * 20, "target": target}, timeout=0.003)
                    continue
                elif kind == 3:
                    answer = await client.post("/v1/stream", json={"source": line})
                    if answer.status_code == 200:
                        end = json.loads(answer.text.strip().rpartition("data: ")[2])
                        assert end["text"] == alone[line][0]
                elif kind == 4 and number % 8 == 0:
                    answer = await client.post("/translate", content=b" " * 10_000_000)
                    assert answer.status_code == 413
                elif kind < 8:
                    options = {"beam_size": 1}
                    answer = await client.post("/v1/translate", json={"source": [line, other], **options})
                    if answer.status_code == 200:
                        texts = [each["translations"][0]["text"] for each in answer.json()["results"]]
                        assert texts == [alone[line][0], alone[other][0]]
                else:
                    answer = await client.post("/translate", json={"q": line, "target": target})
                    if answer.status_code == 200:
                        assert answer.json()["translatedText"] == alone[line][1]
                assert answer.status_code in (200, 400, 413, 429), answer.text
                statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
                if answer.status_code == 429:
                    await asyncio.sleep(0.05)

    await asyncio.gather(*map(one, range(clients)))
    return statuses


def answers_alone(model, count, longest=12):
    """The greedy translation and that of the run's search for each line, translated alone."""
    lines = dict.fromkeys(sentences(count, 5, longest))

    def alone(line, **search):
        return model.translate([line], **search).sentences[0]

    return {line: (alone(line, beam_size=1), alone(line)) for line in lines}


@pytest.mark.slow
def test_under_load_every_answer_is_the_one_given_alone(live, model):
    alone = answers_alone(model, 40)
    with live() as address:
        statuses = asyncio.run(many(address, 24, lambda statuses: sum(statuses.values()) > 120, alone))
        metrics = httpx.get(f"{address}/metrics").text
    assert statuses[200] > 20
    single, every = (
        float(re.search(pattern, metrics)[1]) for pattern in (r'batch_lines_bucket{le="1.0"} (.*)', "lines_count (.*)")
    )
    assert every > single  # lines of several clients were decoded together


@pytest.mark.slow
def test_the_load_driver_measures_a_server(live, tmp_path):
    (tmp_path / "lines").write_text("a b\n\nb c a\n")
    command = [
        sys.executable,
        ROOT / "benchmarks/serve/load.py",
        tmp_path / "lines",
        "--target",
        "zh",
        "--clients",
        "1,3",
    ]
    with live() as address:
        done = subprocess.run(
            [*command, "--address", address, "--seconds", "0.4", "--warm-up", "0.1"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    for line, clients in zip(done.stdout.splitlines(), (1, 3), strict=True):
        record = json.loads(line)
        assert record["clients"] == clients
        assert record["errors"] == 0
        assert record["per_second"] == round(record["requests"] / 0.4, 1)
        assert 0 < record["p50_ms"] <= record["p95_ms"] <= record["p99_ms"]


@pytest.mark.slow
def test_at_sigterm_new_requests_get_503_and_running_ones_end_or_at_a_second_signal_get_503(start):
    started, address = start("--grace", "60")
    answer = httpx.post(f"{address}/translate", json={"q": "a", "source": "en", "target": "de"})
    assert answer.json() == {"translatedText": "a"}
    with ThreadPoolExecutor(5) as threads, httpx.Client(base_url=address, timeout=30) as client:

        def post(path, values):
            return threads.submit(httpx.post, f"{address}/v1/{path}", json=values, timeout=60)

        def is_refused():
            refused.append(client.get("/health"))
            return refused[-1].status_code == 503

        large = [post("translate", LARGE) for _ in range(3)]
        stream = post("stream", {"source": "a b c", "min_length": 512, "max_length": 512})
        eventually(lambda: "requests_running 5.0" in client.get("/metrics").text)
        short = post("translate", {"source": "a b c", "beam_size": 32, "min_length": 100, "max_length": 100})
        eventually(lambda: "requests_running 6.0" in client.get("/metrics").text)
        started.send_signal(signal.SIGTERM)
        refused = []
        eventually(is_refused)
        assert "the server is stopping" in refused[-1].json()["error"]
        assert refused[-1].headers["retry-after"] == "5"
        assert short.result().status_code == 200
        at = time.monotonic()
        started.send_signal(signal.SIGTERM)
        assert started.wait(20) == 0
        assert time.monotonic() - at < 10  # two seconds on an idle machine
        for answer in large:
            assert answer.result().status_code == 503
            assert "the server is stopping" in answer.result().json()["error"]
        assert 'event: error\ndata: {"error": "the server is stopping' in stream.result().text
    assert started.stderr.read() == ""


def test_the_command_refuses_what_cannot_be_served(run, capsys):
    def command(*options):
        with pytest.raises(SystemExit) as exit:
            main(["serve", *options])
        assert exit.value.code == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert "or --insecure" in command(str(run), "--host", "0.0.0.0")
    assert "not a run folder" in command("nowhere")
    assert "a run is given twice" in command(str(run), str(run))
    for wrong in ("english", "zh-Hans-en"):
        assert "give codes as in en-zh" in command(str(run), "--languages", wrong)
    assert "2 pairs of languages for 1 runs" in command(str(run), "--languages", "en-zh", "--languages", "zh-en")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "choose another --port" in command(str(run), "--port", str(taken.getsockname()[1]))


def test_an_answer_is_sent_at_once_without_waiting_for_an_acknowledgement():
    with listen(Settings(port=0)) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_runs_have_the_shortest_names_that_tell_them_apart(tmp_path):
    def names(*runs):
        return _names([tmp_path / run for run in runs])

    assert names("runs/a/seed-1", "runs/b/seed-1") == ["a", "b"]
    assert names("demo/runs/a/seed-1") == ["a"]  # the arm, as in tables and reports
    assert names("demo/runs/a/seed-1", "demo/runs/a/seed-2") == ["a/seed-1", "a/seed-2"]
    assert names("x/runs/a/seed-1", "y/runs/a/seed-1") == ["x/a", "y/a"]
    assert names("runs/mine", "other") == ["mine", "other"]
    with pytest.raises(UserError, match="twice"):
        names("a", "a")


def test_a_run_that_is_served_from_another_folder_finds_its_data_above_it(run, tmp_path, monkeypatch):
    """Its paths are relative to the folder that it was trained in; the files must be those that it recorded."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "data").mkdir(parents=True)
    elsewhere.mkdir()
    for name in ("source", "target"):
        shutil.copy(run.parent / name, home / "data" / name)
    monkeypatch.chdir(home)
    files = {"source": "data/source", "target": "data/target"}
    values = yaml.safe_load((run / "config.yaml").read_text())
    values["data"] = {"train": files, "validation": files, "test": files, "max_length": 20}
    values["training"] |= {"max_epochs": 1, "validate_every": 1}
    model = s2s.train(values, home / "runs" / "mine", silent=True)
    monkeypatch.chdir(elsewhere)
    said = []
    served = ServedModel.load("mine", s2s.load(model.folder), ("en", "zh"), said.append)
    assert [len(each["source"].split()) for each in served.examples]
    assert served.model.config.data.train.source == home.resolve() / "data" / "source"
    assert said == []
    (home / "data" / "target").write_text("other\n")
    assert ServedModel.load("mine", s2s.load(model.folder), ("en", "zh"), said.append).examples == []
    (line,) = said
    assert line.startswith("mine: no examples of the test set: data/source")


@pytest.mark.slow
def test_a_step_that_does_not_end_does_not_keep_the_process(start, tmp_path):
    """Python imports `sitecustomize` at its start: here, a module in which every step of a beam search is endless."""
    (tmp_path / "sitecustomize.py").write_text(ENDLESS)
    started, address = start("--grace", "0", path=f"{tmp_path}{os.pathsep}{ROOT}")
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(httpx.post, f"{address}/v1/translate", json={"source": "a"}, timeout=60)
        time.sleep(1)
        started.send_signal(signal.SIGTERM)
        assert started.wait(20) == 0
        assert answer.result().status_code == 503


ENDLESS = """
import threading

from seq2seq_attn.search import batched

batched.beam_search = lambda *_: threading.Event().wait()
"""


@pytest.mark.slow
def test_two_hundred_clients_for_minutes(start, model):
    """python -m pytest -m slow -n 0 tests/serve/test_live_server.py: four minutes; memory is bounded."""
    started, address = start()
    alone = answers_alone(model, 400, 18)
    memory = []
    for seed in (1, 2, 3):
        end = time.monotonic() + 60
        statuses = asyncio.run(many(address, 200, lambda _, end=end: time.monotonic() > end, alone, "de", seed))
        assert statuses[200] > 300
        eventually(lambda: "requests_running 1.0" in httpx.get(f"{address}/metrics").text)  # this one: none is left
        assert "lines_waiting 0.0" in httpx.get(f"{address}/metrics").text
        memory.append(resident(started.pid))
    assert memory[2] < memory[0] + 50e6
    started.send_signal(signal.SIGTERM)
    assert started.wait(20) == 0
    assert started.stderr.read() == ""  # no error of the server


def resident(process):
    """Bytes of memory of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
