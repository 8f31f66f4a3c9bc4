"""A mistake of the client is one clear line of JSON with the right status, never an error of the server."""

import gzip
import json

import httpx
import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.serve import Settings, read_keys

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/translate", b'{"q": "a', "the body is not JSON: Unterminated string"),
        ("/translate", b"", "the body is not JSON"),
        ("/translate", b"[" * 100_000, "nested too deeply"),
        ("/translate", b"\xff\xfe", "the body is not JSON"),
        ("/translate", b'["a"]', "the body is a JSON object"),
        ("/translate", b'{"q": "\\ud800", "target": "zh"}', "half of a surrogate pair"),
        ("/v1/translate", b'{"source": ["a", "\\udfff"]}', "half of a surrogate pair"),
        ("/translate", b'{"q": "a"}', "target is missing and has no default"),
        ("/translate", b'{"q": 7, "target": "zh"}', "q = 7"),
        ("/translate", b'{"q": "a", "target": "xx"}', "no model translates from 'auto' to 'xx'; served: en to zh"),
        ("/translate", b'{"q": "a", "target": "zh", "source": "de"}', "no model translates from 'de' to 'zh'"),
        ("/translate", b'{"q": "a", "target": "zh", "format": "markdown"}', "'text' or 'html' is wanted"),
        ("/translate", b'{"q": "a", "target": "zh", "alternatives": 99}', "alternatives = 99: at most 31"),
        ("/v1/translate", b'{"source": "a", "beam_sise": 3}', "unknown key 'beam_sise' (did you mean 'beam_size'?)"),
        ("/v1/translate", b'{"source": "a", "model": "x"}', "model 'x' is not served; choose from backwards"),
        ("/v1/translate", b'{"source": "a", "constraints": [["z"]]}', "line 1: the constraint 'z' has 'z'"),
        ("/v1/translate", b'{"source": ["a", "b"], "prefix": "a"}', "1 prefixes, and more of others"),
        ("/v1/translate", b'{"source": "a", "avoid": [" "]}', "avoid: ' ' is blank"),
        ("/v1/steps", b'{"source": "a", "avoid": ["a"], "beam_groups": 5}', "beam_groups and avoid"),
        ("/v1/translate", b'{"source": "a", "beam_groups": 2}', "beam_groups=2; set beam_size=6"),
        ("/v1/translate", b'{"source": "a", "beam_size": 0}', "beam_size = 0: a number of at least 1 is wanted"),
        ("/v1/translate", b'{"source": "a", "beam_size": 99}', "beam_size = 99: this server allows at most 32"),
        ("/v1/translate", b'{"source": "a", "max_length": 9999}', "max_length = 9999: this server allows at most 512"),
        ("/v1/translate", b'{"source": "a", "n_best": 9}', "n_best=9 needs a beam at least as wide"),
        ("/v1/translate", b'{"source": "a", "temperature": NaN}', "NaN is not a number of JSON"),
        ("/v1/translate", b'{"source": "a", "length_penalty": -Infinity}', "-Infinity is not a number of JSON"),
        ("/v1/translate", b'{"source": "a", "length_penalty": 1e999}', "length_penalty"),
        ("/v1/translate", b'{"source": "a", "precision": "fp64"}', "precision"),
        ("/v1/score", b'{"source": ["a", "b"], "target": "a"}', "2 sources and 1 targets"),
        ("/v1/align", b'{"source": "a", "target": "a", "layer": 9}', "layer"),
        ("/v1/align", b'{"source": "a", "target": "a", "head": 0}', "head 0 needs the number of its layer"),
        ("/v1/attention", b'{"source": ""}', "a blank sentence has no attention weights"),
        ("/v1/steps", b'{"source": ""}', "a blank sentence has no steps"),
        (
            "/v1/steps",
            b'{"source": "a", "target": "b", "beam_size": 2}',
            "beam_size: options of a search, but the target",
        ),
        ("/v1/steps", b'{"source": "a", "prefix": ["q"]}', "'q' is not in this model's vocabulary"),
        ("/v1/neighbors", b'{"source": "a", "most": 101}', "most = 101"),
        ("/v1/neighbors", b'{"source": "a", "step": -1}', "step = -1"),
        ("/v1/intervene", b'{"source": "a", "interventions": []}', "interventions"),
        ("/v1/intervene", b'{"source": "a", "interventions": [null]}', "interventions.0 = null: a mapping of keys"),
        (
            "/v1/intervene",
            b'{"source": "a", "interventions": [{"replace": "mean", "stepp": 1}]}',
            "unknown key 'interventions.0.stepp'",
        ),
        (
            "/v1/intervene",
            b'{"source": "a", "interventions": [{"replace": "weights", "weights": [3.4e38, 0]}]}',
            "give smaller weights",
        ),
        (
            "/v1/intervene",
            b'{"source": "a", "interventions": [{"replace": "weights", "weights": [1e308, 1e308]}]}',
            "give smaller weights",
        ),
        ("/v1/intervene", b'{"source": "a", "interventions": [{"replace": "mean", "layer": 3}]}', "layer 3"),
        ("/v1/intervene", b'{"source": "a", "interventions": [{"replace": "al"}]}', "replace"),
        (
            "/v1/intervene",
            b'{"source": "a", "interventions": [{"replace": "normalizer", "normalizer": "monotonic"}]}',
            "interventions.0.normalizer = 'monotonic': monotonic needs the weights of earlier steps; choose from",
        ),
        (
            "/v1/intervene",
            b'{"source": "a", "interventions": [{"replace": "normalizer", "normalizer": "/tmp/a.py:A"}]}',
            "there is no normalizer '/tmp/a.py:A' in the catalog; choose from",
        ),
        ("/v1/stream", b'{"source": " "}', "a blank sentence has no steps"),
        ("/v1/steps", b'{"source": "a", "n_best": 2}', "n_best = 2: the steps are of one output"),
        ("/v1/translate", b'{"source": "a", "mbr": "json.tool:main"}', "a request names a metric of the package"),
    ],
    ids=lambda each: each[:60] if isinstance(each, bytes) else None,
)
def test_a_wrong_body_is_400_with_the_way_out(refused, path, body, message):
    assert message in refused(400, "POST", path, content=body, headers=JSON)


def test_a_request_loads_no_code(refused, tmp_path):
    file = tmp_path / "code.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    body = json.dumps({"source": "a", "mbr": f"{file}:Metric"}).encode()
    assert "a request names a metric" in refused(400, "POST", "/v1/translate", content=body, headers=JSON)
    assert not (tmp_path / "ran").exists()


def test_a_glossary_has_a_limit(refused):
    body = json.dumps({"source": "a", "glossary": {f"a{number}": "b" for number in range(1001)}}).encode()
    assert "1000" in refused(400, "POST", "/v1/translate", content=body, headers=JSON)


HALF = "\ud800".encode("utf-8", "surrogatepass")  # half of a surrogate pair, which UTF-8 does not allow


def test_half_of_a_surrogate_pair_is_refused_by_every_endpoint_however_it_is_written(live):
    with live() as address, httpx.Client(base_url=address) as client:

        def status(path, content):
            answer = client.post(path, content=content, headers=JSON)
            assert answer.status_code == 200 or "the body" in answer.json()["error"]
            return answer.status_code

        paths = [path for path, methods in client.get("/openapi.json").json()["paths"].items() if "post" in methods]
        assert "/v1/stream" in paths
        for path in paths:
            for half in (b"\\ud800", b"\\uDC00x", HALF):
                assert status(path, b'{"q": "a%s"}' % half) == 400
        assert status("/v1/stream", '{"source": "a"}'.encode("utf-16")) == 400
        whole = b'{"source": "a \\ud83d\\ude00"}'
        assert status("/v1/stream", b"\xef\xbb\xbf" + whole) == 200


def test_a_compressed_body_is_415(refused):
    error = refused(415, "POST", "/translate", content=gzip.compress(b"{}"), headers={"content-encoding": "gzip"})
    assert "not compressed" in error


def test_a_mistake_that_shows_in_the_middle_of_a_stream_is_an_event(ask):
    change = {"replace": "weights", "step": 2, "weights": [1e308] * 4}
    answer = ask("POST", "/v1/stream", json={"source": "a b c", "interventions": [change]})
    assert answer.status_code == 200
    assert answer.text.count("event: step") == 2
    last = answer.text.rpartition("event: ")[2]
    assert last.startswith('error\ndata: {"error": "the predictions are no longer finite')


def test_a_form_that_is_no_text_is_refused(refused):
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert "not a form" in refused(400, "POST", "/translate", content=b"q=%ff&target=zh", headers=kind)


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("multipart/form-data", b"--x\r\n\r\n--x--", "its content-type has no boundary"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\na", "its last boundary is missing"),
        ("multipart/form-data; boundary=x", b"", "its last boundary is missing"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\na\r\n--x--", "one of its parts has no name"),
        ("multipart/form-data; boundary=x", b"--x\r\n" * 1002 + b"--x--", "more than 1000 fields"),
    ],
    ids=["boundary", "end", "empty", "name", "number"],
)
def test_a_form_in_parts_that_is_malformed_is_refused(refused, kind, body, message):
    error = refused(400, "POST", "/translate", content=body, headers={"content-type": kind})
    assert error.startswith("the body is not a form")
    assert message in error


def test_a_long_value_is_cut_in_the_message(refused):
    body = json.dumps({"source": "a", "model": "x" * 100_000})
    assert " ... " in refused(400, "POST", "/v1/translate", content=body.encode(), headers=JSON)


def test_unknown_paths_and_methods(ask, refused):
    assert "/docs lists the endpoints" in refused(404, "GET", "/nothing")
    assert "/docs lists the endpoints" in refused(405, "GET", "/translate")
    for method, path, allowed in (
        ("OPTIONS", "/translate", "POST"),
        ("DELETE", "/", "GET, HEAD"),
        ("POST", "/health", "GET, HEAD"),
        ("PUT", "/languages", "GET, HEAD"),
        ("POST", "/assets/page.js", "GET, HEAD"),
    ):
        answer = ask(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_limits_on_body_lines_and_tokens(refused):
    settings = Settings(max_body=1000, max_lines=3, max_tokens=4)

    def send(status, values):
        return refused(status, "POST", "/v1/translate", json=values, settings=settings)

    assert "more than 1,000 bytes" in send(413, {"source": "a" * 1001})
    assert "4 lines; this server takes at most 3" in send(413, {"source": ["a"] * 4})
    assert "line 2: 5 tokens; at most 4" in send(400, {"source": ["a", "a b c a b"]})
    pairs = {"source": "a", "target": "a b c a b"}
    assert "line 1: 5 tokens" in refused(400, "POST", "/v1/score", json=pairs, settings=settings)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/translate", {"candidates": 33, "mbr": "chrf", "temperature": 1.0}, "candidates = 33: this server allows"),
        ("/v1/translate", {"n_best": 33, "temperature": 1.0}, "n_best = 33: this server allows"),
        ("/v1/translate", {"min_length": 5}, "min_length = 5: this server allows at most 4"),
        ("/v1/steps", {"target": "a b c a b"}, "target: 5 tokens"),
        ("/v1/steps", {"prefix": "a b c a b"}, "prefix: 5 tokens"),
        ("/v1/steps", {"prefix": ["a"] * 5}, "prefix: 5 tokens; at most 4"),
        ("/v1/stream", {"interventions": [{"replace": "sentence", "other": "a b c a b"}]}, "line 2: 5 tokens"),
        ("/v1/neighbors", {"target": ["a"] * 5, "step": 0}, "target: 5 tokens"),
    ],
)
def test_limits_on_hypotheses_targets_prefixes_and_other_sentences(refused, path, body, message):
    assert message in refused(400, "POST", path, json={"source": "a"} | body, settings=Settings(max_tokens=4))


def test_a_line_is_not_longer_than_what_the_model_reads(refused):
    assert "line 1: 21 tokens; at most 20" in refused(400, "POST", "/v1/translate", json={"source": "a " * 21})


def test_a_body_of_any_size_is_refused_without_being_kept(ask):
    async def endless():
        for _ in range(200):
            yield b"x" * 1000

    answer = ask("POST", "/translate", content=endless(), settings=Settings(max_body=1000))
    assert answer.status_code == 413


def test_every_endpoint_asks_for_a_key_but_those_that_clients_of_libretranslate_send_none_to(ask):
    settings, wrong = Settings(api_keys=frozenset({"secret"})), {"authorization": "Bearer nope"}
    paths = ask("GET", "/openapi.json").json()["paths"]
    assert len(paths) > 10
    found = {
        path: ask(method, path, json={}, headers=wrong, settings=settings).status_code
        for path, methods in paths.items()
        for method in methods
    }
    assert found == dict.fromkeys(paths, 401) | dict.fromkeys(("/health", "/languages", "/frontend/settings"), 200)


def test_keys_are_asked_for_where_there_are_some(ask, refused):
    settings = Settings(api_keys=frozenset({"secret", "other"}))
    body = {"q": "a b", "target": "zh"}

    def status(**request):
        return ask("POST", "/translate", settings=settings, **request).status_code

    assert "asks for an API key" in refused(401, "POST", "/translate", settings=settings, json=body)
    assert status(json=body | {"api_key": "secret"}) == 200
    assert status(data=body | {"api_key": "other"}) == 200
    assert status(json=body, headers={"authorization": "Bearer secret"}) == 200
    for wrong in ("Bearer nope", "Basic secret"):
        assert status(json=body, headers={"authorization": wrong}) == 401
    proxy = ("authorization", "Basic dXNlcjpwYXNz")  # what a proxy asked for, and passes on
    assert status(json=body | {"api_key": "secret"}, headers=[proxy]) == 200
    assert status(json=body, params={"api_key": "secret"}, headers=[proxy]) == 200
    assert status(json=body, headers=[proxy, ("authorization", "bearer secret")]) == 200
    assert "is not known" in refused(401, "POST", "/translate", settings=settings, json=body | {"api_key": "\u00e9"})
    for path in ("/metrics", "/v1/models"):
        refused(401, "GET", path, settings=settings)
        assert ask("GET", f"{path}?api_key=secret", settings=settings).status_code == 200
    assert ask("GET", "/health", settings=settings).status_code == 200


def test_a_local_server_answers_to_its_own_names_alone(ask, refused):
    assert "host 'evil.org'" in refused(400, "GET", "/health", base="http://evil.org:5000")
    assert ask("GET", "/health", base="http://localhost:5000").status_code == 200
    for name in ("LOCALHOST", "LocalHost:5000"):
        assert ask("GET", "/health", headers={"host": name}).status_code == 200
    assert ask("GET", "/health", base="http://[::1]:5000").status_code == 200
    assert (
        ask("GET", "/health", base="http://evil.org", settings=Settings(host="0.0.0.0", insecure=True)).status_code
        == 200
    )


def test_elsewhere_a_key_is_needed_unless_told_otherwise(tmp_path):
    with pytest.raises(UserError, match="give --api-key-file, or --insecure"):
        Settings(host="0.0.0.0")
    keys = tmp_path / "keys"
    keys.write_text("# of the class\nfirst\n\n second \n")
    assert read_keys(keys) == {"first", "second"}
    keys.write_bytes(b"\xef\xbb\xbffirst\r\nsecond\r\n")  # as some editors write it
    assert read_keys(keys) == {"first", "second"}
    assert not Settings(host="0.0.0.0", api_keys=read_keys(keys)).is_local
    keys.write_text("# none\n")
    for path in (keys, tmp_path / "none"):
        with pytest.raises(UserError, match=str(path)):
            read_keys(path)


def test_an_error_of_the_server_is_no_page_and_tells_no_details(refused, monkeypatch):
    def broken(*_):
        raise RuntimeError("a secret of the server")

    monkeypatch.setattr("seq2seq_attn.api.model.Model.score", broken)
    assert "secret" not in refused(500, "POST", "/v1/score", json={"source": "a", "target": "a"})
