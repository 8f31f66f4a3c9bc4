"""Front ends of frames and of sound: what a line becomes, and the files that are refused in one line."""

import io
import struct
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from seq2seq_attn.corpora.encoded import EncodedLines, save_joined
from seq2seq_attn.corpora.frames import FramesConfig, statistics_of
from seq2seq_attn.corpora.speech import SpeechConfig, with_deltas
from seq2seq_attn.errors import UserError

RATE = 8000


def written(path, samples, rate=RATE, channels=1):
    with wave.open(str(path), "wb") as sound:
        sound.setframerate(rate)
        sound.setnchannels(channels)
        sound.setsampwidth(2)
        sound.writeframes(np.asarray(samples, dtype="<i2").tobytes())
    return str(path)


@pytest.fixture
def speech():
    for package in ("soundfile", "kaldi_native_fbank"):
        pytest.importorskip(package, reason="the extra [speech] is not installed")


@pytest.fixture
def noise(speech):
    return np.random.default_rng(4).normal(0, 3000, size=1000).astype(np.int16)


@pytest.fixture
def arrays(tmp_path):
    draw, lines = np.random.default_rng(2), []
    for number, length in enumerate([4, 1, 7]):
        lines.append(str(tmp_path / f"{number}.npy"))
        frames = draw.normal(1e6, 3, size=(length, 3))
        frames[:, 1] = 0.1
        np.save(lines[-1], frames)
    return lines


def test_frames_are_normalized_by_all_training_frames_and_a_constant_feature_is_0(arrays):
    front_end = FramesConfig().build([arrays[0], "", *arrays[1:]])
    every = np.concatenate([np.load(line).astype(np.float32).astype(np.float64) for line in arrays])
    wanted = (every - every.mean(axis=0))[:, [0, 2]] / every.std(axis=0)[[0, 2]]
    found = np.concatenate([front_end.encode(line) for line in arrays])
    np.testing.assert_allclose(found[:, [0, 2]], wanted, atol=1e-4)
    assert (found[:, 1] == 0).all()
    assert (front_end.size, front_end.words(arrays[0])) == (3, ["1", "2", "3", "4"])
    assert front_end.word_indices(arrays[2]) == list(range(7))


def test_a_large_corpus_is_normalized_by_evenly_spaced_recordings(arrays, monkeypatch):
    monkeypatch.setattr("seq2seq_attn.corpora.front_end.LEARNED_FROM", 2)
    found = FramesConfig().build(["", *arrays]).statistics
    np.testing.assert_array_equal(found, FramesConfig().build([arrays[0], arrays[2]]).statistics)


def test_a_recording_is_normalized_by_its_own_frames_or_not_at_all(arrays):
    own = FramesConfig(normalize="recording").build(arrays).encode(arrays[2])
    np.testing.assert_allclose(own[:, [0, 2]].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(own[:, [0, 2]].std(axis=0), 1, atol=1e-5)
    raw = FramesConfig(normalize="none").build(arrays)
    np.testing.assert_array_equal(raw.encode(arrays[2]), np.load(arrays[2]).astype(np.float32))


def test_a_run_keeps_what_was_learned_and_another_corpus_is_another_front_end(arrays, tmp_path):
    learned, other = FramesConfig().build(arrays), FramesConfig().build(arrays[:1])
    for name, content in learned.files("source").items():
        (tmp_path / name).write_bytes(content)
    loaded = FramesConfig().load(tmp_path, "source")
    assert loaded.difference(learned) is None
    assert learned.difference(other) is not None
    np.testing.assert_array_equal(loaded.encode(arrays[0]), learned.encode(arrays[0]))
    (tmp_path / "source.statistics.npy").write_bytes(b"")
    with pytest.raises(UserError, match=r"source\.statistics\.npy"):
        FramesConfig().load(tmp_path, "source")


def log_mel(samples, bins, rate=RATE, length=200, shift=80):
    """Kaldi's features again: no mean, pre-emphasis, Povey's window, power, triangles on the mel scale."""

    def mel(hertz):
        return 1127 * np.log1p(np.asarray(hertz) / 700)

    size = 256
    edges = np.linspace(mel(20), mel(rate / 2), bins + 2)
    places = mel(np.arange(size // 2) * rate / size)
    up = (places - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - places) / (edges[2:] - edges[1:-1])[:, None]
    filters = np.maximum(0, np.minimum(up, down))
    window = np.hanning(length) ** 0.85
    frames = []
    for start in range(0, len(samples) - length + 1, shift):
        frame = samples[start : start + length].astype(np.float64)
        frame = frame - frame.mean()
        frame = frame - 0.97 * np.concatenate([frame[:1], frame[:-1]])
        power = np.abs(np.fft.rfft(frame * window, size)) ** 2
        frames.append(np.log(np.maximum(filters @ power[: size // 2], np.finfo(np.float32).eps)))
    return np.array(frames)


def test_sounds_become_the_log_mel_features_of_kaldi(tmp_path, noise):
    config = SpeechConfig(sample_rate=RATE, mel_bins=13, normalize="none")
    line = written(tmp_path / "noise.wav", noise)
    frames = config.read(line)
    np.testing.assert_allclose(frames, log_mel(noise, 13), atol=2e-3)
    assert config.count(line) == len(frames) == 11
    assert config.words([])(line) == [f"{0.01 * number:.2f}" for number in range(11)]
    both = np.stack([noise, np.zeros_like(noise)], axis=1)
    halved = config.read(written(tmp_path / "both.wav", both, channels=2))
    np.testing.assert_allclose(halved, frames - np.log(4), atol=2e-3)


def test_a_sound_is_seen_as_its_bands_over_time_and_heard_as_it_is(tmp_path, noise):
    line = written(tmp_path / "noise.wav", noise)
    found = SpeechConfig(sample_rate=RATE, mel_bins=13, deltas=1).build([line]).display(line)
    assert found.picture.shape == (13, 11)  # without deltas
    assert found.seconds == len(noise) / RATE
    with wave.open(io.BytesIO(found.sound)) as sound:
        heard = np.frombuffer(sound.readframes(len(noise)), "<i2")
    np.testing.assert_allclose(heard, noise, atol=1)


def test_deltas_are_the_slopes_over_five_frames(tmp_path, noise):
    frames = np.random.default_rng(1).normal(size=(6, 2)).astype(np.float32)
    at = lambda place: frames[min(max(place, 0), 5)]  # noqa: E731
    slopes = [sum(n * (at(t + n) - at(t - n)) for n in (1, 2)) / 10 for t in range(6)]
    found = with_deltas(frames, 2)
    np.testing.assert_allclose(found[:, 2:4], slopes, atol=1e-6)
    np.testing.assert_allclose(found[:, 4:], with_deltas(found[:, 2:4], 1)[:, 2:], atol=1e-6)
    line = written(tmp_path / "noise.wav", noise)
    assert SpeechConfig(sample_rate=RATE, mel_bins=5, deltas=1).build([line]).size == 10


def half(path):
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: len(content) // 2])


SOUNDS = {
    "missing": (None, "no such file"),
    "text": (b"no sound at all" * 9, "cannot|not a file of sound"),
    "empty": (b"", "not a file of sound"),
    "cut": (b"RIFF\x00\x00", "not a file of sound"),
    "other rate": (
        lambda path: written(path, np.arange(900), 16000),
        "16000 Hz.*sample_rate=8000;.*set source.sample_rate=16000",
    ),
    "half copied": (lambda path: half(written(path, np.arange(2000))), "ends after 1978 of 4000 bytes of sound; copy"),
    "silence": (lambda path: written(path, np.zeros(900)), "silence"),
    "short": (lambda path: written(path, np.arange(150)), "150 samples"),
    "no samples": (lambda path: written(path, []), "0 samples"),
    "hours": (lambda path: written(path, np.zeros(2 * RATE)), "2 seconds.*max_seconds=1.5"),
}


@pytest.mark.usefixtures("speech")
@pytest.mark.parametrize("name", SOUNDS)
def test_a_sound_that_cannot_be_used_is_refused_in_one_line_with_its_name(name, tmp_path):
    content, message = SOUNDS[name]
    path = tmp_path / "bad.wav"
    if callable(content):
        content(path)
    elif content is not None:
        path.write_bytes(content)
    config = SpeechConfig(sample_rate=RATE, max_seconds=1.5)
    with pytest.raises(UserError, match=rf"line 2: {path}: .*({message})") as refused:
        config.build(["", str(path)])
    assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("speech")
def test_a_sound_that_was_written_to_a_pipe_announces_any_size_and_is_read(tmp_path, noise):
    line = written(tmp_path / "noise.wav", noise)
    config = SpeechConfig(sample_rate=RATE, normalize="none")
    expected, content = config.read(line), Path(line).read_bytes()
    for size in (0x7FFFF000, 0xFFFFFFFF):
        Path(line).write_bytes(content[:40] + struct.pack("<I", size) + content[44:])
        np.testing.assert_array_equal(config.read(line), expected)


def test_more_bands_than_the_window_tells_apart_are_refused(tmp_path, noise):
    with pytest.raises(UserError, match=r"mel_bins=300.*sample_rate=8000"):
        SpeechConfig(sample_rate=RATE, mel_bins=300).build([written(tmp_path / "noise.wav", noise)])


ARRAYS = {
    "pickled": lambda path: np.save(path, np.array([{}]), allow_pickle=True),
    "one axis": lambda path: np.save(path, np.ones(5)),
    "no frame": lambda path: np.save(path, np.ones((0, 3))),
    "complex": lambda path: np.save(path, np.ones((2, 3), dtype=complex)),
    "not finite": lambda path: np.save(path, np.array([[1, 2, np.inf]])),
    "beyond float32": lambda path: np.save(path, np.full((2, 3), 1e300)),
    "another width": lambda path: np.save(path, np.ones((2, 4))),
    "several": lambda path: path.write_bytes(_archive(path)),
    "text": lambda path: path.write_text("1 2 3\n"),
    "empty": lambda path: path.write_text(""),
}


def _archive(path):
    np.savez(path.with_suffix(".npz"), a=np.ones((2, 3)))
    return path.with_suffix(".npz").read_bytes()


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_cannot_be_used_is_refused_in_one_line_with_its_name(name, arrays, tmp_path):
    path = tmp_path / "bad.npy"
    ARRAYS[name](path)
    with pytest.raises(UserError, match=rf"line 2: {path}: ") as refused:
        FramesConfig().build([arrays[0], str(path)])
    assert "\n" not in str(refused.value)
    with pytest.raises(UserError, match=rf"^{path}: "):
        FramesConfig().build(arrays).encode(str(path))


def test_a_path_that_is_written_in_another_way_is_refused_with_the_way_to_write_it(tmp_path, monkeypatch):
    (tmp_path / "my arrays").mkdir()
    np.save(tmp_path / "my arrays" / "a.npy", np.ones((2, 3)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for line in ('"my arrays/a.npy"', "my arrays\\a.npy", " my arrays/a.npy "):
        with pytest.raises(UserError) as refused:
            FramesConfig().read(line)
        assert str(refused.value) == f"{line.lstrip()}: no such file; write the path as my arrays/a.npy"
    with pytest.raises(UserError, match=rf"write the path as {tmp_path}/my arrays/a\.npy"):
        FramesConfig().read("~/my arrays/a.npy")
    with pytest.raises(
        UserError, match=rf"b\.npy: no such file; the path is relative to the current folder, {tmp_path}"
    ):
        FramesConfig().read("my arrays/b.npy")


@pytest.mark.parametrize("package", ["soundfile", "kaldi_native_fbank"])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(package, tmp_path, noise, monkeypatch):
    declared = ["soundfile>=0.12; extra == 'speech'", "kaldi-native-fbank>=1.20; extra == 'speech'"]
    monkeypatch.setattr("seq2seq_attn.errors.requires", lambda name: declared)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"{package}.*pip install .*\[speech\]"):
        SpeechConfig(sample_rate=RATE).build([written(tmp_path / "noise.wav", noise)])


def test_without_a_recording_there_is_nothing_to_learn():
    with pytest.raises(UserError, match="no line names a recording"):
        FramesConfig().build(["", " "])


def test_statistics_are_those_of_all_recordings():
    recordings = (np.full((2, 3), number, dtype=np.float32) for number in range(50))
    np.testing.assert_allclose(statistics_of(recordings), [[24.5] * 3, [np.arange(50).std()] * 3])


def test_recordings_in_parts_are_joined_in_a_file_and_their_kinds_agree(tmp_path):
    def part(*lengths, features=3):
        return EncodedLines.of(np.full((length, features), length, np.float32) for length in lengths)

    save_joined([part(0), part(2, 0, 1), part(4)], tmp_path, "source")
    lines = EncodedLines.load(tmp_path, "source")
    assert not lines.values.flags.owndata  # mapped from the file
    assert [line.tolist() for line in lines] == [[[n] * 3] * n for n in (0, 2, 0, 1, 4)]
    with pytest.raises(UserError, match=r"\(2, 5\), and one before it of .*\(0, 3\)"):
        save_joined([part(1), part(2, features=5)], tmp_path, "source")
    assert EncodedLines.of([]).values.shape == (0,)
