"""experiments/self-attention: what it measures, by hand; every part at a tiny size; and the page that shows it."""

import json
import sys
from pathlib import Path
from random import Random

import pytest
import torch
from torch import nn

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments/self-attention"


@pytest.fixture(scope="module", autouse=True)
def _importable():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


class LinearScan(nn.Module):
    """h_t = a h_{t-1} + x_t."""

    def __init__(self, decay):
        super().__init__()
        self.decay = decay

    def forward(self, embedded, lengths):
        states = [embedded[:, 0]]
        for x in embedded.unbind(1)[1:]:
            states.append(self.decay * states[-1] + x)
        return torch.stack(states, dim=1)


def test_the_longest_chain_is_counted_over_both_branches():
    from layers import longest_chain

    x = torch.ones(3, requires_grad=True)
    assert longest_chain(x.exp()) == 1
    assert longest_chain((x.exp() * 2).tanh() + x.exp()) == 4


@pytest.mark.parametrize("length", [3, 11])
def test_multiplications_are_those_of_the_equations(length):
    from layers import SELF_ATTENTION, SIZE, cost, encoder

    gates = {"GRU": (3, 3), "LSTM": (4, 4), "minGRU": (2, 0), "SRU": (4, 0)}  # products with x, products with h
    for cell, (inputs, states) in gates.items():
        assert cost(encoder(cell, 1), length)[0] == (inputs + states) * length * SIZE**2
    products = 4 * length * SIZE**2 + 2 * length**2 * SIZE  # Q, K, V and output; scores and weighted sum
    assert cost(encoder(f"{SELF_ATTENTION}rotary", 1), length)[0] == products


def test_operations_in_sequence_grow_with_the_length_in_recurrent_layers_alone():
    from layers import CELLS, SELF_ATTENTION, cost, encoder

    for cell in CELLS:
        four, six, eight = (cost(encoder(cell, 1), length)[1] for length in (4, 6, 8))
        assert eight - six == six - four > 0
    attention = encoder(f"{SELF_ATTENTION}sinusoidal", 1)
    assert cost(attention, 4)[1] == cost(attention, 8)[1]


@pytest.mark.parametrize("decay", [0.5, 1e-50])  # 1e-50 ** 5: its square is 0 in double precision
def test_the_gradient_of_a_linear_scan_is_a_power_of_its_decay(decay):
    from layers import embedded
    from paths import gradients

    found = gradients(LinearScan(decay), embedded(2, 6, 1), 1)
    expected = torch.arange(6, dtype=torch.float64) * torch.log10(torch.tensor(decay, dtype=torch.float64))
    torch.testing.assert_close(found, expected)


def test_states_of_a_permuted_sentence_are_compared_word_by_word():
    from order import distances, states

    x = torch.tensor([[[1.0], [2.0], [4.0]]])
    before, after = states(LinearScan(1.0), x, torch.tensor([2, 0, 1]))  # read as 4, 1, 2
    assert before.flatten().tolist() == [1, 3, 7]
    assert after.flatten().tolist() == [5, 7, 4]
    torch.testing.assert_close(distances(before, after), torch.tensor([[4, 4 / 3, 3 / 7]]))


def test_only_self_attention_without_positions_does_not_know_the_order():
    from layers import ENCODERS, SELF_ATTENTION
    from order import order

    found = order([1, 2], length=5)["distance"]
    blind = found.pop(f"{SELF_ATTENTION}no positions")
    assert max(blind) < 1e-12
    assert set(found) == set(ENCODERS) - {f"{SELF_ATTENTION}no positions"}
    assert min(map(min, found.values())) > 0.05


@pytest.mark.parametrize("distance", [1, 2, 9])
def test_a_verb_agrees_with_the_first_word(distance):
    from tasks import agreement

    random, between = Random(1), set()
    for _ in range(100):
        pair = agreement(random, distance)
        first, *middle, verb = pair.source
        assert len(pair.source) == distance + 1
        assert pair.target == ((verb,) if first.endswith("s") else (f"{verb}s",))
        between |= {word.endswith("s") == first.endswith("s") for word in middle}
    assert between == (set() if distance == 1 else {True, False})


def test_a_word_is_right_at_its_own_position():
    from tasks import right_words

    assert right_words([["a", "c"], [], ["d", "e", "f"]], [["a", "b", "c"], ["a"], ["d", "e"]]) == 3 / 6


def test_the_models_that_are_timed_have_the_same_size():
    from throughput import MODELS, count_parameters, untrained

    with torch.device("meta"):
        counts = [count_parameters(untrained(name)) for name in MODELS]
    assert max(counts) < 1.002 * min(counts)


@pytest.fixture(scope="module")
def tiny(_importable, tmp_path_factory):
    """The results of every part at a tiny size, and the folder with results.json, pictures and page."""
    import measure
    import tasks

    folder = tmp_path_factory.mktemp("measured")
    (folder / "page.md").write_text("".join(f"<!-- table: {part} -->\n<!-- end -->\n" for part in measure.PARTS))
    parts = {
        "count": lambda: measure.count([2, 3]),
        "order": lambda: measure.order([1, 2], length=3),
        "path": lambda: measure.path([1, 2], farthest=10),
        "tasks": lambda: measure.tasks([1], [2, 3], 2, folder / "runs", epochs=1, training=8, farthest=10),
        "speed": lambda: measure.speed([3, 5], 1, 1, run=lambda function, *arguments: function(*arguments)),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "PARTS", parts)
        patch.setattr(tasks, "TASKS", {"agreement": tasks.agreement})
        patch.setattr(tasks, "ARMS", dict(list(tasks.ARMS.items())[1:3]))
        patch.setattr(tasks, "WARM_UP", 0)  # there is one step
        patch.setattr("throughput.BATCH_TOKENS", 10)
        for part in reversed(parts):
            measure.measure(part, folder / "results.json", folder / "page.md")
    return folder


@pytest.mark.slow  # seconds; .ci/run includes it
def test_each_part_writes_results_pictures_and_tables(tiny):
    from page import PLACE, fill

    results = json.loads((tiny / "results.json").read_text(encoding="utf-8"))
    assert list(results) == ["count", "order", "path", "tasks", "speed"]
    pictures = {path.stem for path in tiny.glob("*.png")}
    page = (tiny / "page.md").read_text(encoding="utf-8")
    assert pictures == {"order", "path", "path-trained", "speed", "tasks"}
    assert {place[1] for place in PLACE.findall(page)} == set(results)
    assert "Not measured" not in page
    assert fill(page, results) == page
    assert results["tasks"]["accuracy"]["agreement"].keys() == {"GRU, additive attention", "Transformer, sinusoidal"}
    assert all(value[0] > 0 for lists in results["speed"]["training"].values() for value in lists)


@pytest.mark.slow  # seconds; .ci/run includes it
def test_a_model_that_is_there_is_not_trained_again(tiny, monkeypatch):
    import tasks

    monkeypatch.setattr(tasks, "WARM_UP", 0)  # as when it was trained
    arm = "GRU, additive attention"
    folder = tiny / "runs/agreement"
    before = (folder / f"{arm} 1/model.safetensors").read_bytes()
    model = tasks.train(tasks.configuration(arm, 1, folder / "data", 1), folder / f"{arm} 1")
    assert model.metrics["training"]["epochs"] == 1
    assert (folder / f"{arm} 1/model.safetensors").read_bytes() == before


def test_the_page_shows_the_results():
    from page import TABLES, fill

    results = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/self-attention.md").read_text(encoding="utf-8")
    assert fill(page, results) == page
    assert all(f"<!-- table: {part} -->" in page for part in TABLES)
    assert "Not measured yet: `python experiments/self-attention/measure.py order`" in fill(page, {})
