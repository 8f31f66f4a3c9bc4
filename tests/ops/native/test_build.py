"""Kernels are compiled once and cached; without them, everything still works."""

import shutil
import warnings
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.translator import pad
from seq2seq_attn.ops import native
from seq2seq_attn.ops.loss import vocabulary_loss
from seq2seq_attn.ops.native import build
from seq2seq_attn.search import SearchOptions, beam_search

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
def test_kernels_are_compiled_once_and_then_loaded_from_the_cache(library, monkeypatch):
    assert library().one() == 1
    (cached,) = build.cache_folder().iterdir()  # and no temporary file is left
    monkeypatch.setattr(build, "_compile", lambda command: pytest.fail("compiled again"))
    assert library().one() == 1
    assert cached.suffix == ".so"


@pytest.mark.skipif(COMPILER is None, reason="no compiler here")
def test_processor_compiler_and_sources_each_change_the_cached_file(library, monkeypatch):
    monkeypatch.setattr(build, "_compile", lambda command: Path(command[-1]).touch())
    monkeypatch.setattr(build.ctypes, "CDLL", lambda path: None)
    library()
    monkeypatch.setattr(build, "_processor", lambda: "another")
    library()
    monkeypatch.setattr(build, "_version", lambda compiler: "another")
    library()
    (build._SOURCES / "numbers.h").write_text("#pragma once\n// more\n")
    library()
    assert len(list(build.cache_folder().glob("*.so"))) == 4


@pytest.mark.skipif(COMPILER is None, reason="no compiler here")
def test_flags_that_a_compiler_rejects_are_left_out(library, monkeypatch, tmp_path):
    limited = tmp_path / "limited"
    limited.write_text(f'#!/bin/sh\ncase "$*" in *-march*|*-fopenmp*) exit 1;; esac\nexec {COMPILER} "$@"\n')
    limited.chmod(0o755)
    monkeypatch.setenv("CXX", str(limited))
    assert library() is not None


def test_without_a_compiler_or_if_disabled_there_are_no_kernels_and_no_warning(library, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setenv(build.SWITCH, "0")
        assert library() is None
        monkeypatch.delenv(build.SWITCH)
        monkeypatch.setenv("PATH", "")
        assert library() is None
    assert not build.cache_folder().exists()


def test_a_failing_compiler_is_reported_in_one_line(library, monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "numbers.h: no such thing" >&2\nexit 1\n')
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.warns(UserWarning, match=r"^no compiled kernels.*: numbers\.h: no such thing; set SEQ2SEQ_ATTN"):
        assert library() is None
    assert list(build.cache_folder().iterdir()) == []


@pytest.mark.skipif(COMPILER is None, reason="no compiler here")
def test_a_cache_folder_that_cannot_be_written_is_a_warning(library, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="no compiled kernels"):
        assert library() is None


@pytest.mark.skipif(COMPILER is None, reason="no compiler here")
def test_a_user_without_a_home_folder_has_no_kernels(library, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("Could not determine home directory.")))
    with pytest.warns(UserWarning, match="no compiled kernels.*home directory"):
        assert library() is None


def test_training_and_search_work_without_kernels(monkeypatch):
    monkeypatch.setenv(build.SWITCH, "0")
    monkeypatch.setattr(native, "library", build.library.__wrapped__)  # the cached function has read the variable
    assert not native.has_kernels(torch.empty(0))
    config = RecurrentConfig.model_validate({"embedding_size": 7, "encoder": {"hidden_size": 5}})
    model = config.build(17, 19, False)
    source, target = pad([[4, 9, 6, 3], [5, 3]]), pad([[7, 3], [10, 8, 3]])
    features = model.decode(model.decoder_inputs(target), model.encode(source)).features[target.is_token]
    loss, _ = vocabulary_loss(model, model.project, model.output, features, target.tokens[target.is_token])
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert len(beam_search(model, source, SearchOptions(max_length=5))) == 2
