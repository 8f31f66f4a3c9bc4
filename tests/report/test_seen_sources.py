"""Sources that are not text in a report: their pictures and sounds, shaded by weights worked by hand."""

import base64
import io
import re

import json_damage
import numpy as np
import pytest
from html_tree import parse
from matplotlib.image import imread

from seq2seq_attn.corpora.display import Display, wav_file
from seq2seq_attn.errors import UserError
from seq2seq_attn.report.html_attention import shades
from seq2seq_attn.report.html_page import html_page
from seq2seq_attn.report.write import read_contents, write_report
from seq2seq_attn.results import seen
from seq2seq_attn.results.examples import EXAMPLES
from seq2seq_attn.results.seen import SeenSource


@pytest.fixture
def tree(seen_values, write):
    return parse(html_page(read_contents(write(seen_values))))


def content(address, kind):
    start, _, text = address.partition(";base64,")
    assert start == f"data:{kind}"
    return base64.b64decode(text)


def test_the_page_contains_each_picture_and_sound_once_and_asks_for_nothing_else(tree, seen_values):
    def picture(line):
        return np.rint(255 * imread(io.BytesIO(content(tree.id(f"seen-{line}").attributes["href"], "image/png"))))

    levels = [[0, 40, 80, 120, 160, 200, 240, 255], [255, 240, 200, 160, 120, 80, 40, 0]]
    np.testing.assert_array_equal(picture(2), levels)
    np.testing.assert_array_equal(picture(4)[:, 0, :3], [[255, 0, 0], [0, 255, 0], [0, 0, 255], [9, 8, 7]])
    (audio,) = tree.all("audio")
    assert audio.attributes["id"] == "sound-2"
    sound = seen_values["examples.json"][0]["seen"]["sound"]
    assert content(audio.attributes["src"], "audio/wav") == base64.b64decode(sound)
    addresses = {each.attributes[name] for each in tree for name in ("src", "href") if name in each.attributes}
    assert all(each.startswith(("data:", "#")) for each in addresses)


def paths(element):
    return [tuple(each.attributes[name] for name in ("class", "fill-opacity", "d")) for each in element.all("path")]


def test_the_strip_of_a_step_is_darkest_at_the_largest_weight_of_all(tree):
    sound = tree.all("article", "static")[0]
    first, second, last = (paths(each) for each in sound.all("svg", "strip"))
    assert first == [("cell", "0.24", "M0 0h1v1h-1zM3 0h1v1h-1z"), ("cell", "0.5", "M2 0h1v1h-1z"),
                     ("cell", "1.0", "M1 0h1v1h-1z")]  # fmt: skip
    assert second == [("cell", "1.0", "M2 0h2v1h-2z")]
    assert last == [("cell", "0.5", "M0 0h4v1h-4z")]
    assert [each.text for each in sound.one("div", "strips").all("bdi")] == ["a", "b", "</s>"]


def test_an_image_is_in_fog_but_for_the_cells_with_the_largest_weight_of_the_step(tree):
    first, last = tree.all("article", "static")[1].all("figure")
    assert paths(first) == [("fog", "0.42", "M1 0h1v1h-1zM0 1h1v1h-1z"), ("fog", "0.84", "M1 1h1v1h-1z")]
    assert paths(last) == [("fog", "0.84", "M0 0h2v1h-2zM0 1h1v1h-1z")]
    assert first.one("use").attributes["href"] == "#seen-4"
    assert first.one("g").attributes["transform"] == "scale(2.0 2.0)"


def test_neighbors_of_one_shade_are_one_rectangle_within_a_row():
    assert shades([1, 1, 1, 0.5], 2) == [(0.5, "M1 1h1v1h-1z"), (1.0, "M0 0h2v1h-2zM0 1h1v1h-1z")]


def test_a_figure_of_each_arm_that_attends_is_drawn(seen_values, write, monkeypatch):
    monkeypatch.setattr("seq2seq_attn.report.write.render", lambda figure, kind: b"")
    names = {path.name for path in write_report(write(seen_values)) if path.suffix == ".png"}
    assert {each for each in names if each.startswith("attention")} == {f"attention_{n}_注意力.png" for n in (1, 2)}


def test_a_large_picture_is_averaged_and_a_long_sound_left_out(monkeypatch):
    monkeypatch.setattr(seen, "LARGEST", (2, 3))
    monkeypatch.setattr(seen, "LONGEST", 60)
    picture = np.array([[0, 4, 8, 8], [4, 0, 8, 8], [1, 1, 20, 40]], dtype=np.uint8)
    one = SeenSource.of(Display(picture, wav_file(np.zeros(20), 10)), positions=4)
    # Blocks of the first row and of the two others; of the first column, the second, and the two others.
    assert one.picture.tolist() == [[0, 4, 8], [2, 0, 19]]
    assert (one.seconds, one.sound, one.positions) == (2.0, None, 4)
    short = SeenSource.of(Display(picture, wav_file(np.zeros(5), 10)), positions=4)
    assert base64.b64decode(short.sound) == wav_file(np.zeros(5), 10)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"shape": [2, 9]}, "pixels"),
        ({"shape": [2, 8, 1]}, "shape"),
        ({"pixels": "xyz"}, "decompressed"),
        ({"seconds": 1.5}, "sound"),
        ({"sound": base64.b64encode(wav_file(np.zeros(20), 10)[:-10]).decode()}, "sound"),
        ({"sound": base64.b64encode(b"no sound").decode()}, "sound"),
        ({"positions": 0}, "positions"),
    ],
)
def test_a_damaged_picture_or_sound_is_refused(seen_values, write, change, key):
    seen_values["examples.json"][0]["seen"] |= change
    with pytest.raises(UserError, match=rf"examples\.json: 0\.seen.*{key}"):
        EXAMPLES.load(write(seen_values))


def test_states_that_are_no_grid_are_refused(seen_values, write):
    seen_values["examples.json"][1]["readings"][0]["grid"] = 3
    with pytest.raises(UserError, match=r"examples\.json: 1\.readings\.0: 4 states"):
        EXAMPLES.load(write(seen_values))


def test_a_damaged_record_is_refused_by_name_or_read(seen_values, write):
    folder = write(seen_values)
    for about, text in json_damage.damaged(seen_values["examples.json"], 40, seed="seen"):
        (folder / "examples.json").write_text(text)
        refused = json_damage.refusal(lambda: EXAMPLES.load(folder), about)
        assert re.match(rf"$|{re.escape(str(folder / 'examples.json'))}: ", refused)
