"""`bench`, from its options to what it shows."""

import json

import pytest

from seq2seq_attn.speed.measurements import Sitting
from seq2seq_attn.speed.sitting import MEASURES

TINY = ["--batch", "3", "--batches", "1", "--warm-up", "0", "--repeats", "1", "--threads", "1"]


@pytest.fixture(params=["here", pytest.param("process", marks=pytest.mark.slow)])
def _measured_here(request, monkeypatch):
    """Measurements in this process, as starting one takes seconds; once as they are."""
    if request.param == "here":
        monkeypatch.setattr(
            "seq2seq_attn.speed.sitting.measure_own", lambda job, effort: MEASURES[job.what](job, effort)
        )


@pytest.mark.usefixtures("_measured_here")
def test_measurements_are_written_shown_and_plotted_on_a_page(program, tmp_path):
    path = tmp_path / "speed.json"
    measured = program(
        "bench", "--what", "training", "--model", "general", "--precision", "bf16", *TINY, "--output", path
    )
    assert measured.code == 0, measured.err
    sitting = Sitting.load(path)
    (figure,) = sitting.figures
    assert (figure.job.what, figure.job.model, len(figure.values)) == ("training", "general", 1)
    assert f"{figure.value:,.1f} tokens/s" in measured.err
    assert f"{figure.value:,.0f}" in measured.out
    assert "29,000 pairs, 7,870 vocabulary entries" in measured.out

    shown = program("bench", "--from", path, "--page", tmp_path / "speed.md")
    assert shown.code == 0
    assert shown.out == measured.out
    assert shown.err.splitlines() == [str(tmp_path / "speed.md"), str(tmp_path / "speed" / "1_training.svg")]
    assert json.loads(program("bench", "--from", path, "--json").out) == json.loads(path.read_text())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--what", "training,beem"], ["what='beem'", "'beam'"]),
        (["--model", "tree"], ["'tree'", "additive, general, general-feed, distracted, transformer"]),
        (["--model", "transformer", "--what", "products,profile"], ["products, profile", "recurrent models only"]),
        (["--sweep", "lenght"], ["'length'"]),
        (["--device", "gpu"], ["--device", "'gpu'", "'cuda'"]),
        (["--page", "speed.md"], ["--page", "--output", "--from"]),
        (["--batch", "99999999999"], ["batch=99,999,999,999: at most 10,000 sentences"]),
        (["--output", "/"], ["/: a folder; name a file"]),
        (["/nowhere"], ["/nowhere/train.bpe.en", "no such file"]),
        (["--peers", "/nowhere"], ["/nowhere/venv/bin/python", "setup.sh"]),
        (["--peers", "/nowhere", "--sweep", "batch"], ["/nowhere/data", "leave out the corpus, sweep and device"]),
        (["--from", "/nowhere.json"], ["/nowhere.json", "`seq2seq-attn bench --output` writes it"]),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(refused, arguments, words):
    message = refused("bench", *arguments)
    for word in words:
        assert word in message
