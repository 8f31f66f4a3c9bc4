"""ONNX: the graphs of a model for onnxruntime and others, by torch's exporter from the programs of torch.export."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import torch

from seq2seq_attn.errors import UserError
from seq2seq_attn.export import Exported, need
from seq2seq_attn.export.graphs import GREEDY, Graph, graphs_of, quiet
from seq2seq_attn.options import ExportTarget
from seq2seq_attn.runs.model import TrainedModel

_USAGE = f"""
`encoder.onnx` and `step.onnx` take and return their tensors in the order of `export.json`. Greedy search over them:

```python
import json

import numpy as np
import onnxruntime

graphs = json.load(open("export.json"))["graphs"]
sessions = {{name: onnxruntime.InferenceSession(f"{{name}}.onnx") for name in graphs}}


def run(name, given):
    found = sessions[name].run(None, {{port["name"]: given[port["name"]] for port in graphs[name]["inputs"]}})
    return {{port["name"]: tensor for port, tensor in zip(graphs[name]["outputs"], found)}}

{GREEDY}
```
"""


def write(model: TrainedModel, folder: Path) -> Exported:
    """Write a file for each graph. UserError: a library is not installed, or torch.export cannot record the model."""
    need_packages("onnx")
    files = {}
    for name, graph in graphs_of(model).items():
        program_of(graph).save(folder / f"{name}.onnx")
        files[name] = graph.description(f"{name}.onnx")
    return Exported({"graphs": files}, _USAGE)


def need_packages(to: ExportTarget) -> None:
    """UserError if a package is not installed that torch's exporter needs."""
    for package in ("onnx", "onnxscript"):
        need(package, to)


_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # of a terminal, in torch's messages


def program_of(graph: Graph) -> torch.onnx.ONNXProgram:
    """The graph in ONNX."""
    try:
        with quiet():
            program = torch.onnx.export(
                graph.program,
                dynamo=True,
                input_names=[port.name for port in graph.inputs],
                output_names=[port.name for port in graph.outputs],
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        said = _COLOR.sub("", str(error)).strip()
        unknown = re.search(r"No ONNX function found for (\S+)", said)
        reason = f"it has no {unknown[1].rstrip('.')}" if unknown else said.partition("\n")[0]
        raise UserError(f"ONNX cannot express a part of this model: {reason}; export to torch instead") from error
    return cast(torch.onnx.ONNXProgram, program)
