"""CONTRIBUTING follows a sentence through the code: so does a real training step."""

import re
import sys
from pathlib import Path

from test_loop import reversal_pairs

import seq2seq_attn
from seq2seq_attn import ops
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.loop import Loop

PACKAGE = Path(seq2seq_attn.__file__).parent
CONTRIBUTING = PACKAGE.parent / "CONTRIBUTING.md"


def calls_between(files, work):
    """The pairs of these files in which the first calls the second, directly or through files that are not listed."""
    found, stack = set(), []

    def follow(frame, event, _):
        path = Path(frame.f_code.co_filename)
        name = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None
        if event == "call":
            if name in files and (callers := [each for each in stack if each in files]):
                found.add((callers[-1], name))
            stack.append(name)
        elif event == "return" and stack:
            stack.pop()

    sys.setprofile(follow)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def test_each_file_that_follows_a_sentence_is_called_from_one_before_it(tmp_path):
    guide = CONTRIBUTING.read_text(encoding="utf-8").partition("## Follow a sentence")[2].split("How `compare` gets")[0]
    files = re.findall(r"^\d+\. `([\w/]+\.py)`", guide, flags=re.MULTILINE)
    assert files[0] == "training/loop.py"
    pairs = reversal_pairs()
    config = TrainingConfig(accelerator="cpu")
    sizes = {"embedding_size": 6, "encoder": {"hidden_size": 5}, "decoder": {"kind": "bahdanau", "hidden_size": 7}}
    model = RecurrentConfig.model_validate(sizes).build(11, 11, joint=False)
    loop = Loop(model, config, pairs, pairs, None, tmp_path)
    with ops.reference():
        calls = calls_between(files, lambda: loop.step([pairs[[0, 1, 2]]]))
    for place, file in enumerate(files[1:], start=1):
        assert any((earlier, file) in calls for earlier in files[:place]), file
