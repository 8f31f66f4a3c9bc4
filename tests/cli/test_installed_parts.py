"""Parts of other distributions, found by their entry points: a folder on the path as pip would leave it."""

import json
import sys

import pytest

from seq2seq_attn.attention.registry import load_installed
from seq2seq_attn.models.head import HeadConfig

PARTS = '''
import math

import torch
from seq2seq_attn.attention import Normalizer, Scorer


class Nearness(Scorer):
    """-|q - k|."""

    equation = "-|q - k|"
    source = "this test"

    def prepare(self, keys):
        return keys

    def forward(self, query, prepared):
        return -torch.cdist(query, prepared)


class Powers(Normalizer):
    """2^e_j / sum_k 2^e_k."""

    def normalize(self, scores):
        return torch.softmax(scores * math.log(2), dim=-1)
'''
MODEL = ["model.context.scorer=nearness", "model.context.normalizer=powers", "model.decoder.hidden_size=10"]


@pytest.fixture
def install(tmp_path, forget_parts, monkeypatch):
    """Puts the distribution near-attention 1.2 on the path; all of it is forgotten after the test."""

    def install(code=PARTS, value="near_attention"):
        information = tmp_path / "site/near_attention-1.2.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: near-attention\nVersion: 1.2\n")
        (information / "entry_points.txt").write_text(f"[seq2seq_attn.parts]\nnearness = {value}\n")
        (tmp_path / "site/near_attention.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path / "site")
        load_installed.cache_clear()

    yield install
    sys.modules.pop("near_attention", None)
    load_installed.cache_clear()


@pytest.mark.parametrize("value", ["near_attention", "near_attention:Nearness"])
def test_the_listing_has_the_scorer_of_an_installed_distribution(program, install, value):
    install(value=value)
    answer = program("scorers", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert {each["name"]: each["equation"] for each in json.loads(answer.out)}["nearness"] == "-|q - k|"


def test_a_run_is_trained_and_used_with_it_by_name_alone(program, install, forget_parts, toy, tmp_path):
    install()
    run = tmp_path / "run"
    assert program("train", toy / "toy.yaml", "--output", run, *MODEL, "training.max_epochs=1").code == 0
    forget_parts()  # as in another process
    del sys.modules["near_attention"]
    load_installed.cache_clear()
    assert program("translate", run, toy / "test.src").code == 0


HEAD = """
from typing import Literal

from seq2seq_attn.models.head import HeadConfig, SoftmaxHead


class NearHeadConfig(HeadConfig):
    kind: Literal["near"] = "near"

    def build(self, projection, inputs_size):
        return SoftmaxHead(projection)
"""


def test_a_kind_of_an_installed_distribution_is_found_by_its_name(program, install, toy, tmp_path, monkeypatch):
    monkeypatch.setattr(HeadConfig, "_kinds", HeadConfig.kinds())
    install(HEAD)
    run = tmp_path / "run"
    answer = program("train", toy / "toy.yaml", "--output", run, "model.head.kind=near", "training.max_epochs=1")
    assert answer.code == 0, answer.err
    assert "kind: near" in (run / "config.yaml").read_text()


def test_it_is_imported_only_where_a_name_is_not_known_or_all_are_listed(program, refused, install, trained, tmp_path):
    install()
    program("--help")
    program("translate", trained, stdin=b"a b\n")
    (tmp_path / "mine.py").write_text(PARTS.replace("Nearness", "Mine").replace("Powers", "Other"))
    program("translate", trained, "--plugin", tmp_path / "mine.py", stdin=b"a b\n")
    assert "near_attention" not in sys.modules
    program("scorers")
    assert "near_attention" in sys.modules


@pytest.mark.parametrize(
    ("code", "value", "reason"),
    [
        ("import nowhere_at_all\n", "near_attention", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("x = 1 +\n", "near_attention", "SyntaxError: invalid syntax"),
        (PARTS, "near_attention:Nearnes", "AttributeError: module 'near_attention' has no attribute 'Nearnes'"),
        (PARTS, "nearness_attention", "ModuleNotFoundError: No module named 'nearness_attention'"),
        (PARTS.replace("Nearness", "Dot"), "near_attention", "ValueError: the scorer 'dot' exists twice"),
    ],
)
def test_one_that_is_broken_is_named_with_its_distribution(
    program, refused, install, toy, tmp_path, code, value, reason
):
    install(code, value)
    whose = f"the entry point nearness = {value} of near-attention 1.2 cannot be loaded: {reason}"
    listing = program("scorers")
    assert listing.code == 0
    assert listing.err.startswith(f"not listed: {whose}")
    assert listing.err.count("\n") == 1
    assert "\nadditive" in f"\n{listing.out}"
    message = refused("train", toy / "toy.yaml", "--output", tmp_path / "run", "model.context.scorer=nearest")
    assert "there is no scorer 'nearest'" in message
    assert whose in message
