"""`--ensemble RUN`: the probabilities of several runs are averaged."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file


@pytest.fixture
def copy(trained, tmp_path):
    """A run folder with the tokenizers of `trained` and random weights, or those of `trained`."""

    def make(name, seed=None):
        run = shutil.copytree(trained, tmp_path / name)
        (run / "SHA256SUMS").write_text("# seq2seq_attn\n")  # its files are changed on purpose
        if seed is not None:
            weights, draw = load_file(run / "model.safetensors"), torch.Generator().manual_seed(seed)
            save_file(
                {key: torch.randn(w.shape, generator=draw) for key, w in weights.items()}, run / "model.safetensors"
            )
        return run

    return make


def test_runs_with_other_tokens_are_refused(refused, trained, copy):
    swapped, lowercased = copy("swapped"), copy("lowercased")
    tokens = (swapped / "target.vocabulary.txt").read_text().splitlines()
    (swapped / "target.vocabulary.txt").write_text("\n".join([*tokens[:4], tokens[5], tokens[4], *tokens[6:]]) + "\n")
    record = json.loads((lowercased / "source.tokenizer.json").read_text())
    (lowercased / "source.tokenizer.json").write_text(json.dumps(record | {"lowercase": True}))
    for run, reason in ((swapped, "target vocabularies of 9 and 9 tokens"), (lowercased, "source tokenizers")):
        message = refused("translate", trained, "--ensemble", run, stdin=b"a\n")
        assert f"{run} have {reason} that differ; " in message
    assert "not a run folder" in refused("translate", trained, "--ensemble", trained.parent / "none", stdin=b"a\n")


def test_the_weights_of_an_ensemble_need_attention_in_every_run(program, refused, distracted, trained, copy, tmp_path):
    other, file = copy("b", seed=1), tmp_path / "x.jsonl"

    def weights(*runs):
        first, *rest = runs
        more = [word for run in rest for word in ("--ensemble", run)]
        options = "--min-length", "3", "--max-length", "3", "--attention", file
        assert program("translate", first, *more, *options, stdin=b"a b c\n").code == 0
        (found,) = json.loads(file.read_text())["translations"]
        return torch.tensor(found["weights"])

    assert weights(trained, other).sum(dim=1).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    first = (weights(trained)[0] + weights(other)[0]) / 2  # before the first token, all have read the same
    torch.testing.assert_close(weights(trained, other)[0], first, atol=1e-5, rtol=0)
    message = refused("translate", trained, "--ensemble", distracted, "--attention", file, stdin=b"a\n")
    assert f"{distracted}: model.context.kind: this model does not attend" in message
