"""Pictures as a source: what a file becomes, how values are normalized, and which files are refused."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from seq2seq_attn.corpora.images import MOST_PIXELS, ImageConfig
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.writing import write_bytes
from seq2seq_attn.strict import parse

GIVEN = {"mean": [0.0], "std": [1.0]}
COLORS = {"color": True, "normalization": {"mean": [0.0] * 3, "std": [1.0] * 3}}


def front_end(**options):
    return parse(ImageConfig, {"height": 4, "normalization": GIVEN} | options).build(())


@pytest.fixture
def saved(tmp_path):
    """A function that saves an array of gray or color values as a picture, and returns its path."""

    def save(values, name="picture.png", **options):
        path = tmp_path / name
        Image.fromarray(np.asarray(values), **options).save(path)
        return str(path)

    return save


def test_positions_are_columns_and_values_those_of_the_file(saved):
    gray = np.arange(4 * 7, dtype=np.uint8).reshape(4, 7)
    source = front_end()
    item = source.encode(saved(gray))
    assert item.dtype == np.uint8  # a quarter of what is cached as floats
    np.testing.assert_array_equal(item[:, :, 0], gray.T)
    assert source.length(item) == 7
    assert source.labels(saved(gray)) == list("1234567")
    color = np.random.default_rng(0).integers(0, 256, size=(4, 5, 3), dtype=np.uint8)
    np.testing.assert_array_equal(front_end(**COLORS).encode(saved(color)), color.swapaxes(0, 1))
    assert (source.size, front_end(**COLORS).size) == ((4, 1), (4, 3))


def test_pictures_are_scaled_to_the_height_with_their_proportions_or_stretched(saved):
    path = saved(np.full((8, 20), 77, dtype=np.uint8))
    assert front_end().encode(path).shape == (10, 4, 1)
    assert front_end(width=6).encode(path).shape == (6, 4, 1)
    assert (front_end().encode(path) == 77).all()
    assert front_end().encode(saved(np.zeros((90, 1), dtype=np.uint8))).shape == (1, 4, 1)  # at least a column


def test_what_is_transparent_is_white_whatever_its_color(saved):
    half = np.zeros((4, 4, 4), dtype=np.uint8)
    half[:, :, 3] = [0, 255, 128, 0]
    assert front_end().encode(saved(half))[:, 0, 0].tolist() == [255, 0, 127, 255]
    path = saved(half, "palette.gif")  # one color of a palette is transparent
    assert front_end().encode(path)[:, 0, 0].tolist()[:2] == [255, 0]


def test_a_scan_of_16_bits_and_a_turned_photograph_are_read_as_they_look(saved):
    deep = np.array([[0, 256, 32768, 65535]] * 4, dtype=np.uint16)
    assert front_end().encode(saved(deep))[:, 0, 0].tolist() == [0, 1, 128, 255]
    turned = Image.fromarray(np.arange(4 * 6, dtype=np.uint8).reshape(4, 6))
    exif = turned.getexif()
    exif[0x0112] = 6  # the orientation: to be turned clockwise by 90 degrees
    path = saved(np.asarray(turned))
    turned.save(path, exif=exif)
    upright = front_end(height=6).encode(path)[:, :, 0].T
    np.testing.assert_array_equal(upright, np.rot90(np.asarray(turned), -1))


def test_the_learned_normalization_has_mean_0_and_variance_1_in_each_channel(saved, tmp_path):
    random = np.random.default_rng(1)
    lines = [saved(random.integers(0, (90, 180, 256), size=(4, 6, 3), dtype=np.uint8), f"{i}.png") for i in range(5)]
    config = parse(ImageConfig, {"height": 4, "color": True})
    source = config.build(["", *lines])
    columns = np.concatenate([source.collate([source.encode(line)]).frames[0] for line in lines])
    np.testing.assert_allclose(columns.mean(axis=(0, 1)), 0, atol=1e-6)
    np.testing.assert_allclose(columns.std(axis=(0, 1)), 1, atol=1e-6)
    for name, content in source.files("source").items():
        write_bytes(tmp_path / "run" / name, content)
    assert config.load(tmp_path / "run", "source").difference(source) is None
    assert config.build(lines[:1]).difference(source) is not None
    flat = parse(ImageConfig, {"height": 4}).build([saved(np.full((4, 4), 51, dtype=np.uint8))])
    assert (flat.normalization.mean, flat.normalization.std) == ((pytest.approx(0.2),), (1.0,))


def test_a_batch_is_padded_on_the_right_and_rows_are_selected(saved):
    source = front_end(normalization={"mean": [0.5], "std": [0.25]})
    items = [source.encode(saved(np.full((4, width), 255, dtype=np.uint8))) for width in (3, 5)]
    batch = source.collate(items)
    assert batch.frames.shape == (2, 5, 4, 1)
    assert batch.lengths.tolist() == [3, 5]
    assert batch.frames[1].unique().tolist() == [2.0]
    assert batch.select(batch.lengths.argsort()[:1]).frames.shape == (1, 3, 4, 1)


def png(width, height):
    """A PNG whose header has this size, and whose content ends early."""

    def part(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(b"\0" * 9)) + part(b"IEND", b"")


def picture(format, size=(40, 40), values=np.uint8):
    content = io.BytesIO()
    Image.fromarray(np.random.default_rng(2).integers(0, 256, size=size).astype(values)).save(content, format)
    return content.getvalue()


BAD = {
    "empty": (b"", "no picture"),
    "text": (b"one two three\n", "no picture"),
    "cut.png": (picture("PNG")[:900], "broken or truncated"),
    "cut.jpg": (picture("JPEG")[:500], "broken or truncated"),
    "cut.webp": (picture("WEBP")[:500], "broken or truncated"),
    "changed.png": (picture("PNG")[:60] + b"?" * 60 + picture("PNG")[120:], "broken or truncated"),
    "header.png": (picture("PNG")[:20], "broken or truncated"),
    "bomb.png": (png(20_000, 20_000), f"{MOST_PIXELS:,} pixels"),
    "warned.png": (png(10_000, 10_000), f"{MOST_PIXELS:,} pixels"),
    "large.png": (png(9_000, 9_000), f"{MOST_PIXELS:,} pixels"),
    "depth.tiff": (picture("TIFF", values=np.float32), "no known range"),
    "counts.tiff": (picture("TIFF", values=np.int32), "no known range"),
    "wide.png": (picture("PNG", (1, 1 << 20)), f"{MOST_PIXELS:,} pixels"),  # 2^30 once it is 32 high
    "zero.png": (png(0, 4), "no picture"),
    "zero.gif": (b"GIF89a\0\0\0\0\0\0\0;", ""),
    "zero.bmp": (b"BM" + struct.pack("<IIIIiiHHIIiiII", 58, 0, 54, 40, 0, 4, 1, 24, 0, 4, 0, 0, 0, 0), ""),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_picture_is_named_in_one_line(name, tmp_path, recwarn):
    content, reason = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as refused:
        front_end(height=32).encode(str(tmp_path / name))
    assert str(refused.value).startswith(f"{tmp_path / name}: ")
    assert reason in str(refused.value)
    assert not recwarn.list


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    for path in (tmp_path / "none.png", tmp_path):
        with pytest.raises(UserError, match=f"^{path}: "):
            front_end().encode(str(path))


def test_the_line_of_a_picture_that_cannot_be_learned_from_is_named(saved):
    path, config = saved(np.zeros((4, 4), dtype=np.uint8)), parse(ImageConfig, {"height": 4})
    with pytest.raises(UserError, match=r"line 3: .*none\.png"):
        config.build([path, "", "none.png"])
    with pytest.raises(UserError, match="no line names a picture"):
        config.build(["", " "])


@pytest.mark.parametrize(
    "options",
    [{"normalization": COLORS["normalization"]}, COLORS | {"color": False}, {"normalization": GIVEN, "color": True}],
)
def test_a_normalization_has_a_number_for_each_channel(options):
    with pytest.raises(UserError, match="normalization"):
        parse(ImageConfig, options)
