"""The experiments in `experiments/`: their models can be built and trained."""

from pathlib import Path

import pytest
import torch

from seq2seq_attn.attention import FixedContext, LastState, LearnedPool, MeanContext, MeanState, NoContext, Shuffled
from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.comparison.match_parameters import match_parameters
from seq2seq_attn.corpora.source import Frames, Pixels, Tokens, pad
from seq2seq_attn.evaluation.attention_weights import attention_entropy
from seq2seq_attn.runs.building import build_translator, count_parameters
from seq2seq_attn.runs.cache import Cache
from seq2seq_attn.runs.corpora import learn_front_ends, read_pairs
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.loss import token_loss
from seq2seq_attn.training.optimizer import make_optimizer

ROOT = Path(__file__).parents[2]
FILES = sorted(ROOT.glob("experiments/*/experiment.yaml"))


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    """For each arm of the ladder: its final configuration, its model, and whether it was widened."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)  # paths in the files are relative to it
        cache = Cache(tmp_path_factory.mktemp("cache"))
        grid = match_parameters(read_experiment(ROOT / "experiments/ladder/experiment.yaml"), cache)
        pairs = read_pairs(grid.runs[0].config.data.train)
    codecs = learn_front_ends(grid.runs[0].config, pairs)
    torch.manual_seed(6)
    models = {run.arm: (run, build_translator(run.config, *codecs)) for run in grid.runs}
    sides = zip(codecs, (pairs.source, pairs.target), strict=True)
    return models, Batch(*(pad([codec.encode(line) for line in lines[:3]]) for codec, lines in sides))


@pytest.mark.parametrize("path", FILES, ids=[path.parent.name for path in FILES])
def test_every_arm_builds_a_model_that_predicts(path):
    tokens, target = pad([[5, 6, 7, 3], [8, 3]]), pad([[4, 5, 3], [6, 7, 9]])
    sources = {
        Tokens: (11, tokens),
        Frames: (11, Frames(torch.randn(2, 4, 11), tokens.lengths)),
        Pixels: ((11, 3), Pixels(torch.randn(2, 4, 11, 3), tokens.lengths)),
    }
    for _, (run, *_) in read_experiment(path).arms():
        size, source = sources[run.config.model.encoder.reads]
        model = run.config.model.build(size, 11, run.config.text.joint)
        with torch.inference_mode():
            assert model.eval()(source, target).isfinite().all(), run.arm


def test_the_arms_of_the_ladder_match_their_names(ladder):
    models, _ = ladder
    rungs = {
        "C last at start": (NoContext, LastState),
        "C last at every step": (FixedContext, LastState),
        "C mean at every step": (FixedContext, MeanState),
        "C learned pool at every step": (FixedContext, LearnedPool),
        "uniform weights at every step": (MeanContext, LastState),
    }
    for name, kinds in rungs.items():
        model = models[name][1]
        assert (type(model.decoder.context), type(model.summary)) == kinds
    shuffled, whole = (models[arm][1].decoder.context for arm in ("shuffled attention", "attention"))
    assert type(shuffled.normalizer) is Shuffled
    assert type(shuffled.scorer) is type(whole.scorer)


@pytest.mark.parametrize("arm", ["one word on the diagonal", "one random word"])
def test_a_fixed_rung_of_the_ladder_reads_one_word_per_step_in_training_and_in_translation(ladder, arm):
    models, (source, target, *_) = ladder
    model = models[arm][1]
    with torch.inference_mode():
        memory = model.encode(source)
        weights = model.decode(model.decoder_inputs(target), memory).weights
        state, tokens = model.start(memory), model.decoder_inputs(target)
        for t in range(tokens.shape[1]):
            _, state, row = model.step(tokens[:, t], state, memory)
            assert torch.equal(row, weights[:, t])
    assert attention_entropy(weights.numpy()) == 0
    assert weights.sum(dim=-1).eq(1).all()


def test_no_arm_has_more_trained_parameters_than_attention(ladder):
    models, _ = ladder
    counts = {arm: count_parameters(model) for arm, (_, model) in models.items()}
    assert max(counts.values()) == counts["attention"] == counts["shuffled attention"]
    assert counts["frozen random scorer"] == counts["uniform weights at every step"]


def test_every_arm_takes_a_training_step_that_changes_all_but_a_frozen_scorer(ladder):
    models, batch = ladder
    for arm, (run, model) in models.items():
        before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = make_optimizer(trained, run.config.training.optimizer)
        loss = token_loss(model, batch)
        (loss.total / loss.tokens).backward()
        optimizer.step()
        kept = {name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])}
        scorer = {name for name in before if ".scorer." in name}
        assert kept == (scorer if run.config.model.context.frozen_scorer else set()), arm
