"""`align` by single heads: error rates of all, links of one, and their picture."""

import json

import pytest
import yaml

import seq2seq_attn as s2s
from seq2seq_attn.report.figures import render

MODEL = {
    "kind": "transformer",
    "embedding_size": 12,
    "encoder": {"layers": 1, "heads": 2},
    "context": {"heads": 3},
    "decoder": {"layers": 2, "heads": 2},
}


@pytest.fixture(scope="module")
def run(toy, train_run):
    """Two layers that read the source with three heads each; tests only read it."""
    folder, config = toy / "with-heads", toy / "with-heads.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load((toy / "toy.yaml").read_text()) | {"model": MODEL}))
    return train_run(config, folder, "training.max_epochs=2")


@pytest.fixture
def files(toy):
    return toy / "test.src", toy / "test.tgt", "--gold", toy / "test.align"


def test_the_table_has_the_rates_of_the_record_and_says_that_the_best_head_is_optimistic(program, run, files):
    record = json.loads(program("align", run, *files, "--heads", "--json").out)
    rates = {(each["layer"], each["head"]): each["aer"] for each in record["heads"]}
    answer = program("align", run, *files, "--heads")
    assert (answer.code, answer.err) == (0, "")
    head, *rows, best = answer.out.splitlines()
    assert head.split() == ["AER", "head", "0", "head", "1", "head", "2", "mean"]
    for layer, row in enumerate(rows[:2]):
        assert row.split() == ["layer", str(layer), *(f"{rates[layer, head]:.3f}" for head in (0, 1, 2, None))]
    assert rows[2].split() == ["mean", f"{rates[None, None]:.3f}"]
    lowest = min(rate for (layer, head), rate in rates.items() if head is not None)
    layer, head = record["best"]["layer"], record["best"]["head"]
    assert rates[layer, head] == lowest == record["best"]["aer"]
    assert (record["best"]["chosen_from"], record["best"]["chosen_on"]) == (6, "these pairs")
    assert best.startswith(
        f"best head: layer {layer}, head {head}, AER {lowest:.3f}; the best of 6 on these very pairs"
    )


def test_the_links_of_a_head_have_its_error_rate(program, run, files):
    record = json.loads(program("align", run, *files, "--heads", "--json").out)
    for each in record["heads"]:
        chosen = [f"--{key}={each[key]}" for key in ("layer", "head") if each[key] is not None]
        found = json.loads(program("align", run, *files, "--json", *chosen).out)
        assert [found[key] for key in ("aer", "precision", "recall", "f1")] == list(each.values())[2:6]


def test_one_head_is_not_chosen_from_any(program, trained, files):
    rate = json.loads(program("align", trained, *files, "--json").out)["aer"]
    last = program("align", trained, *files, "--heads").out.splitlines()[-1]
    assert last == f"best head: layer 0, head 0, AER {rate:.3f}"


def test_the_picture_is_that_of_the_first_pair(program, run, files, tmp_path):
    path = tmp_path / "heads.svg"
    assert program("align", run, *files[:2], "--plot", path) == program("align", run, *files[:2])
    first = (file.read_text().splitlines()[0] for file in files[:2])
    assert path.read_bytes() == render(s2s.load(run).attention_maps(*first).plot(), "svg")


def test_options_that_do_not_go_together_are_refused(refused, run, trained, files):
    for options, words in {
        ("--heads",): "--gold",
        ("--head", "1"): "needs the number of its layer",
        ("--plot", "x.jpg"): ".svg or .png",
        ("--layer", "2"): "layer 2: this model reads the source in 2 layers, numbered from 0 to 1",
        ("--layer", "1", "--head", "3"): "head 3: layer 1 has 3 heads",
        ("--aligner", "eflomal", "--layer", "1"): "uses no weights",
        (*files[2:], "--heads", "--layer", "1"): "leave out",
        (*files[2:], "--heads", "--reverse", trained): "leave out",
    }.items():
        assert words in refused("align", run, *files[:2], *options), options
