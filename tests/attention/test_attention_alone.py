"""The package stands alone: torch and nothing else, shapes checked in tests only, and its example runs."""

import doctest
import subprocess
import sys

import pytest
import torch
from jaxtyping import TypeCheckError

import seq2seq_attn.attention
from seq2seq_attn.attention import Attention, Dot


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_importing_it_loads_nothing_else_of_the_project_and_no_shape_checker():
    program = """
import sys, torch
before = set(sys.modules)
import seq2seq_attn.attention
from seq2seq_attn.attention import shapes
assert shapes.Query is torch.Tensor
print(*sorted(set(sys.modules) - before - sys.stdlib_module_names), sep="\\n")
"""
    loaded = run(program).split()
    assert "seq2seq_attn.attention.scorer" in loaded
    foreign = [
        name for name in loaded
        if name != "seq2seq_attn" and not name.startswith(("seq2seq_attn.attention", "torch."))
    ]  # fmt: skip
    assert foreign == []


def test_shapes_are_checked_while_tests_run():
    attention = Attention(Dot(3, 3))
    with pytest.raises(TypeCheckError):
        attention.prepare(torch.randn(2, 3))
    with pytest.raises(TypeCheckError):
        attention.prepare(torch.randn(2, 4, 3), is_token=torch.ones(2, 5, dtype=torch.bool))


def test_the_example_of_the_package_runs():
    failures, examples = doctest.testmod(seq2seq_attn.attention)
    assert (failures, examples) == (0, 6)


def test_every_public_name_is_there():
    for name in seq2seq_attn.attention.__all__:
        assert getattr(seq2seq_attn.attention, name).__doc__
