"""The experiment of the demo: `demo.yaml` on a corpus of the package, or two of its arms briefly."""

from __future__ import annotations

from pathlib import Path

from seq2seq_attn.comparison.experiment import RunGrid, experiment_grid
from seq2seq_attn.corpora.embedded import TOM_AND_JERRY, TOM_AND_JERRY_SHORT
from seq2seq_attn.runs.corpora import files_in
from seq2seq_attn.strict import merge, read_yaml


def demo_grid(quick: bool = False) -> RunGrid:
    """The runs of the demo; of the quick one, which trains minutes less."""
    folder = Path(__file__).parent
    values, corpus = read_yaml(folder / "demo.yaml"), TOM_AND_JERRY
    if quick:
        shorter, corpus = read_yaml(folder / "demo-quick.yaml"), TOM_AND_JERRY_SHORT
        arms = {arm: merge(values["arms"][arm], shorter["changes"]) for arm in shorter["arms"]}
        values |= {"name": f"{values['name']}-quick", "arms": arms, "note": shorter["note"]}
    data = files_in(corpus, values["base"]["data"])
    return experiment_grid(values | {"base": values["base"] | {"data": data}})
