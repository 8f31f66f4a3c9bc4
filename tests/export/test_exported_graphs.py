"""The exported graphs, run by other programs, are a step of the model: the same tokens and log-probabilities.

The examples of the READMEs are the loops: they use no class of this package. Slow, as the exports are:

    python -m pytest -m slow tests/export/test_exported_graphs.py
"""

import json
import re

import numpy as np
import pytest
import torch
from small_models import GRAPHS

from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.search import SearchOptions, greedy_search


def example(folder):
    """The names that the example of a README defines."""
    names = {}
    exec(re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), flags=re.DOTALL)[1], names)
    return names


pytestmark = pytest.mark.slow

EXPORTED = ("mean", "recurrent", "transformer", "history", "location", "one_direction", "hard", "copying")
REFUSED = ("peeking", "shuffled")


@pytest.mark.parametrize("name", EXPORTED)
def test_a_loop_over_the_graphs_is_greedy_search(graphs, untrained, monkeypatch, name):
    to, values = GRAPHS[name]
    if to == "onnx":
        pytest.importorskip("onnxruntime", reason="the extra [export] is not installed")
    model, (folder, _) = untrained(values), graphs(*EXPORTED, *REFUSED)
    monkeypatch.chdir(folder / name)
    run, draw = example(folder / name)["run"], torch.Generator().manual_seed(1)
    for sentences, positions in ((1, 1), (2, 2), (4, 7)):
        tokens = torch.randint(4, 15, (sentences, positions), generator=draw)
        source = Tokens(tokens, positions - torch.arange(sentences))
        ours = [best for (best,) in greedy_search(model.translator, source, SearchOptions(max_length=6), True)]
        for found, best, length in zip(greedy(run, source, 6), ours, source.lengths.tolist(), strict=True):
            assert found["tokens"] == best.tokens
            assert found["log_probability"] == pytest.approx(best.log_probability, abs=1e-4)
            np.testing.assert_allclose(found["weights"][:, :length], best.weights, atol=1e-5)
            assert not found["weights"][:, length:].any()


def greedy(run, source, limit):
    """What a loop over the graphs finds for each sentence; <pad> and <s> are not predicted, as in the search here."""
    found = run("encoder", {"source": source.tokens.numpy(), "lengths": source.lengths.numpy()})
    tokens, steps = np.full(len(source.tokens), 2), []
    for _ in range(limit):
        found |= run("step", {"tokens": tokens, **found})
        found |= {name.removeprefix("next_"): each for name, each in found.items() if name.startswith("next_")}
        scores = torch.log_softmax(torch.from_numpy(found["logits"]), dim=1).numpy()
        scores[:, [1, 2]] = -np.inf
        tokens = scores.argmax(axis=1)
        steps.append((tokens, scores.max(axis=1), found["weights"]))
    for tokens, scores, weights in zip(*(np.stack(part, axis=1) for part in zip(*steps, strict=True)), strict=True):
        end = next((step + 1 for step, token in enumerate(tokens) if token == 3), limit)
        written = [token for token in tokens[:end].tolist() if token != 3]
        yield {"tokens": written, "log_probability": scores[:end].sum(), "weights": weights[:end]}


def test_inputs_and_outputs_are_named_in_order_with_their_sizes(graphs):
    folder = graphs(*EXPORTED, *REFUSED)[0] / "recurrent"
    description = json.loads((folder / "export.json").read_text())["graphs"]
    assert {path.name for path in folder.glob("*.onnx")} == {graph["file"] for graph in description.values()}
    carried = description["encoder"]["outputs"]
    assert carried[0] == {"name": "state_hidden", "type": "float32", "shape": ["sentences", 12]}
    types = {port["name"]: (port["type"], port["shape"]) for port in carried}
    assert types["memory_source_prepared_is_token"] == ("bool", ["sentences", 1, "positions"])
    assert description["step"]["inputs"] == [{"name": "tokens", "type": "int64", "shape": ["sentences"]}, *carried]
    names = [port["name"] for port in description["step"]["outputs"]]
    assert names == ["logits", "weights", "next_state_hidden", "next_state_feed"]


def test_a_part_that_cannot_be_recorded_is_refused_in_one_line(graphs):
    folder, refused = graphs(*EXPORTED, *REFUSED)
    assert [name for name, message in refused.items() if message is not None] == list(REFUSED)
    assert refused["peeking"].startswith("torch.export cannot record a part of this model: ")
    assert refused["shuffled"].startswith("ONNX cannot express a part of this model: it has no ")
    for name in REFUSED:
        assert "\n" not in refused[name]
        assert name not in {path.name for path in folder.iterdir()}
