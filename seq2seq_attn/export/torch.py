"""torch.export: the graphs of a model as programs (.pt2), which torch loads without this package."""

from __future__ import annotations

from pathlib import Path

import torch

from seq2seq_attn.export import Exported
from seq2seq_attn.export.graphs import GREEDY, graphs_of, quiet
from seq2seq_attn.runs.model import TrainedModel

_USAGE = f"""
`encoder.pt2` and `step.pt2` are programs of torch.export, written with torch {torch.__version__}. They take and return
their tensors in the order of `export.json`. Greedy search over them:

```python
import json

import numpy as np
import torch

programs = {{name: torch.export.load(f"{{name}}.pt2").module() for name in ("encoder", "step")}}
graphs = json.load(open("export.json"))["graphs"]


def run(name, given):
    found = programs[name](*(torch.from_numpy(given[port["name"]]) for port in graphs[name]["inputs"]))
    return {{port["name"]: tensor.numpy() for port, tensor in zip(graphs[name]["outputs"], found)}}

{GREEDY}
```
"""


def write(model: TrainedModel, folder: Path) -> Exported:
    """Write a program for each graph. UserError: torch.export cannot record a part of the model."""
    files = {}
    for name, graph in graphs_of(model).items():
        with quiet():
            torch.export.save(graph.program, folder / f"{name}.pt2")
        files[name] = graph.description(f"{name}.pt2")
    return Exported({"graphs": files}, _USAGE)
