"""The package stands alone: torch and nothing else, shapes checked in tests only, and its example runs."""

import doctest
import importlib.metadata
import json
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
from seq2seq_attn.errors import how_to_install

ROOT = Path(__file__).parents[2]


# What the scorers do where there is nothing but torch.
SCORERS_ALONE = """
import torch
from seq2seq_attn.attention import *

keys, query = torch.randn(2, 4, 5, requires_grad=True), torch.randn(2, 3, 5)
is_token = torch.tensor([[True] * 4, [True, True, False, False]])
for name, scorer in scorer_classes().items():
    for normalizer in normalizer_classes().values() if name == "dot" else [Softmax]:
        context, weights = attend(Attention(scorer(5, 5), normalizer()), query, keys, is_token=is_token)
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
MISSING = """
import seq2seq_attn as s2s
print(s2s.check, s2s.scorers)
from seq2seq_attn.__main__ import main
sys.argv[1:] = ["check", "nowhere.py:Mine"]
try:
    main()
except SystemExit as end:
    print(end.code)
s2s.train
"""


MINE = """
from seq2seq_attn.attention import Dot


class Backwards(Dot):
    def forward(self, query, prepared):
        return super().forward(query, prepared.flip(1))


class Sideways(Dot):
    def forward(self, query, prepared):
        return super().forward(prepared, query)
"""


@pytest.fixture(scope="module")
def torch_alone(tmp_path_factory):
    """An environment with torch, pytest and what they need, and nothing else: a function that runs its Python."""
    folder = tmp_path_factory.mktemp("torch-alone")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    waiting, taken = ["torch", "pytest"], set()
    while waiting:
        distribution = importlib.metadata.distribution(waiting.pop())
        if distribution.name.lower() in taken:
            continue
        taken.add(distribution.name.lower())
        for top in {file.parts[0] for file in distribution.files if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))
        lines = distribution.requires or []
        unconditional = [line for line in lines if "extra ==" not in line and "platform" not in line]
        waiting += [re.match(r"[\w-]+", line)[0] for line in unconditional if "python_version" not in line]
    assert not {"numpy", "typer", "pydantic"} & taken
    place, package = tmp_path_factory.mktemp("user"), tmp_path_factory.mktemp("package")
    (package / "seq2seq_attn").symlink_to(ROOT / "seq2seq_attn")  # without the metadata that a checkout may have

    def run(*arguments):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package)}
        return subprocess.run(
            [folder / "bin" / "python", *arguments],
            cwd=place, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    (place / "mine.py").write_text(MINE)
    return run


@pytest.mark.slow
def test_every_scorer_runs_in_an_environment_with_torch_alone(torch_alone, tmp_path):
    """As documented, `pip install --no-deps`, into an environment that has torch and what torch needs."""
    site = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    package = tmp_path / "package"  # pip builds beside the sources
    shutil.copytree(ROOT / "seq2seq_attn", package / "seq2seq_attn", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, package)
    subprocess.run([*install, "--target", site, package], check=True, capture_output=True, text=True)
    added = {path.name for path in site.iterdir()}
    assert {name for name in added if not name.startswith("seq2seq_attn")} <= {"bin"}
    done = torch_alone("-c", f"import sys; sys.path[0] = {str(site)!r}\n{SCORERS_ALONE}")
    assert done.stdout == f"{len(scorer_classes())} scorers alone\n", done.stderr


@pytest.mark.slow  # seconds; .ci/run includes it
def test_check_and_its_pytest_plugin_need_torch_alone(torch_alone):
    checked = torch_alone("-m", "seq2seq_attn", "check", "mine.py:Sideways", "--json", "query_size=8")
    assert checked.stderr == ""
    (record,) = json.loads(checked.stdout)
    assert (checked.returncode, record["part"]) == (1, "Sideways(query_size=8, key_size=8)")
    assert (record["laws"][0]["law"], record["laws"][0]["verdict"]) == ("shapes", "broken")
    tested = torch_alone(
        "-m", "pytest", "-p", "seq2seq_attn.pytest_plugin", "-p", "no:cacheprovider", "-rA", "-k", "padding or batch",
        "--check-scorer", "mine.py:Backwards",
    )  # fmt: skip
    assert tested.returncode == 1, tested.stderr
    assert "PASSED mine.py:Backwards::batch" in tested.stdout
    assert "FAILED mine.py:Backwards::padding" in tested.stdout


@pytest.mark.slow
def test_every_law_is_checked_with_torch_alone(torch_alone):
    checked = torch_alone("-m", "seq2seq_attn", "check", "additive", "softmax", "local_p", "--json")
    assert (checked.returncode, checked.stderr) == (0, "")
    for record in json.loads(checked.stdout):
        assert {each["verdict"] for each in record["laws"]} == {"holds"}


def test_it_loads_nothing_else_every_scorer_runs_and_what_is_missing_is_named(torch_alone):
    done = torch_alone("-c", WHAT_IS_LOADED + SCORERS_ALONE + MISSING)
    loaded, scorers, functions, code = done.stdout.splitlines()
    foreign = {name for name in loaded.split() if not name.startswith(("seq2seq_attn.attention", "torch."))}
    assert foreign == {"seq2seq_attn"}
    assert scorers == f"{len(scorer_classes())} scorers alone"
    assert functions.startswith("<function check at")
    assert code == "2"
    assert re.search(r"^seq2seq-attn: nowhere\.py: .+$", done.stderr, re.MULTILINE)
    last = done.stderr.splitlines()[-1]  # after torch's warning that NumPy is missing
    assert re.match(r"ModuleNotFoundError: seq2seq_attn\.train needs \w+, which is not installed: pip install", last)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], "needs typer, which is not installed: pip install 's"),
        (["check", "dot", "--timeout", "5"], "needs typer, which is not installed"),
        (["serve"], "pip install 'seq2seq_attn' (in a clone: '.')"),
    ],
)
def test_what_needs_the_rest_of_the_package_says_in_one_line_what_to_install(torch_alone, arguments, words):
    done = torch_alone("-m", "seq2seq_attn", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("seq2seq-attn: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


@pytest.mark.parametrize(
    ("module", "part"),
    [("yaml", ""), ("typer", ""), ("torch", ""), ("onnx", "[export]"), ("tensorboard.x", "[tensorboard]")],
)
def test_what_is_missing_is_named_with_the_extra_that_has_it(module, part):
    found = how_to_install(ModuleNotFoundError(name=module))
    name = module.partition(".")[0]
    assert found == f"{name}, which is not installed: pip install 'seq2seq_attn{part}' (in a clone: '.{part}')"


def test_what_is_not_a_dependency_is_not_explained():
    assert how_to_install(ModuleNotFoundError(name="seq2seq_attn.nothing")) is None
    assert how_to_install(ModuleNotFoundError(name="my_module")) is None


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
