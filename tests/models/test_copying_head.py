"""A head that copies, in one file outside the package: computed by hand, trained, searched, aligned and compared."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from plain_recipe import NO_DROPOUT, constant
from torch import nn

import seq2seq_attn as s2s
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.ensemble import Ensemble
from seq2seq_attn.models.head import Read
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.transformer.config import TransformerConfig
from seq2seq_attn.ops import fuse
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.search import beam_search, force

FILE = Path(__file__).parents[2] / "examples" / "copying.py"
SOURCE, TARGET = pad([[4, 7, 4, 3], [6, 3], [9, 5, 3]]), pad([[4, 3], [6, 6, 3], [5, 8, 9, 4, 3]])


@pytest.fixture(scope="module")
def copying():
    specification = importlib.util.spec_from_file_location("copying_in_tests", FILE)
    module = importlib.util.module_from_spec(specification)
    # The class of the configuration would be a kind of the whole process.
    source = FILE.read_text().partition("class CopyingConfig")[0]
    exec(compile(source, str(FILE), "exec"), module.__dict__)
    return module


@pytest.fixture(params=[RecurrentConfig, TransformerConfig])
def model(request, copying):
    torch.manual_seed(3)
    sizes = {"embedding_size": 8, "dropout": NO_DROPOUT}
    if request.param is RecurrentConfig:
        sizes |= {"encoder": {"hidden_size": 5}, "decoder": {"hidden_size": 7}}
    built = request.param.model_validate(sizes).build(11, 11, joint=True).eval()
    built.head = copying.CopyingHead(built.head.projection)
    return built


def test_probabilities_equal_those_of_numpy(copying):
    torch.manual_seed(2)
    head = copying.CopyingHead(nn.Linear(5, 7)).double()
    features, tokens = torch.randn(3, 5).double(), torch.tensor([[4, 6, 4, 3], [5, 3, 1, 1], [6, 6, 5, 3]])
    weights = torch.tensor([[0.125, 0.25, 0.125, 0.5], [0.25, 0.75, 0.0, 0.0], [0.5, 0.0, 0.25, 0.25]]).double()
    found = head.log_probabilities(Read(features, weights), copying.SourceTokens(tokens)).exp().detach().numpy()
    w, b, v, c = (each.detach().numpy() for each in (*head.projection.parameters(), *head.gate.parameters()))
    for row in range(3):
        energies = np.exp(w @ features[row].numpy() + b)
        gate = 1 / (1 + np.exp(-(v[0] @ features[row].numpy() + c[0])))
        expected = gate * energies / energies.sum()
        for token, weight in zip(tokens[row].tolist(), weights[row].tolist(), strict=True):
            expected[token] += (1 - gate) * weight
        np.testing.assert_allclose(found[row], expected, rtol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_steps_equal_teacher_forcing_for_every_hypothesis(model):
    memory, inputs = model.encode(SOURCE), model.decoder_inputs(TARGET)
    at_once = model(SOURCE, TARGET).log_softmax(-1)
    state = model.start(memory).select(torch.arange(3).repeat_interleave(2))  # two equal hypotheses for each source
    for position, tokens in enumerate(inputs.t()):
        step = model.step(tokens.repeat_interleave(2), state, memory)
        expected = at_once[:, position].repeat_interleave(2, dim=0)
        torch.testing.assert_close(step.logits.log_softmax(-1), expected, atol=1e-5, rtol=1e-4)
        state = step.state


def test_searches_forced_decoding_ensembles_and_fused_models_agree(model):
    options = SearchOptions(beam_size=3, n_best=2, max_length=6)
    found = beam_search(model, SOURCE, options)
    for fast in (fuse(model, constant=True), Ensemble([model, model])):
        for ours, theirs in zip(found, beam_search(fast, SOURCE, options), strict=True):
            assert [each.tokens for each in ours] == [each.tokens for each in theirs]
            assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], rel=1e-4)
    targets = pad([[*best[0].tokens, 3] for best in found])
    totals = [each.total for each in force(model, SOURCE, targets)]
    assert totals == pytest.approx([best[0].log_probability for best in found], rel=1e-4)


def test_a_part_of_the_vocabulary_is_refused_in_one_line(model):
    with pytest.raises(UserError, match=r"search\.shortlist.*CopyingHead"):
        model.with_outputs(torch.tensor([0, 1, 2, 3]))


NAMES = [f"name{number}" for number in range(24)]  # the last eight are hidden in training, and said in the test


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """`say X` is answered by X, `hide X` by nothing: of the last names, training has only what is hidden."""
    folder = tmp_path_factory.mktemp("copying")
    training = [(f"say {name}", name) for name in NAMES[:16]] * 6 + [(f"hide {name}", "nothing") for name in NAMES] * 3
    parts = {"train": training, "validation": [(f"say {name}", name) for name in NAMES[:16]]}
    parts["test"] = [(f"say {name}", name) for name in NAMES[16:]]
    for part, pairs in parts.items():
        for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            (folder / f"{part}.{side}").write_text("".join(f"{line}\n" for line in lines))
    shutil.copy(FILE, folder / "copying.py")
    return {
        "data": {part: {side: f"{folder}/{part}.{side}" for side in ("source", "target")} for part in parts},
        "text": {"tokenizer": "word", "joint": True},
        "model": {
            "embedding_size": 12,
            "encoder": {"hidden_size": 12},
            "decoder": {"kind": "bahdanau", "hidden_size": 16},
            "dropout": NO_DROPOUT,
        },
        "training": {
            "max_epochs": 12,
            "batch_size": 16,
            "accelerator": "cpu",
            "monitor": "loss",
            **constant(0.01),
        },
        "search": {"beam_size": 2},
        "evaluation": {"tokenize": "none", "metrics": ["wer"]},
    }


def test_names_that_training_never_asked_for_are_said_by_a_head_that_copies_alone(values, tmp_path, no_figures):
    file = Path(values["data"]["test"]["source"]).parent / "copying.py"
    arms = {"softmax": {}, "copying": [f"model.head={{kind: {file}:CopyingConfig}}"]}
    experiment = {"name": "copying", "baseline": "softmax", "seeds": [1], "arms": arms, "base": values}
    results = s2s.compare(experiment, tmp_path / "out", silent=True).results
    errors = {arm.name: arm.scores["wer"].mean for arm in results.arms}
    assert errors["copying"] < 20 < 80 < errors["softmax"]
    model = s2s.load(tmp_path / "out" / "runs" / "copying" / "seed-1")
    assert model.translate(["say name20"]).sentences == ["name20"]
    (found,) = model.align([("say name20", "name20")])
    assert found.links == {(1, 0)}
