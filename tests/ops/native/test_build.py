"""Kernels are compiled once and kept; without them everything is computed all the same."""

import os
import shutil
import subprocess
import sys
import warnings

import pytest
import torch

from seq2seq_attn.ops.native import build

COMPILER = next(filter(None, map(shutil.which, build.COMPILERS)), None)


@pytest.fixture
def library(monkeypatch, tmp_path):
    """`build.library` as in a new process, with a cache of its own and one small source."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "numbers.h").write_text("#pragma once\n")
    (sources / "one.cpp").write_text('#include "numbers.h"\nextern "C" int one() { return 1; }\n')
    monkeypatch.setattr(build, "_SOURCES", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(build.SWITCH, raising=False)
    monkeypatch.delenv("CXX", raising=False)
    return lambda: build.library.__wrapped__(torch.float32)


@pytest.mark.skipif(COMPILER is None, reason="no compiler here")
def test_they_are_compiled_once_and_found_again(library, monkeypatch):
    assert library().one() == 1
    (kept,) = build.cache_folder().iterdir()  # and nothing half-made beside it
    monkeypatch.setattr(build, "_compile", lambda command: pytest.fail("compiled again"))
    assert library().one() == 1
    assert kept.suffix == ".so"


@pytest.mark.skipif(COMPILER is None, reason="no compiler here")
def test_another_processor_another_compiler_or_other_sources_have_a_file_of_their_own(library, monkeypatch):
    library()
    monkeypatch.setattr(build, "_processor", lambda: "another")
    library()
    monkeypatch.setattr(build, "_version", lambda compiler: "another")
    library()
    (build._SOURCES / "numbers.h").write_text("#pragma once\n// more\n")
    library()
    assert len(list(build.cache_folder().glob("*.so"))) == 4


@pytest.mark.skipif(COMPILER is None, reason="no compiler here")
def test_a_compiler_that_knows_fewer_flags_is_asked_for_fewer(library, monkeypatch, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text(f'#!/bin/sh\ncase "$*" in *-march*|*-fopenmp*) exit 1;; esac\nexec {COMPILER} "$@"\n')
    plain.chmod(0o755)
    monkeypatch.setenv("CXX", str(plain))
    assert library() is not None


def test_without_a_compiler_or_switched_off_there_are_none_and_no_word_of_it(library, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setenv(build.SWITCH, "0")
        assert library() is None
        monkeypatch.delenv(build.SWITCH)
        monkeypatch.setenv("PATH", "")
        assert library() is None
    assert not build.cache_folder().exists()


def test_a_compiler_that_fails_is_told_in_one_line(library, monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "numbers.h: no such thing" >&2\nexit 1\n')
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.warns(UserWarning, match=r"^no compiled kernels.*: numbers\.h: no such thing; SEQ2SEQ_ATTN_NATIVE=0"):
        assert library() is None
    assert list(build.cache_folder().iterdir()) == []


@pytest.mark.skipif(COMPILER is None, reason="no compiler here")
def test_a_cache_that_cannot_be_written_is_told_in_one_line(library, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="no compiled kernels"):
        assert library() is None


def test_training_and_search_go_on_without_them():
    program = """
import torch
from seq2seq_attn.ops import native
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.translator import pad
from seq2seq_attn.search import SearchOptions, beam_search
from seq2seq_attn.ops.loss import vocabulary_loss
assert not native.has_kernels(torch.empty(0))
config = RecurrentConfig.model_validate({"embedding_size": 7, "encoder": {"hidden_size": 5}})
model = config.build(17, 19, False)
source, target = pad([[4, 9, 6, 3], [5, 3]]), pad([[7, 3], [10, 8, 3]])
features = model.decode(model.decoder_inputs(target), model.encode(source)).features[target.is_token]
loss, _ = vocabulary_loss(model, model.project, model.output, features, target.tokens[target.is_token])
loss.backward()
assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
print(len(beam_search(model, source, SearchOptions(max_length=5))))
"""
    environment = {**os.environ, build.SWITCH: "0"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert (done.stdout.strip(), done.stderr) == ("2", "")
