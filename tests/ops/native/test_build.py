"""Kernels are compiled once and cached; without them, everything still works."""

import hashlib
import re
import shutil
import signal
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.ops import fuse, native
from seq2seq_attn.ops.native import build
from seq2seq_attn.search import SearchOptions, beam_search
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.loss import training_loss

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


needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no compiler here")


@pytest.fixture
def cached(library):
    """The cached library, after it was compiled."""
    library()
    (path,) = build.cache_folder().glob("*.so")
    return path


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """Puts a shell script in front of the compiler."""

    def put(*lines):
        script = tmp_path / "compiler"
        script.write_text("\n".join(("#!/bin/sh", *lines, f'exec {COMPILER} "$@"', "")))
        script.chmod(0o755)
        monkeypatch.setenv("CXX", str(script))

    return put


@pytest.fixture
def compiled_by_others(tmp_path):
    """A library whose kernel answers 666."""
    source, compiled = tmp_path / "foreign.cpp", tmp_path / "foreign.so"
    source.write_text('extern "C" int one() { return 666; }\n')
    subprocess.run([COMPILER, "-shared", "-fPIC", source, "-o", compiled], check=True)
    return compiled.read_bytes()


def no_second_compilation(monkeypatch):
    monkeypatch.setattr(build, "_compile", lambda command: pytest.fail("compiled again"))


@needs_compiler
def test_kernels_are_compiled_once_and_then_loaded_from_the_cache(library, cached, monkeypatch):
    no_second_compilation(monkeypatch)
    assert library().one() == 1
    # No temporary file is left.
    assert {*build.cache_folder().iterdir()} == {cached, cached.with_suffix(".tried")}
    assert cached.name.endswith(f"-{hashlib.sha256(cached.read_bytes()).hexdigest()}.so")
    assert (cached.parent.stat().st_mode & 0o777, cached.stat().st_mode & 0o777) == (0o700, 0o600)


@needs_compiler
@pytest.mark.parametrize("traps", [signal.SIGILL, signal.SIGSEGV])
def test_a_library_that_would_end_the_process_is_not_loaded(library, traps, monkeypatch):
    trap = f"__attribute__((constructor)) static void trap() {{ raise({int(traps)}); }}"
    (build._SOURCES / "two.cpp").write_text(f"#include <csignal>\n{trap}\n")
    ends = rf"ends a process that loads it \({traps.name}\); delete .*\.tried to try again"
    with pytest.warns(UserWarning, match=rf"^no compiled kernels.*: the compiled library {ends}; set SEQ2SEQ"):
        assert library() is None
    no_second_compilation(monkeypatch)
    monkeypatch.setattr(sys, "executable", "/nowhere")  # it is not tried again
    with pytest.warns(UserWarning, match=ends):
        assert library() is None


@needs_compiler
def test_a_library_is_tried_once(library, cached, monkeypatch):
    assert cached.with_suffix(".tried").read_text() == ""
    monkeypatch.setattr(sys, "executable", "/nowhere")
    assert library().one() == 1
    cached.with_suffix(".tried").unlink()
    with pytest.warns(UserWarning, match="no compiled kernels.*nowhere"):
        assert library() is None


@needs_compiler
@pytest.mark.parametrize("what", ["--version", "-###", "-shared"])
def test_a_compiler_that_does_not_end_is_killed_with_all_that_it_started(library, compiler, what, monkeypatch):
    compiler(f'case "$*" in *{what}*) sleep 600 & sleep 601;; esac')
    monkeypatch.setattr(build, "SECONDS", 0.5)
    monkeypatch.setattr(build, "SECONDS_TO_COMPILE", 0.5)
    with pytest.warns(UserWarning, match="^no compiled kernels.*compiler: has not ended after 0.5 seconds") as warned:
        assert library() is None
    assert len(warned) == 1


def test_a_compiler_whose_messages_are_not_utf_8_is_reported(library, monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_bytes(b'#!/bin/sh\n[ "$1" = --version ] && { echo "\xe9\xff"; exit 0; }\necho "caf\xe9" >&2\nexit 1\n')
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.warns(UserWarning, match="^no compiled kernels.*: caf\ufffd; set SEQ2SEQ_ATTN"):
        assert library() is None


@needs_compiler
def test_native_target_compiler_and_sources_each_change_the_cached_file(library, compiler, monkeypatch):
    """`-march=native` is what the compiler says it is on this processor."""
    compiler(
        *('case "$*" in', '*-###*) echo "cc1plus -march=$PROCESSOR" >&2; exit 0;;'),
        *('--version) echo "$RELEASE"; exit 0;;', "esac"),
    )
    for variable, value in ("PROCESSOR", "haswell"), ("PROCESSOR", "znver4"), ("RELEASE", "14.1"), ("RELEASE", "14.2"):
        monkeypatch.setenv(variable, value)
        library()
    (build._SOURCES / "numbers.h").write_text("#pragma once\n// more\n")
    library()
    assert len(list(build.cache_folder().glob("*.so"))) == 5
    monkeypatch.setenv("PROCESSOR", "haswell")  # a home that two machines share
    library()
    monkeypatch.setenv("PROCESSOR", "znver4")
    no_second_compilation(monkeypatch)
    assert library().one() == 1


@needs_compiler
def test_flags_that_a_compiler_rejects_are_left_out(library, compiler):
    compiler('case "$*" in *-march*|*-fopenmp*) exit 1;; esac')
    assert library().one() == 1


@needs_compiler
@pytest.mark.parametrize("damage", [lambda so: so[: len(so) // 2], lambda so: so[:-1] + b"!", lambda so: b""])
def test_a_damaged_library_is_never_loaded_but_compiled_again(library, cached, damage):
    whole = cached.read_bytes()
    cached.write_bytes(damage(whole))
    assert library().one() == 1
    assert cached.read_bytes() == whole


@needs_compiler
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_to_is_not_used(library, cached, compiled_by_others, mode):
    foreign = cached.with_name(f"{cached.name[:64]}-{hashlib.sha256(compiled_by_others).hexdigest()}.so")
    cached.unlink()
    foreign.write_bytes(compiled_by_others)
    foreign.chmod(0o600)
    assert library().one() == 666  # by its name it is the library: the folder alone protects it
    cached.parent.chmod(mode)
    with pytest.warns(UserWarning, match=r"compiled in every process.*not cached: .*chmod go-w"):
        assert library().one() == 1
    assert [*cached.parent.glob("*.so")] == [foreign]


@needs_compiler
def test_a_folder_of_another_user_is_not_used(library, cached, monkeypatch):
    monkeypatch.setattr(build.os, "geteuid", lambda: cached.stat().st_uid + 1)
    before = cached.read_bytes()
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert library().one() == 1
    assert cached.read_bytes() == before


@needs_compiler
def test_a_file_that_others_can_write_to_or_a_link_is_replaced(library, cached, tmp_path):
    cached.chmod(0o666)
    assert library().one() == 1
    assert cached.stat().st_mode & 0o777 == 0o600
    cached.rename(tmp_path / "moved.so")
    cached.symlink_to(tmp_path / "moved.so")
    assert library().one() == 1
    assert not cached.is_symlink()


@needs_compiler
def test_a_missing_kernel_is_one_warning_and_no_kernels(library):
    (build._SOURCES / "two.cpp").write_text('#if 0\nextern "C" int two() { return 2; }\n#endif\n')
    with pytest.warns(UserWarning, match="no compiled kernels.*: the compiled library has no two; set") as warned:
        assert library() is None
    assert len(warned) == 1


def test_every_kernel_that_is_called_is_looked_for():
    called = re.compile(r'native\.run\(\s*"(\w+)"')
    named = {
        name for path in Path(native.__file__).parents[1].glob("*.py") for name in called.findall(path.read_text())
    }
    sources = b"".join(path.read_bytes() for path in Path(native.__file__).parent.glob("*.cpp"))
    assert named == {name.decode() for name in build._KERNEL.findall(sources)} != set()


def test_without_a_compiler_or_if_disabled_there_are_no_kernels_and_no_warning(library, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setenv(build.SWITCH, "0")
        assert library() is None
        monkeypatch.delenv(build.SWITCH)
        monkeypatch.setenv("PATH", "")
        assert library() is None
    assert not build.cache_folder().exists()


def test_a_triton_that_cannot_compile_is_reported_in_one_line_and_none_in_none(monkeypatch, tmp_path):
    monkeypatch.delenv(build.SWITCH, raising=False)
    monkeypatch.delitem(sys.modules, "seq2seq_attn.ops.native.gpu", raising=False)
    compiled = native._compiled_for_gpu.__wrapped__
    monkeypatch.setattr(native, "find_spec", {}.get)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled() is None
    (tmp_path / "triton.py").write_text("raise OSError('libcuda.so.1: no such file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    monkeypatch.setattr(native, "find_spec", find_spec)
    with pytest.warns(UserWarning, match=r"^no compiled kernels on the GPU.*: libcuda\.so\.1: no such file; set SEQ"):
        assert compiled() is None


def test_a_failing_compiler_is_reported_in_one_line(library, monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "numbers.h: no such thing" >&2\nexit 1\n')
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.warns(UserWarning, match=r"^no compiled kernels.*: numbers\.h: no such thing; set SEQ2SEQ_ATTN"):
        assert library() is None
    assert list(build.cache_folder().iterdir()) == []


@needs_compiler
def test_without_a_cache_folder_kernels_are_compiled_with_a_warning(library, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="compiled in every process.*Not a directory"):
        assert library().one() == 1


@needs_compiler
def test_without_a_home_kernels_are_compiled_with_a_warning(library, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # as in a container with an arbitrary user
    with pytest.warns(UserWarning, match="compiled in every process.*set XDG_CACHE_HOME"):
        assert library().one() == 1


@needs_compiler
def test_a_cache_that_is_full_or_read_only_is_a_warning(library, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.warns(UserWarning, match="cannot be cached: .*No space left"):
        assert library().one() == 1
    assert list(build.cache_folder().iterdir()) == []


@pytest.mark.skipif(COMPILER is None, reason="no compiler here")
def test_training_and_search_work_without_kernels(monkeypatch):
    monkeypatch.setenv(build.SWITCH, "0")
    monkeypatch.setattr(native, "library", build.library.__wrapped__)  # the cached function has read the variable
    assert not native.has_kernels(torch.empty(0))
    config = RecurrentConfig.model_validate({"embedding_size": 7, "encoder": {"hidden_size": 5}})
    model = fuse(config.build(17, 19, False))
    source, target = pad([[4, 9, 6, 3], [5, 3]]), pad([[7, 3], [10, 8, 3]])
    training_loss(model, Batch(source, target), TrainingConfig()).total.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert len(beam_search(model, source, SearchOptions(max_length=5))) == 2
