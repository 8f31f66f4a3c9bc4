"""`bench`, from its options to what it shows."""

import pytest

from seq2seq_attn.bench.measurements import Sitting

TINY = ["--batch", "3", "--batches", "1", "--warm-up", "0", "--repeats", "1", "--threads", "1"]


def test_a_sitting_is_measured_kept_shown_and_made_a_page(program, tmp_path):
    path = tmp_path / "speed.json"
    measured = program(
        "bench", "--what", "training", "--model", "general", "--precision", "bf16", *TINY, "--json", path
    )
    assert measured.code == 0, measured.err
    sitting = Sitting.load(path)
    (figure,) = sitting.figures
    assert (figure.job.what, figure.job.model, len(figure.values)) == ("training", "general", 1)
    assert f"{figure.value:,.1f} tokens/s" in measured.err
    assert f"{figure.value:,.0f}" in measured.out
    assert "29,000 pairs, 7,870 vocabulary entries" in measured.out

    shown = program("bench", "--from", path, "--page", tmp_path / "speed.md")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(measured.out)
    assert shown.out.splitlines()[-2:] == [str(tmp_path / "speed.md"), str(tmp_path / "speed" / "1_training.svg")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--what", "training,beem"], ["--what", "'beem'", "'beam'"]),
        (["--model", "transformer"], ["'transformer'", "additive, general, general-feed, distracted"]),
        (["--sweep", "lenght"], ["'length'"]),
        (["--device", "gpu"], ["--device", "'gpu'", "'cuda'"]),
        (["--page", "speed.md"], ["--page", "--json", "--from"]),
        (["/nowhere"], ["/nowhere/train.bpe.en", "no such file"]),
        (["--peers", "/nowhere"], ["/nowhere/venv/bin/python", "setup.sh"]),
        (["--peers", "/nowhere", "--sweep", "batch"], ["/nowhere/data", "leave out FOLDER, --sweep"]),
        (["--from", "/nowhere.json"], ["/nowhere.json", "`seq2seq-attn bench --json` writes it"]),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(refused, arguments, words):
    message = refused("bench", *arguments)
    for word in words:
        assert word in message
