"""Sources of sound: a line names a recording, whose frames are log-mel features."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt

from seq2seq_attn.corpora.display import Display, picture_of, wav_file
from seq2seq_attn.corpora.frames import Recording, RecordingConfig
from seq2seq_attn.corpora.front_end import open_named
from seq2seq_attn.errors import UserError, needing

_NEEDED = "source.kind=speech"
# What libsndfile, which reads on, says of a WAV file with less sound than its header announces. A program that writes
# to a pipe cannot know the size, and announces one that no file has.
_ENDS_EARLY = re.compile(r"^data : (\d+) \(should be (\d+)\)", re.MULTILINE)
_STREAMED = 0x7FFF0000  # bytes
_FULL_SCALE = 32768  # of the 16-bit samples that Kaldi reads; libsndfile gives those from -1 to 1


class SpeechConfig(RecordingConfig):
    """`{kind: speech, sample_rate: 16000, mel_bins: 40}`: a line is the path of a file that libsndfile reads.

    Its frames are the logarithms of the energies in bands of the mel scale, as Kaldi computes them, with Povey's window
    and no dither. The channels of a file are averaged.
    """

    kind: Literal["speech"] = "speech"

    sample_rate: PositiveInt = 16000  # of every file, in Hz
    mel_bins: Annotated[int, Field(ge=3, le=512)] = 40  # bands of the mel scale, from 20 Hz to half the sample rate
    deltas: Annotated[int, Field(ge=0, le=2)] = 0  # 1: and their slopes over time; 2: and the slopes of these
    frame_length: PositiveFloat = 25.0  # of the window, in milliseconds
    frame_shift: PositiveFloat = 10.0  # from one frame to the next, in milliseconds
    max_seconds: PositiveFloat = 60.0  # a longer file is refused

    def read(self, line: str) -> Recording:
        samples = self._read_samples(line)
        if not np.isfinite(samples).all() or len(samples) < self._samples(self.frame_length):
            raise UserError(f"{line}: the file is damaged; write it again")
        if samples.min() == samples.max():
            raise UserError(f"{line}: silence, all samples are equal; leave it out")
        return with_deltas(self._log_mel(samples), self.deltas)

    def count(self, line: str) -> int:
        with _sound(line) as sound:
            self._require(line, sound)
            after_the_first = int(sound.frames) - self._samples(self.frame_length)
            return 1 + after_the_first // self._samples(self.frame_shift)

    def labels(self, count: int) -> list[str]:
        """When each frame begins, in seconds."""
        return [f"{number * self.frame_shift / 1000:.2f}" for number in range(count)]

    def display(self, line: str, frames: Recording) -> Display:
        return Display(picture_of(frames[:, : self.mel_bins]), wav_file(self._read_samples(line), self.sample_rate))

    def _read_samples(self, line: str) -> NDArray[np.float32]:
        """The mean of the channels of a file (samples,), from -1 to 1."""
        with _sound(line) as sound:
            self._require(line, sound)
            samples: NDArray[np.float32] = sound.read(dtype="float32", always_2d=True).mean(axis=1)
        return samples

    def _samples(self, milliseconds: float) -> int:
        return int(self.sample_rate * 0.001 * milliseconds)

    def _require(self, line: str, sound: Any) -> None:
        """UserError if the length or the rate of a file is not what the configuration says."""
        if sound.samplerate != self.sample_rate:
            raise UserError(
                f"{line}: {sound.samplerate} Hz, and source.sample_rate={self.sample_rate}; convert it, as with: "
                f"ffmpeg -i FILE -ar {self.sample_rate} NEW.wav, or if all have this rate, set "
                f"source.sample_rate={sound.samplerate}"
            )
        sizes = _ENDS_EARLY.search(sound.extra_info)
        if sizes is not None and int(sizes[1]) < _STREAMED:
            raise UserError(f"{line}: ends after {sizes[2]} of {sizes[1]} bytes of sound; copy it again")
        seconds = sound.frames / sound.samplerate
        if seconds > self.max_seconds:
            raise UserError(
                f"{line}: {seconds:,.0f} seconds, and source.max_seconds={self.max_seconds:g}; cut it into utterances"
            )
        if sound.frames < self._samples(self.frame_length):
            raise UserError(f"{line}: {sound.frames} samples, fewer than one frame of {self.frame_length:g} ms has")

    def _log_mel(self, samples: NDArray[np.float32]) -> Recording:
        """Log-mel energies (L, mel_bins)."""
        kaldi = _kaldi()
        options = kaldi.FbankOptions()
        frames, bands = options.frame_opts, options.mel_opts
        frames.samp_freq, frames.dither = self.sample_rate, 0.0
        frames.frame_length_ms, frames.frame_shift_ms = self.frame_length, self.frame_shift
        bands.num_bins = self.mel_bins
        try:
            filters = kaldi.OnlineFbank(options)
        except ValueError:
            raise UserError(
                f"source.mel_bins={self.mel_bins} are too many for source.sample_rate={self.sample_rate} and "
                f"source.frame_length={self.frame_length:g}; set fewer"
            ) from None
        filters.accept_waveform(self.sample_rate, samples * _FULL_SCALE)
        filters.input_finished()
        return np.stack([filters.get_frame(frame) for frame in range(filters.num_frames_ready)])


def _kaldi() -> Any:
    """The library of Kaldi's features. UserError: it is not installed."""
    with needing(_NEEDED):
        import kaldi_native_fbank  # an extra
    return kaldi_native_fbank


@contextmanager
def _sound(line: str) -> Iterator[Any]:
    """A file of sound, opened. UserError: it cannot be read."""
    with needing(_NEEDED):
        import soundfile  # an extra
    with open_named(line) as file:
        try:
            with soundfile.SoundFile(file) as sound:
                yield sound
        except soundfile.LibsndfileError as error:
            raise UserError(f"{line}: not a file of sound that can be read ({error.error_string})") from None


def with_deltas(frames: Recording, order: int) -> Recording:
    """The frames (L, F) with their slopes over five frames, d_t = Σ_n n (x_{t+n} - x_{t-n}) / 10 for n = 1 and 2.

    (Young et al., The HTK Book, eq. 5.16.) Beyond its ends, a recording goes on as its first and last frame.

    Args:
        frames: x.
        order: How often: 1 adds the slopes, 2 those of the slopes as well.

    Returns:
        (L, (1 + order) F).
    """
    parts = [frames]
    for _ in range(order):
        around = np.pad(parts[-1], ((2, 2), (0, 0)), mode="edge")
        last = len(around)
        slopes = (around[3 : last - 1] - around[1 : last - 3] + 2 * (around[4:] - around[: last - 4])) / 10
        parts.append(slopes.astype(np.float32))
    return np.concatenate(parts, axis=1)
