"""A source of images: by the parts of the package, and in one file outside it, where the mask is no prefix."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from plain_recipe import NO_DROPOUT, constant

import seq2seq_attn as s2s
from seq2seq_attn.errors import UserError
from seq2seq_attn.results.examples import EXAMPLES

FILE = Path(__file__).parents[2] / "examples" / "grid.py"
WORDS = "abc"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A word is a bar of four columns in one of three pairs of rows; the width of an image is that of its words."""
    folder, draw = tmp_path_factory.mktemp("images"), np.random.default_rng(5)
    for part, count in {"train": 120, "validation": 12, "test": 16}.items():
        sentences = [draw.integers(0, 3, size=int(draw.integers(1, 4))) for _ in range(count)]
        names = [folder / f"{part}-{number}.npy" for number in range(count)]
        for path, sentence in zip(names, sentences, strict=True):
            image = draw.normal(0, 0.05, size=(6, 4 * len(sentence)))
            for place, word in enumerate(sentence):
                image[2 * word : 2 * word + 2, 4 * place : 4 * place + 4] += 1
            np.save(path, image)
            Image.fromarray((255 * (image + 1) / 3).clip(0, 255).astype(np.uint8)).save(path.with_suffix(".png"))
        pictures = (path.with_suffix(".png") for path in names)
        targets = (" ".join(WORDS[word] for word in sentence) for sentence in sentences)
        for side, lines in {"source": names, "pictures": pictures, "target": targets}.items():
            (folder / f"{part}.{side}").write_text("".join(f"{line}\n" for line in lines))
    shutil.copy(FILE, folder / "grid.py")
    return folder


@pytest.fixture(scope="module")
def experiment(data):
    parts = ("train", "validation", "test")
    base = {
        "data": {part: {side: f"{data}/{part}.{side}" for side in ("source", "target")} for part in parts},
        "source": {"kind": f"{data}/grid.py:ImagesConfig", "height": 6},
        "text": {"tokenizer": "word"},
        "model": {
            "embedding_size": 8,
            "encoder": {"kind": f"{data}/grid.py:GridConfig", "state_size": 16},
            "decoder": {"kind": "bahdanau", "hidden_size": 24},
            "dropout": NO_DROPOUT,
        },
        "training": {
            "max_epochs": 20,
            "validate_every": 20,
            "batch_size": 12,
            "accelerator": "cpu",
            "monitor": "loss",
            **constant(0.01),
        },
        "search": {"beam_size": 2},
        "evaluation": {"tokenize": "none", "metrics": ["wer"], "bands": [4, 8]},
    }
    arms = {
        "attention": {},
        "fixed": ["model.context.kind=fixed", "training.max_epochs=2", "training.validate_every=2"],
    }
    return {"name": "images", "baseline": "fixed", "seeds": [1], "arms": arms, "base": base}


def test_images_are_trained_searched_aligned_and_compared(experiment, data, tmp_path, no_figures):
    compared = s2s.compare(experiment, tmp_path / "out", silent=True)
    errors = {arm.name: arm.scores["wer"].mean for arm in compared.results.arms}
    assert errors["attention"] < 10
    assert errors["attention"] <= errors["fixed"]
    for example in EXAMPLES.load(tmp_path / "out"):
        trace, image = example.readings[0], np.load(example.source)
        assert (trace.grid, len(trace.source)) == (3, 3 * image.shape[1] / 2)
        assert example.seen.picture.shape == image.shape
    model = s2s.load(tmp_path / "out" / "runs" / "attention" / "seed-1")
    lines, targets = ((data / f"test.{side}").read_text().splitlines() for side in ("source", "target"))
    found = model.translate(lines).sentences
    assert sum(ours == theirs for ours, theirs in zip(found, targets, strict=True)) >= 13

    # Narrow images in a batch with wide ones: padding has no weight, and changes nothing.
    narrow = next(line for line, target in zip(lines, targets, strict=True) if len(target.split()) == 1)
    assert model.translate([narrow]).sentences == [found[lines.index(narrow)]]
    maps = model.attention_maps(narrow, targets[lines.index(narrow)])
    assert maps.cross.layers[0].shape[-1] == 3 * 2  # three rows of two cells
    np.testing.assert_allclose(maps.cross.layers[0].sum(axis=-1), 1, atol=1e-5)
    alone, together = model.score([(narrow, "a")]), model.score([(line, "a") for line in lines])
    position = lines.index(narrow)
    assert alone[0].log_probability == pytest.approx(together[position].log_probability, abs=1e-4)
    (links,) = model.align([(narrow, "a")])
    assert all(0 <= column < 4 for column, _ in links.links)
    # The cells of every row begin at the first column, and each is called by its row and its first column.
    assert model.attention(narrow, "a").source == ("1:1", "1:3", "2:1", "2:3", "3:1", "3:3")
    assert model.trained.source_words(narrow, 6) == [0, 2] * 3


def test_attention_to_an_image_is_drawn_over_it(experiment, data, tmp_path_factory):
    once = {"max_epochs": 1, "validate_every": 1}
    model = s2s.train(experiment["base"], tmp_path_factory.mktemp("run") / "run", silent=True, training=once)
    line, target = ((data / f"test.{side}").read_text().splitlines()[0] for side in ("source", "target"))
    view, image = model.attention(line, target), np.load(line)
    figure = view.plot()
    picture, fog = figure.axes[0].images
    assert len(figure.axes) == len(target.split()) + 1  # </s>
    brightest = np.unravel_index(image.argmax(), image.shape)
    assert picture.get_array()[brightest] == picture.get_array().min() == 0
    assert picture.get_array().shape == image.shape
    weights = view.weights[0].reshape(3, image.shape[1] // 2)
    np.testing.assert_allclose(fog.get_array()[..., 3], 0.85 * (1 - weights / weights.max()), atol=1e-6)
    assert view._repr_html_().startswith('<img alt="" src="data:image/png;base64,')
    assert 'href="#seen-1"' in view.save(tmp_path_factory.mktemp("page") / "image.html").read_text()


def test_pictures_are_read_by_the_parts_of_the_package(experiment, data, tmp_path):
    lines = {part: {**files, "source": f"{data}/{part}.pictures"} for part, files in experiment["base"]["data"].items()}
    encoder = {"kind": "convolutional_grid", "channels": [16], "network": {"kind": "recurrent", "hidden_size": 8}}
    values = experiment["base"] | {
        "data": lines,
        "source": {"kind": "image", "height": 6},
        "model": experiment["base"]["model"] | {"encoder": encoder},
    }
    short = {"max_epochs": 5, "validate_every": 5, **constant(0.03)}
    model = s2s.train(values, tmp_path / "run", silent=True, training=short)
    sources, targets = ((data / f"test.{side}").read_text().splitlines() for side in ("pictures", "target"))
    found = model.translate(sources).sentences
    assert sum(ours == theirs for ours, theirs in zip(found, targets, strict=True)) >= 10
    assert s2s.load(tmp_path / "run").translate(sources).sentences == found  # with the normalization that was learned

    # A cell of two by two pixels is called by its row and its first column.
    wide = next(line for line, target in zip(sources, targets, strict=True) if len(target.split()) == 3)
    called = tuple(f"{row}:{column}" for row in (1, 2, 3) for column in range(1, 12, 2))
    assert model.attention(wide).source == called
    np.testing.assert_array_equal(model.trained.display(wide).picture, np.asarray(Image.open(wide)))

    (tmp_path / "broken.png").write_bytes((data / "test-0.png").read_bytes()[:40])
    for name in ("broken.png", "none.png"):
        with pytest.raises(UserError, match=rf"line 2: .*{name}: "):
            model.translate([sources[0], str(tmp_path / name)])
    (tmp_path / "list").write_text("".join(f"{line}\n" for line in [*sources[:3], tmp_path / "broken.png"]))
    broken = lines["test"] | {"source": str(tmp_path / "list"), "target": str(tmp_path / "targets")}
    (tmp_path / "targets").write_text("a\n" * 4)
    with pytest.raises(UserError, match=r"list and .*targets, line 4: .*broken\.png: "):
        s2s.train(values, tmp_path / "other", silent=True, data={"train": broken})
