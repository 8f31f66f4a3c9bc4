"""The package stands alone: torch and nothing else, shapes checked in tests only, and its example runs."""

import doctest
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import torch
from jaxtyping import TypeCheckError

import seq2seq_attn.attention
from seq2seq_attn.attention import Attention, Dot, scorer_classes

ROOT = Path(__file__).parents[2]


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


BESIDE_TORCH = """
import re, sys
from importlib.metadata import requires
from importlib.util import find_spec

# torch, and what its distribution says that it needs; the other name is the module of a distribution.
needed = ["torch", *(re.match(r"[\\w-]+", line)[0] for line in requires("torch") if "extra ==" not in line)]
needed = {name.lower().replace("-", "_") for name in needed} | {"mpmath", "markupsafe", "torchgen", "functorch"}
assert "numpy" not in needed, needed


class Only:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in needed:
            return None
        if name == "seq2seq_attn" or name.startswith("seq2seq_attn.attention"):
            return None
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Only())
"""

# What the scorers do where there is nothing but torch.
SCORERS_ALONE = """
import torch
from seq2seq_attn.attention import *

keys, query = torch.randn(2, 4, 5, requires_grad=True), torch.randn(2, 3, 5)
is_token = torch.tensor([[True] * 4, [True, True, False, False]])
for name, scorer in scorer_classes().items():
    for normaliser in normaliser_classes().values():
        context, weights = attend(Attention(scorer(5, 5), normaliser()), query, keys, is_token=is_token)
        assert (weights[1, :, 2:] == 0).all(), name
        context.sum().backward()
attend(Attention(ScaledDot(5, 5)), query, keys, causal=True, need_weights=False)
MultiheadAttention.from_torch(torch.nn.MultiheadAttention(6, 2), scorer=Additive)
try:
    import numpy
except ModuleNotFoundError:
    print(len(scorer_classes()), "scorers alone")
"""


WHAT_IS_LOADED = """
import sys, torch
before = set(sys.modules)
import seq2seq_attn.attention
from seq2seq_attn.attention import shapes
assert shapes.Query is torch.Tensor
print(*sorted(set(sys.modules) - before - sys.stdlib_module_names))
"""


def test_it_loads_nothing_else_and_every_scorer_runs_where_nothing_but_torch_can_be_imported():
    loaded, alone = run(BESIDE_TORCH + WHAT_IS_LOADED + SCORERS_ALONE).splitlines()
    assert alone == f"{len(scorer_classes())} scorers alone"
    assert "seq2seq_attn.attention.scorer" in loaded.split()
    foreign = [
        name for name in loaded.split()
        if name != "seq2seq_attn" and not name.startswith(("seq2seq_attn.attention", "torch."))
    ]  # fmt: skip
    assert foreign == []


@pytest.mark.slow
def test_every_scorer_runs_in_an_environment_with_torch_alone(tmp_path):
    """As documented, `pip install --no-deps`, into an environment that has torch and what torch needs."""
    venv.create(tmp_path, symlinks=True)
    (site,) = tmp_path.glob("lib/python*/site-packages")
    waiting, taken = ["torch"], set()
    while waiting:
        distribution = importlib.metadata.distribution(waiting.pop())
        if distribution.name.lower() in taken:
            continue
        taken.add(distribution.name.lower())
        for top in {file.parts[0] for file in distribution.files if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))
        lines = distribution.requires or []
        waiting += [re.match(r"[\w-]+", line)[0] for line in lines if "extra ==" not in line and "platform" not in line]
    assert "numpy" not in taken
    before = set(site.iterdir())
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    package = tmp_path / "package"  # pip builds beside the sources
    shutil.copytree(ROOT / "seq2seq_attn", package / "seq2seq_attn", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, package)
    subprocess.run([*install, "--target", site, package], check=True, capture_output=True, text=True)
    added = {path.name for path in set(site.iterdir()) - before}
    assert {name for name in added if not name.startswith("seq2seq_attn")} <= {"bin"}
    done = subprocess.run(
        [tmp_path / "bin" / "python", "-c", SCORERS_ALONE],
        cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == f"{len(scorer_classes())} scorers alone\n", done.stderr


def test_shapes_are_checked_while_tests_run():
    attention = Attention(Dot(3, 3))
    with pytest.raises(TypeCheckError):
        attention.prepare(torch.randn(2, 3))
    with pytest.raises(TypeCheckError):
        attention.prepare(torch.randn(2, 4, 3), is_token=torch.ones(2, 5, dtype=torch.bool))


def test_the_example_of_the_package_runs():
    failures, examples = doctest.testmod(seq2seq_attn.attention)
    assert (failures, examples) == (0, 6)


def test_the_code_of_its_page_runs_as_it_is_printed():
    page = (ROOT / "docs" / "attention.md").read_text(encoding="utf-8")
    names = {}
    for code in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(code, names)
    assert names["context"].shape == (2, 1, 512)


def test_every_public_name_is_there():
    for name in seq2seq_attn.attention.__all__:
        assert getattr(seq2seq_attn.attention, name).__doc__
