"""Models that read recordings, images or arrays: a client sends the file, and can name none of this machine."""

import base64
import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from plain_recipe import NO_DROPOUT, constant

import seq2seq_attn as s2s
from seq2seq_attn.corpora.front_end import FrontEnd
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.corpora.unknown_words import ReadAs
from seq2seq_attn.serve import Settings
from seq2seq_attn.serve.sent_files import LONGEST_EXAMPLE, SentFiles, as_line
from seq2seq_attn.serve.tasks import ServedModel

SHORT = 12  # frames


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Tells which of two features rises, from arrays of frames that are joined by twos."""
    folder, draw = tmp_path_factory.mktemp("arrays"), np.random.default_rng(7)
    for number in range(20):
        frames = draw.normal(size=(SHORT - number % 4, 3))
        frames[:, number % 2] += np.arange(len(frames))
        np.save(folder / f"{number}.npy", frames)
    (folder / "source").write_text("".join(f"{folder}/{number}.npy\n" for number in range(20)))
    (folder / "target").write_text("".join(f"{'ab'[number % 2]} up\n" for number in range(20)))
    pairs = {"source": str(folder / "source"), "target": str(folder / "target")}
    values = {
        "data": {"train": pairs, "validation": pairs, "test": pairs, "max_length": SHORT},
        "source": {"kind": "frames"},
        "text": {"tokenizer": "word"},
        "model": {
            "embedding_size": 5,
            "encoder": {"kind": "linear", "join": 2, "network": {"kind": "recurrent", "hidden_size": 6}},
            "decoder": {"kind": "bahdanau", "hidden_size": 7},
            "dropout": NO_DROPOUT,
        },
        "training": {**constant(0.02), "batch_size": 5, "batch_unit": "sentences", "max_epochs": 3, "monitor": "loss"},
        "search": {"beam_size": 1, "max_length": 6},
    }
    return s2s.train(values, folder / "run", silent=True, **{"training.accelerator": "cpu"})


@pytest.fixture(scope="module")
def arrays(model):
    return (model.folder.parent / "source").read_text().split()


@pytest.fixture(scope="module")
def served(model):
    return ServedModel.load("arrays", model, ("en", "en"), print)


def steps_of(stream):
    events = [block.split("\ndata: ") for block in stream.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data)) for name, data in events]


def test_a_file_that_is_sent_is_read_as_the_same_file_by_its_path(ask, model, arrays):
    lines = [as_line(Path(path)) for path in arrays[:3]]
    found = ask("POST", "/v1/translate", json={"source": lines, "weights": True}).json()["results"]
    expected = model.translate(arrays[:3])
    assert [each["translations"][0]["text"] for each in found] == expected.sentences
    steps = ask("POST", "/v1/steps", json={"source": lines[0]}).json()
    theirs = model.steps(arrays[0])
    assert steps["text"] == theirs.text
    assert steps["log_probability"] == pytest.approx(theirs.log_probability)
    assert steps["source"] == list(theirs.source) == [str(each) for each in range(1, SHORT, 2)]
    scored = ask("POST", "/v1/score", json={"source": lines[0], "target": "a up"}).json()["results"][0]
    assert scored["log_probability"] == pytest.approx(model.score([(arrays[0], "a up")])[0].log_probability)


def test_a_source_is_shown_beside_its_steps(ask, model, arrays):
    line = as_line(Path(arrays[0]))
    steps = ask("POST", "/v1/steps", json={"source": line}).json()
    display = model.trained.display(arrays[0])
    seen = steps["seen"]
    assert (seen["positions"], seen["grid"], seen["seconds"], seen["sound"]) == (SHORT, 1, None, None)
    content = base64.b64decode(seen["picture"].removeprefix("data:image/png;base64,"))
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(content))), display.picture)
    assert tuple(seen["shape"]) == display.picture.shape
    (name, start), *_, (_, end) = steps_of(ask("POST", "/v1/stream", json={"source": line}).text)
    assert name == "start"
    assert (start["source"], start["seen"]) == (steps["source"], seen)
    assert end["text"] == steps["text"]


def test_what_is_read_in_place_of_a_source_is_a_file_as_well(ask, arrays):
    first, other = (as_line(Path(path)) for path in arrays[:2])
    change = {"replace": "sentence", "other": other}
    found = ask("POST", "/v1/intervene", json={"source": first, "interventions": [change]})
    assert found.status_code == 200
    change["other"] = arrays[1]
    assert ask("POST", "/v1/intervene", json={"source": first, "interventions": [change]}).status_code == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/translate", {}),
        ("/v1/steps", {}),
        ("/v1/stream", {}),
        ("/v1/hypotheses", {}),
        ("/v1/score", {"target": "a"}),
        ("/v1/align", {"target": "a"}),
        ("/v1/attention", {"target": "a"}),
        ("/v1/attention", {}),
        ("/v1/neighbors", {}),
    ],
)
def test_no_endpoint_reads_a_file_that_a_client_names(refused, arrays, path, body):
    for line in (arrays[0], f"file://{arrays[0]}", f"data:text/plain,{arrays[0]}"):
        error = refused(400, "POST", path, json={"source": line} | body)
        assert "this model reads frames, not text or paths: send the file itself" in error


def test_the_clients_of_libretranslate_learn_what_the_model_reads(refused, arrays):
    error = refused(400, "POST", "/translate", json={"q": arrays[0], "target": "en", "source": "en"})
    assert "this model reads frames" in error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("QUJD", "the file that was sent: not an array as numpy.save writes it"),
        ("QUJ", "the file that was sent is not in base64"),
        ("Q UJD", "the file that was sent is not in base64"),
        ("", "the file that was sent"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_without_the_path_of_its_copy(refused, content, message):
    error = refused(400, "POST", "/v1/translate", json={"source": f"data:application/octet-stream;base64,{content}"})
    assert message in error
    assert tempfile.gettempdir() not in error


def test_a_recording_that_is_too_long_is_refused_in_its_own_unit(refused, tmp_path):
    np.save(tmp_path / "long.npy", np.zeros((SHORT + 1, 3)))
    error = refused(400, "POST", "/v1/translate", json={"source": as_line(tmp_path / "long.npy")})
    assert f"line 1: {SHORT + 1} frames; at most {SHORT}" in error
    other = refused(400, "POST", "/v1/steps", json={"source": ["a"]})
    assert "needs a source of text alone, and that of this model is frames" in other


def test_nothing_of_a_file_is_left(ask, tmp_path, monkeypatch):
    np.save(tmp_path / "new.npy", np.ones((SHORT, 3)))  # no request has sent it yet
    line = as_line(tmp_path / "new.npy")
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "copies"))
    assert ask("POST", "/v1/steps", json={"source": line}).status_code == 200
    assert list((tmp_path / "copies").iterdir()) == []


class Letters(FrontEnd):
    """A line is the path of a text, each letter of which is a position."""

    def __init__(self):
        self.read = []

    size = 256

    def encode(self, line):
        self.read.append(line)
        return list(Path(line).read_bytes())

    def collate(self, items):
        return pad(items)

    def unknown_words(self, line):
        return [Path(line).read_text()]

    def read_as(self, line):
        return [ReadAs(Path(line).read_text(), 0, ("<unk>",), ())]

    def rules(self):
        return ()


def test_a_file_is_read_once_however_often_its_item_is_asked_for():
    inner = Letters()
    front_end = SentFiles(inner, "letters")
    line = f"data:text/plain;base64,{base64.b64encode(b'cab').decode()}"
    assert front_end.encode(line) == next(front_end.items([line])) == [99, 97, 98]
    assert len(inner.read) == 1
    assert not Path(inner.read[0]).exists()
    assert front_end.unknown_words(line) == ["cab"]
    assert front_end.read_as(line)[0].word == "cab"


def test_clients_learn_what_a_model_reads_and_get_examples_that_it_reads(ask, served, arrays, monkeypatch):
    (about,) = ask("GET", "/v1/models").json()["models"]
    assert about["reads"] == "frames"
    contents = {Path(path).read_bytes() for path in arrays}
    assert len(about["examples"]) == 5
    for each in about["examples"]:
        head, _, content = each["source"].partition(",")
        assert head == "data:application/octet-stream;base64"
        assert base64.b64decode(content) in contents
        assert ask("POST", "/v1/translate", json={"source": each["source"]}).status_code == 200


def test_examples_that_are_large_or_missing_are_left_out(model, arrays, monkeypatch):
    large = "seq2seq_attn.serve.sent_files.LONGEST_EXAMPLE"
    assert LONGEST_EXAMPLE > 1
    monkeypatch.setattr(large, 1)
    assert ServedModel.load("arrays", model, ("en", "en"), print).examples == []
    monkeypatch.undo()
    Path(arrays[0]).rename(arrays[0] + ".moved")
    said = []
    try:
        assert ServedModel.load("arrays", model, ("en", "en"), said.append).examples == []
        assert said == [f"arrays: no examples of the test set: {arrays[0]}: No such file or directory"]
    finally:
        Path(arrays[0] + ".moved").rename(arrays[0])


def test_a_body_that_is_too_large_says_how_to_allow_it(refused, arrays):
    settings = Settings(max_body=100)
    error = refused(413, "POST", "/v1/translate", json={"source": as_line(Path(arrays[0]))}, settings=settings)
    assert "more than 100 bytes" in error
    assert "serve --max-body" in error


def shown_tokens(page, wanted):
    page.wait_for_function(
        "wanted => "
        "[...document.querySelectorAll('tr[data-kind=base] button')].map((e) => e.textContent).join() === wanted",
        arg=",".join(wanted),
    )


@pytest.mark.slow
def test_the_page_shows_examples_and_files_of_a_users_own_with_what_each_step_read(visit, model, arrays, tmp_path):
    page = visit()
    first, other = model.steps(arrays[0]), model.steps(arrays[5])
    shown_tokens(page, first.tokens)
    steps = page.locator("source-picture button")
    steps.nth(1).click()
    assert steps.locator("bdi").all_text_contents() == first.tokens
    assert steps.nth(1).get_attribute("aria-pressed") == "true"
    fog = page.locator("source-picture .large .fog").evaluate_all(
        "all => all.map((e) => Number(e.attributes['fill-opacity'].value))"
    )
    weights = np.array(first.steps[1].weights)
    levels = {round(100 * 0.84 * (1 - each)) / 100 for each in weights / weights.max()} - {0.0}
    assert sorted(fog) == pytest.approx(sorted(levels))
    assert page.locator("source-tokens, nearest-pairs, textarea").count() == 0
    page.wait_for_function("() => location.hash.includes('source=example%3A1')")
    page.set_input_files("input[type=file]", arrays[5])
    shown_tokens(page, other.tokens)
    page.wait_for_function("() => location.hash.includes('source=file%3A5.npy')")
    page.locator("source-file button").first.click()
    shown_tokens(page, first.tokens)
    (tmp_path / "not.npy").write_text("no array")
    page.set_input_files("input[type=file]", tmp_path / "not.npy")
    page.get_by_text("the file that was sent: not an array as numpy.save writes it").first.wait_for()
    visit.problems.clear()  # of which that answer is one
    page.goto(page.url.split("#")[0] + "#translate?source=file%3A5.npy&beam=2")
    page.reload()
    page.get_by_text("5.npy is not part of the link; choose the file again.").wait_for()


def test_a_model_of_text_beside_it_has_the_languages_that_are_written(ask, served, demo):
    text = ServedModel.load("text", demo.model, ("en", "en"), print)
    both = {"models": (served, text)}
    answer = ask("POST", "/translate", json={"q": "Tom chases Jerry .", "source": "en", "target": "en"}, **both)
    wanted = demo.model.translate(["Tom chases Jerry ."]).sentences
    assert (answer.status_code, answer.json()["translatedText"]) == (200, *wanted)
    detected = ask("POST", "/translate", json={"q": "Tom chases Jerry .", "source": "auto", "target": "en"}, **both)
    assert detected.json()["translatedText"] == wanted[0]
    assert ask("POST", "/detect", json={"q": "Tom"}, **both).json()[0]["language"] == "en"
    assert [each["code"] for each in ask("GET", "/languages", **both).json()] == ["en"]
    assert ask("GET", "/languages", models=(served,)).json() == []
