"""Sounds through the program: a model of two tones is trained, goes on exactly, and refuses what it cannot read."""

import shutil
import wave

import numpy as np
import pytest
import yaml
from plain_recipe import constant

import seq2seq_attn as s2s
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import write_recorded

RATE = 8000


def tones(path, words, rate=RATE):
    times = np.arange(rate // 10) / rate
    samples = np.concatenate([8000 * np.sin(2 * np.pi * {"low": 300, "high": 1500}[word] * times) for word in words])
    with wave.open(str(path), "wb") as sound:
        sound.setframerate(rate)
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.writeframes(samples.astype("<i2").tobytes())


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    pytest.importorskip("kaldi_native_fbank", reason="the extra [speech] is not installed")
    folder, draw = tmp_path_factory.mktemp("tones"), np.random.default_rng(1)
    for part, count in {"train": 24, "validation": 4}.items():
        words = [draw.choice(["low", "high"], size=draw.integers(1, 4)).tolist() for _ in range(count)]
        for number, each in enumerate(words):
            tones(folder / f"{part}{number}.wav", each)
        (folder / f"{part}.sounds").write_text("".join(f"{folder}/{part}{number}.wav\n" for number in range(count)))
        (folder / f"{part}.words").write_text("".join(f"{' '.join(each)}\n" for each in words))
    parts = ("train", "validation")
    values = {
        "data": {part: {"source": f"{folder}/{part}.sounds", "target": f"{folder}/{part}.words"} for part in parts},
        "source": {"kind": "speech", "sample_rate": RATE, "mel_bins": 8},
        "text": {"tokenizer": "word"},
        "model": {
            "embedding_size": 8,
            "encoder": {
                "kind": "pyramidal",
                "spec_augment": {"frequency_width": 2, "time_width": 5},
                "network": {"hidden_size": 8},
            },
            "decoder": {"kind": "bahdanau", "hidden_size": 16},
            "context": {"scorer": {"name": "location_aware", "hidden_size": 8}, "normalizer": "normalized_sigmoid"},
        },
        "training": {"max_epochs": 2, "batch_size": 8, "batch_unit": "sentences", "monitor": "loss", **constant(0.02)},
        "search": {"beam_size": 1},
    }
    (folder / "tones.yaml").write_text(yaml.safe_dump(values))
    return folder / "tones.yaml"


@pytest.fixture
def run(config, program):
    folder = config.parent / "run"
    if not folder.exists():
        assert program("train", config, "--output", folder).code == 0
    return folder


def test_a_run_with_masks_goes_on_as_if_it_had_not_stopped(config, run, program, tmp_path):
    assert program("train", config, "--output", tmp_path / "run", "training.max_epochs=1").code == 0
    assert program("train", config, "--output", tmp_path / "run", "--resume").code == 0
    weights = [(folder / "model.safetensors").read_bytes() for folder in (tmp_path / "run", run)]
    assert weights[0] == weights[1]


def test_sounds_are_read_by_their_names_and_a_bad_one_is_refused_by_its_line(config, run, program, refused, tmp_path):
    good, other = config.parent / "train0.wav", tmp_path / "other.wav"
    answer = program("translate", run, stdin=f"{good}\n\n{good}\n".encode())
    assert answer.code == 0, answer.err
    first, blank, last = answer.out.split("\n")[:3]
    assert (first, blank) == (last, "")
    tones(other, ["low"], 16000)
    shutil.copy(config, tmp_path / "cut.wav")
    for name, reason in {"other": "16000 Hz", "none": "no such file", "cut": "not a file of sound"}.items():
        error = refused("translate", run, stdin=f"{good}\n{tmp_path / name}.wav\n".encode())
        assert "line 2" in error
        assert f"{name}.wav: {reason}" in error
    (tmp_path / "list").write_text(f"{other}\n" * 4)
    error = refused("train", config, "--output", tmp_path / "run", f"data.validation.source={tmp_path}/list")
    assert f"{other}: 16000 Hz" in error


@pytest.mark.parametrize("part", ["train", "validation"])
def test_a_recording_that_was_changed_or_deleted_is_found_by_verification(config, run, program, refused, part):
    assert f"{part}.words name is as in training" in program("verify", run).out
    sound = config.parent / f"{part}0.wav"
    before = sound.read_bytes()
    try:
        tones(sound, ["high"] * 3)
        answer = program("verify", run)
        said = f"{part}.words: what the lines name is not that of the training" in answer.out
        assert (answer.code, said) == (1, True)
        assert f"{part}.sounds: what its lines name is not what" in refused(
            "train", config, "--output", run, "--resume", "training.max_epochs=3"
        )
        sound.unlink()
        answer = program("verify", run)
        assert (answer.code, f"{sound}: no such file" in answer.out) == (1, True)
    finally:
        sound.write_bytes(before)


def test_a_test_set_of_recordings_that_is_no_longer_named_is_found_by_verification(config, program, tmp_path):
    given = [
        f"data.test.{side}={config.parent}/validation.{name}"
        for side, name in (("source", "sounds"), ("target", "words"))
    ]
    assert program("train", config, "--output", tmp_path / "run", "training.max_epochs=1", *given).code == 0
    named = yaml.safe_load((tmp_path / "run/config.yaml").read_text())
    del named["data"]["test"]
    write_recorded(tmp_path / "run", {"config.yaml": yaml.safe_dump(named).encode()})
    answer = program("verify", tmp_path / "run")
    assert (answer.code, "data.test: its recordings or images were there in training" in answer.out) == (1, True)


def test_a_path_in_place_of_a_list_is_refused_with_what_to_write(config, run):
    with pytest.raises(UserError, match=r"write translate\(\[str\(path\)\]\)$"):
        s2s.load(run).translate(config.parent / "train0.wav")


def test_an_encoder_of_text_does_not_read_sounds(config, refused, tmp_path):
    values = yaml.safe_load(config.read_text())
    values["model"]["encoder"] = {"kind": "recurrent"}
    (tmp_path / "text.yaml").write_text(yaml.safe_dump(values))
    error = refused("train", tmp_path / "text.yaml", "--output", tmp_path / "run")
    assert "choose convolutional or linear or pyramidal" in error
