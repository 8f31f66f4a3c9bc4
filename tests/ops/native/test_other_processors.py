"""The kernels compute the same on processors with narrower vector registers."""

import os
import platform
import stat
import subprocess
import sys
from pathlib import Path

import pytest

OPS = Path(__file__).parents[1]
COMPILER = """#!/bin/sh
exec c++ $(printf '%s\\n' "$@" | sed 's/^-march=native$/-march={processor}/; /^-mprefer-vector-width/d')
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the processors are x86-64")
@pytest.mark.parametrize("processor", ["x86-64", "haswell"])
def test_kernels_for_other_processors_pass_the_same_tests(processor, tmp_path):
    script = tmp_path / "c++"
    script.write_text(COMPILER.format(processor=processor))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    tests = [
        str(path)
        for path in sorted(OPS.rglob("test_*.py"))
        if "build" not in path.name and path.name != Path(__file__).name
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", *tests],
        env=os.environ | {"CXX": str(script), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert len(list((tmp_path / "cache").rglob("*.so"))) == 2
