"""A source as a picture and a sound: values worked by hand."""

import io
import wave

import numpy as np

from seq2seq_attn.corpora.display import Display, picture_of, wav_file


def test_frames_are_columns_with_the_first_feature_at_the_bottom_and_large_values_dark():
    frames = np.array([[0.0, 5.0, 10.0], [10.0, 0.0, 5.0]])
    low, high = 0.0, 10.0  # the hundredths at both ends lie within the repeated extremes
    assert (np.percentile(frames, 1), np.percentile(frames, 99)) == (low, high)
    assert picture_of(frames).tolist() == [[0, 128], [128, 255], [255, 0]]
    assert picture_of(np.full((2, 3), 7.0)).tolist() == [[255] * 2] * 3, "silence"


def test_a_sound_keeps_its_samples_and_is_cut_with_its_picture():
    samples = np.array([0.0, 0.5, -1.0, 2.0])  # beyond 1: clipped
    display = Display(np.arange(12, dtype=np.uint8).reshape(2, 6), wav_file(samples, rate=8))
    assert display.seconds == 0.5
    with wave.open(io.BytesIO(display.sound)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 8)
        assert np.frombuffer(file.readframes(4), "<i2").tolist() == [0, 16384, -32767, 32767]
    half = display.first(0.5)
    assert half.picture.tolist() == [[0, 1, 2], [6, 7, 8]]
    assert half.seconds == 0.25
    assert Display(display.picture).first(0.01).picture.tolist() == [[0], [6]]
    assert Display(display.picture).seconds is None
