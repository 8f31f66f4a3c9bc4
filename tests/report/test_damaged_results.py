"""Whatever is in the files of a results folder: a report, or one line that names the file; never a traceback."""

import json_damage
import pytest

from seq2seq_attn.report.write import write_report


@pytest.mark.parametrize("name", [
    "results.json", "curves.json", "attention.json", "examples.json", "corpus_attention.json", "sentences.json",
    "making.json",
])  # fmt: skip
def test_a_damaged_record_is_refused_by_name_or_reported(name, all_values, corpus, write, no_figures):
    all_values["corpus_attention.json"] = corpus
    folder = write(all_values)
    write_report(folder)
    outcomes = set()
    for about, text in json_damage.damaged(all_values[name], 30, seed=name):
        (folder / name).write_text(text)
        refused = json_damage.refusal(lambda: write_report(folder), about)
        outcomes.add(refused.partition(": ")[0])
    assert outcomes <= {"", str(folder / name)}
    assert str(folder / name) in outcomes
