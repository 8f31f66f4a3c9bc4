"""Whatever is in the JSON files of a run folder: it is read, or refused by one line that names the file."""

import json

import json_damage
import pytest

from seq2seq_attn.analysis.scoring import evaluate
from seq2seq_attn.comparison.evidence import read_curve, read_run
from seq2seq_attn.corpora.codec import load_codecs
from seq2seq_attn.files.checksums import SUMS, record
from seq2seq_attn.runs.folder import changed_surroundings, is_run
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.training import CURVES

HEADER = b"epoch,step,train_loss,validation_loss,validation_score\n"  # of the log


@pytest.fixture
def run(grid, train_once, tmp_path):
    """A tested run whose manifest lists no file, so that none is checked."""
    train_once(grid.runs[2].config, tmp_path / "run")
    evaluate(TrainedModel.load(tmp_path / "run"), tmp_path / "run")
    (tmp_path / "run" / SUMS).unlink()
    record(tmp_path / "run", [])
    return tmp_path / "run"


def read(folder):
    is_run(folder)
    load_codecs(folder)
    read_run(folder, 1, 32)
    changed_surroundings(folder, {"version": "1", "hardware": "an abacus"})


@pytest.mark.parametrize("name", ["metrics.json", "provenance.json", "source.tokenizer.json"])
def test_a_damaged_record_is_refused_by_name_or_read(run, name):
    whole = json.loads((run / name).read_text())
    read(run)
    for about, text in json_damage.damaged(whole, 150, seed=name):
        (run / name).write_text(text)
        refused = json_damage.refusal(lambda: read(run), about)
        assert refused.partition(": ")[0] in ("", str(run / name)), about


@pytest.mark.parametrize("content", [
    b"\xff\n", HEADER + b"x,1,,2,\n", HEADER + b"1,x,,2,\n", HEADER + b"1,1,,x,\n", HEADER + b"1,1,,2,x\n",
    HEADER + b",1,,7,\n", HEADER + b"1\n", HEADER + b"1,1,,2,3,\x00\n,\n", b"step,validation_loss\n1,2\n",
])  # fmt: skip
def test_a_damaged_log_is_refused_by_name(run, content):
    log = run / CURVES
    log.write_bytes(content)
    refused = json_damage.refusal(lambda: read_curve(run, 1), content)
    assert refused.startswith(f"{log}: not the log of a training (") or b"\x00" in content
