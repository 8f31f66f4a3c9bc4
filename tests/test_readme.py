"""What the README and CONTRIBUTING print is what works."""

import re
from pathlib import Path

import pytest
import torch
import yaml

from seq2seq_attn.attention import Attention, scorer_class
from seq2seq_attn.cli.app import app
from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.config import Config
from seq2seq_attn.strict import parse

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_lines_that_reuse_a_scorer_run():
    (code,) = (block for block in blocks(README, "python") if "Additive(" in block)
    names = {}
    exec(code, names)
    assert names["context"].shape == (2, 1, 1024)
    assert names["weights"].sum(-1).allclose(torch.ones(2, 1))


def test_the_configuration_and_the_experiment_are_valid(tmp_path):
    mine, experiment = blocks(README, "yaml")
    assert parse(Config, yaml.safe_load(mine)).training.precision == "bf16"
    (tmp_path / "mine.yaml").write_text(mine)
    (tmp_path / "experiment.yaml").write_text(experiment)
    runs = read_experiment(tmp_path / "experiment.yaml").runs
    assert len(runs) == 3 * 3
    assert runs[-1].config.model.decoder.kind == "luong"


def test_every_command_that_is_named_exists():
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    printed = set(re.findall(r"^seq2seq-attn (\w+)", README + CONTRIBUTING, flags=re.MULTILINE))
    table = set(re.findall(r"^\| `(\w+)` \|", README, flags=re.MULTILINE))
    assert printed <= known
    assert known <= table


@pytest.mark.parametrize(
    "text",
    [
        "README.md",
        "CONTRIBUTING.md",
        "data/README.md",
        "docs/alignment.md",
        "docs/explanation.md",
        "examples/README.md",
        "benchmarks/README.md",
        "experiments/README.md",
        *(str(page.relative_to(ROOT)) for page in sorted(ROOT.glob("experiments/*/README.md"))),
    ],
)
def test_what_is_linked_is_there(text):
    page = ROOT / text
    links = re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_scorer_of_the_guide_keeps_the_contract():
    code = next(block for block in blocks(CONTRIBUTING, "python") if "class Gated" in block)
    exec(code, {"__name__": "guide"})
    attention = Attention(scorer_class("gated")(query_size=3, key_size=5))
    states, query = torch.randn(2, 7, 5), torch.randn(2, 4, 3)
    is_token = torch.arange(7) < torch.tensor([[7], [4]])
    context, weights = attention(query, attention.prepare(states, is_token=is_token))
    torch.testing.assert_close(context, weights @ states)
    assert weights[1, :, 4:].sum() == 0
