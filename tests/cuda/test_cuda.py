"""On a GPU: what is computed and trained there is what the CPU computes and trains."""

import copy
from contextlib import nullcontext
from functools import partial
from itertools import count

import pytest
import torch

from seq2seq_attn import ops
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.encoded import EncodedLines
from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.transformer.config import TransformerConfig
from seq2seq_attn.ops import loss as loss_file
from seq2seq_attn.ops import native
from seq2seq_attn.ops.graphs import Replayed
from seq2seq_attn.ops.gru import step_backward, step_forward
from seq2seq_attn.ops.loss import fused_loss
from seq2seq_attn.ops.scorers import read_backward, read_forward
from seq2seq_attn.runs.folder import read_metrics
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.train import train
from seq2seq_attn.search import SearchOptions, beam_search, force, greedy_search, search
from seq2seq_attn.strict import override, parse
from seq2seq_attn.training import loop
from seq2seq_attn.training.batches import Batch, EncodedPairs
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.loop import Loop
from seq2seq_attn.training.loss import training_loss

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(autouse=True)
def full_precision():
    """cuDNN's recurrent layers round to TF32 by default."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


WORDS = 29
DRAW = torch.Generator().manual_seed(3)


def sentences(lengths):
    """Random words, padded as the loader does: `</s>` (3) at the end, zeros after it."""
    tokens = torch.randint(4, WORDS, (len(lengths), max(lengths)), generator=DRAW)
    for row, length in enumerate(lengths):
        tokens[row, length - 1], tokens[row, length:] = 3, 0
    return Tokens(tokens, torch.tensor(lengths))


BATCH = Batch(sentences([9, 7, 4, 2]), sentences([6, 8, 3, 5]))
NO_DROPOUT = {"embedding": 0.0, "state": 0.0, "readout": 0.0}  # as devices draw different masks
SIZES = {"embedding_size": 8, "encoder": {"hidden_size": 6}, "dropout": NO_DROPOUT}
GRU = {"decoder": {"hidden_size": 12}}
MODELS = {
    "additive": {**GRU, "context": {"kind": "attention"}},
    "general, input feeding": {
        "decoder": {"kind": "luong", "hidden_size": 12, "input_feeding": True},
        "context": {"scorer": "general"},
    },
    "conditional": {"decoder": {"kind": "conditional", "hidden_size": 12}, "context": {"scorer": "additive"}},
    "conditional, layer normalization": {
        "decoder": {"kind": "conditional", "hidden_size": 12},
        "context": {"scorer": "additive"},
        "layer_norm": True,
    },
    "distracted": {**GRU, "context": {"kind": "fixed"}},
    "no context": {**GRU, "context": {"kind": "none"}},
    "two layers": {"encoder": {"hidden_size": 6, "layers": 2}, "decoder": {"hidden_size": 12, "layers": 2}},
    "LSTM": {"encoder": {"cell": "lstm", "hidden_size": 6}, "decoder": {"cell": "lstm", "hidden_size": 12}},
    "multi-head": {**GRU, "context": {"scorer": "additive", "heads": 2}},
    "local-p": {**GRU, "context": {"scorer": "general", "window": {"name": "local_p", "half_width": 2}}},
    "location-aware": {**GRU, "context": {"scorer": {"name": "location_aware", "kernel_width": 3}}},
    "coverage": {**GRU, "context": {"scorer": "linguistic_coverage"}},
    "sparsemax": {**GRU, "context": {"normalizer": "sparsemax"}},
    "Transformer": {"kind": "transformer", "encoder": {}, "context": {"heads": 2}},
}


def make(values):
    torch.manual_seed(7)
    kind = TransformerConfig if values.get("kind") == "transformer" else RecurrentConfig
    return kind.model_validate(SIZES | values).build(WORDS, WORDS, False)


def loss_and_gradients(values, device, precision="fp32", times=1):
    """Of the last of some equal batches; from the second on, a GPU replays the same graph."""
    model = make(values).to(device)
    of_batch = ops.replayed(ops.fuse(model), partial(training_loss, config=TrainingConfig(label_smoothing=0.1)))
    for _ in range(times):
        model.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            loss, negative, count = of_batch(BATCH.to(torch.device(device)))
        (loss / count).backward()
    if times > 1 and isinstance(of_batch, Replayed):
        assert of_batch.shapes.kept
    gradients = {name: each.grad.cpu() for name, each in model.named_parameters() if each.grad is not None}
    return loss.item() / count, negative.item() / count, gradients


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@pytest.mark.parametrize("form", ["fused", "replayed", "reference"])
def test_loss_and_gradients_are_those_of_the_cpu(model, form):
    with ops.reference() if form == "reference" else nullcontext():
        on_cuda = loss_and_gradients(model, "cuda", times=4 if form == "replayed" else 1)
    with ops.reference():
        expected = loss_and_gradients(model, "cpu")
    assert on_cuda[:2] == pytest.approx(expected[:2], rel=1e-5)
    assert on_cuda[2].keys() == expected[2].keys()
    for name, gradient in expected[2].items():
        torch.testing.assert_close(on_cuda[2][name], gradient, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("times", [1, 4])
def test_in_bf16_loss_and_gradients_are_near_those_in_fp32(model, times):
    halves, exact = loss_and_gradients(model, "cuda", "bf16", times), loss_and_gradients(model, "cpu")
    assert halves[:2] == pytest.approx(exact[:2], rel=0.01)
    found, expected = (torch.cat([each.flatten() for each in part[2].values()]) for part in (halves, exact))
    assert torch.linalg.vector_norm(found - expected) < 0.05 * torch.linalg.vector_norm(expected)


def test_searches_and_forced_decoding_find_what_the_cpu_finds(model):
    translator, options = make(model).double().eval(), SearchOptions(beam_size=3, max_length=12)

    def results(device):
        batch = BATCH.to(torch.device(device))
        translator.to(device)
        found = [
            search(translator, batch.source, options, with_weights=True) for search in (greedy_search, beam_search)
        ]
        forced = force(translator, batch.source, batch.target)
        return [best for each in found for hypotheses in each for best in hypotheses], forced

    (expected, expected_forced), (found, found_forced) = results("cpu"), results("cuda")
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one[1:], other[1:], rtol=0, atol=1e-6)
    torch.testing.assert_close(found_forced, expected_forced, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["additive", "general, input feeding", "conditional", "distracted"])
@pytest.mark.parametrize("size", [1, 3])
def test_steps_that_are_replayed_find_what_others_find(name, size):
    plain = ops.fuse(make(MODELS[name]).cuda().eval())
    again = ops.fuse(make(MODELS[name]).cuda().eval(), constant=True)
    options = SearchOptions(beam_size=size, max_length=12, min_length=12, batch_size=4)
    rows = [row[:length].tolist() for row, length in zip(BATCH.source.tokens, BATCH.source.lengths, strict=True)]
    expected, found = (search(each, 6 * rows, options, with_weights=True) for each in (plain, again))
    assert again.shapes.kept
    for one, other in zip(expected, found, strict=True):
        for hypothesis, same in zip(one, other, strict=True):
            assert same.tokens == hypothesis.tokens
            torch.testing.assert_close(same.weights, hypothesis.weights)


def test_dropout_draws_another_mask_whenever_a_graph_is_replayed():
    model = ops.fuse(make(MODELS["additive"] | {"dropout": NO_DROPOUT | {"embedding": 0.5}}).cuda().train())
    of_batch = ops.replayed(model, partial(training_loss, config=TrainingConfig()))
    batch, totals = BATCH.to(torch.device("cuda")), []
    for seed in (5, 5, 5, None, None):
        if seed is not None:
            torch.manual_seed(seed)
        loss = of_batch(batch)
        loss.total.backward()
        totals.append(loss.total.item())
    assert totals[1] == totals[2]  # the same generator: recording has drawn nothing
    assert len({*totals[2:]}) == 3


def test_a_large_vocabulary_is_projected_in_chunks_to_the_same_loss(monkeypatch):
    """In bf16, the logits of all tokens would be 0.4 GB, and those of a chunk are 0.02 GB."""
    tokens, words = 4096, 50_000
    output, features = torch.nn.Linear(64, words).cuda(), torch.randn(tokens, 64, device="cuda", requires_grad=True)
    targets = torch.randint(0, words, (tokens,), device="cuda")

    def found(most):
        monkeypatch.setattr(loss_file, "MOST_LOGITS", most)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with torch.autocast("cuda", torch.bfloat16):
            loss, _ = fused_loss(features, output.weight, output.bias, targets, 0.1)
        gradients = torch.autograd.grad(loss / tokens, [features, output.weight, output.bias])
        return [loss.detach(), *gradients], torch.cuda.max_memory_allocated() - before

    (whole, all_logits), (chunked, few) = found(tokens * words), found(200 * words)
    assert few < all_logits / 5
    for one, other in zip(chunked, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=0.01, atol=0.01 * other.abs().max().item())


@pytest.fixture
def config(grid):
    return changed(grid.runs[2].config, "training.accelerator=auto")


def changed(config, *overrides):
    return parse(Config, override(config.model_dump(mode="json"), overrides))


def test_a_run_goes_to_the_gpu_and_is_recorded_translated_and_resumed(config, tmp_path):
    config = changed(config, "model.dropout.embedding=0.2", "model.dropout.readout=0.2")
    train(config, tmp_path / "whole")
    assert torch.cuda.get_device_name() in (tmp_path / "whole/provenance.json").read_text()
    train(changed(config, "training.max_epochs=1"), tmp_path / "parts")
    train(config, tmp_path / "parts", if_exists="resume")
    whole, parts = TrainedModel.load(tmp_path / "whole"), TrainedModel.load(tmp_path / "parts")
    for name, weights in whole.translator.state_dict().items():
        torch.testing.assert_close(parts.translator.state_dict()[name], weights, rtol=1e-5, atol=1e-6)
    on_cpu = TrainedModel.load(tmp_path / "whole", device="cpu")
    assert next(whole.translator.parameters()).is_cuda
    assert whole.translate(["a b c", "e"]) == on_cpu.translate(["a b c", "e"])


def test_losses_of_training_are_those_of_the_cpu(config, tmp_path):
    """The batches and first weights are the same; the toy models have no dropout, whose random numbers differ."""
    scores = {}
    for accelerator in ("cuda", "cpu"):
        train(changed(config, f"training.accelerator={accelerator}"), tmp_path / accelerator)
        scores[accelerator] = read_metrics(tmp_path / accelerator)
    assert scores["cuda"]["initial_weights"] == scores["cpu"]["initial_weights"]
    assert scores["cuda"]["training"]["best"] == pytest.approx(scores["cpu"]["training"]["best"], rel=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_with_infinite_gradients_is_left_out(config, tmp_path, monkeypatch, precision):
    """Found on the device: the outcome is read only later. The fourth loss is infinite, not what a graph records."""

    def sometimes_infinite(model, loss):
        of_batch, number = ops.replayed(model, loss), count(1)

        def of_one(batch):
            found = of_batch(batch)
            return found._replace(total=found.total * (torch.inf if next(number) == 4 else 1))

        return of_one

    monkeypatch.setattr(loop, "replayed", sometimes_infinite)
    train(changed(config, f"training.precision={precision}"), tmp_path / "run")
    assert read_metrics(tmp_path / "run")["training"]["skipped_steps"] == 1


def test_a_batch_too_large_for_the_memory_of_the_gpu_is_trained_in_halves(tmp_path):
    """Three quarters of what the step needs are left to this process."""
    values = MODELS["additive"] | {"embedding_size": 512, "decoder": {"hidden_size": 512}}
    few = EncodedLines.of([[4, 3]])
    batches = EncodedPairs(few, few, 1)
    training = Loop(make(values), TrainingConfig(), batches, batches, None, tmp_path)
    training.due = training.end = torch.inf
    many = sentences([60] * 512)
    batch = Batch(many, many).to(torch.device("cuda"))

    def gradients():
        training.updates.optimizer.zero_grad()
        torch.cuda.empty_cache()
        training.add_gradient([batch])
        return [each.grad for each in training.model.parameters()]

    expected, peak = gradients(), torch.cuda.max_memory_allocated()
    assert training.state.split_steps == 0
    torch.cuda.set_per_process_memory_fraction(0.75 * peak / torch.cuda.get_device_properties(0).total_memory)
    try:
        found = gradients()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert training.state.split_steps == 1
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)


# Kernels, against the torch operations that they replace.


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def random(request):
    """Random numbers of a dtype, rows of which may be part of longer rows."""

    def draw(*shape, row=0, dtype=request.param):
        wide = torch.randn(*shape[:-1], max(row, shape[-1]), device="cuda").to(dtype)
        return wide[..., : shape[-1]]

    return draw


def assert_kernel_equals_torch(monkeypatch, function, arguments):
    """What the function has written to its arguments."""
    assert native.gpu_kernels(arguments[0] if arguments[0] is not None else arguments[2]) is not None

    def written():
        copies = [None if each is None else copy.deepcopy(each) for each in arguments]
        function(*copies)
        return [each for each in copies if each is not None]

    # Between its operations, torch rounds to the dtype of the states.
    halves = any(each is not None and each.dtype == torch.bfloat16 for each in arguments)
    tolerance = 0.01 if halves else 1e-5
    by_kernel = written()
    monkeypatch.setattr(native, "gpu_kernels", lambda tensor: None)
    for found, expected in zip(by_kernel, written(), strict=True):
        error = torch.linalg.vector_norm(found.float() - expected.float()).item()
        assert error <= tolerance * torch.linalg.vector_norm(expected.float()).item()


@pytest.mark.parametrize("size", [5, 300])
def test_the_kernel_of_a_gru_step(monkeypatch, random, size):
    rows = [random(7, 3 * size, row=3 * size + 4) for _ in range(2)]
    outputs = random(7, 2 * size), random(7, size), random(7, size)
    assert_kernel_equals_torch(monkeypatch, step_forward, [*rows, random(7, size), *outputs])


@pytest.mark.parametrize("size", [5, 300])
@pytest.mark.parametrize(("of_state", "of_next"), [(True, 4), (False, 7), (True, 0)])
def test_the_kernel_of_a_gru_step_backward(monkeypatch, random, size, of_state, of_next):
    gradients = random(7, size) if of_state else None, random(of_next, size) if of_next else None
    carry, gates, candidate = (
        random(7, size, dtype=torch.float32),
        random(7, 2 * size).sigmoid(),
        random(7, size).tanh(),
    )
    u, grad_x, grad_u = (random(7, 3 * size, row=3 * size + 4) for _ in range(3))
    arguments = [*gradients, carry, u, random(7, size), gates, candidate, grad_x, grad_u]
    assert_kernel_equals_torch(monkeypatch, step_backward, arguments)


def source(random, sizes, is_additive):
    """Query, keys, v or None, and values."""
    sentences, length, size, width = sizes
    full = torch.float32
    keys, v = random(sentences, length, size, dtype=full), random(size, dtype=full) if is_additive else None
    return random(sentences, size, row=size + 3), keys, v, random(sentences, length, width)


SOURCES = [(3, 7, 5, 6), (2, 40, 300, 260), (2, 1000, 64, 48)]  # sentences, positions, sizes of keys and of values


@pytest.mark.parametrize("sizes", SOURCES)
@pytest.mark.parametrize("is_additive", [True, False])
@pytest.mark.parametrize("is_masked", [True, False])
def test_the_kernel_of_a_step_of_attention(monkeypatch, random, sizes, is_additive, is_masked):
    sentences, length, _, width = sizes
    query, keys, v, values = source(random, sizes, is_additive)
    mask = None
    if is_masked:
        mask = torch.arange(length, device="cuda") < torch.randint(1, length, (sentences, 1, 1), device="cuda")
    outputs = random(sentences, length), random(sentences, width)
    assert_kernel_equals_torch(monkeypatch, read_forward, [query, keys, v, mask, values, *outputs])


@pytest.mark.parametrize("sizes", SOURCES)
@pytest.mark.parametrize("is_additive", [True, False])
@pytest.mark.parametrize("of_weights", [True, False])
def test_the_kernel_of_a_step_of_attention_backward(monkeypatch, random, sizes, is_additive, of_weights):
    sentences, length, size, width = sizes
    full = torch.float32
    query, keys, v, values = source(random, sizes, is_additive)
    weights = torch.softmax(random(sentences, length, dtype=full), dim=-1).to(values.dtype)
    gradients = random(sentences, width), random(sentences, length) if of_weights else None
    grad_v = random(sentences, size, dtype=full) if is_additive else None
    sums = random(sentences, size, row=size + 3), random(sentences, length, size, dtype=full), grad_v
    assert_kernel_equals_torch(monkeypatch, read_backward, [query, keys, v, values, weights, *gradients, *sums])


def test_a_source_longer_than_the_kernel_holds_is_read_by_torch(random):
    length = native.LONGEST_SOURCE_ON_GPU + 1
    keys, values = random(1, length, 4, dtype=torch.float32), random(1, length, 4)
    weights, context = random(1, length), random(1, 4)
    read_forward(random(1, 4), keys, None, None, values, weights, context)
    assert weights.float().sum().item() == pytest.approx(1, abs=0.02)
