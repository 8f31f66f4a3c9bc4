"""The provenance recorded with a result is correct."""

import pytest
import torch

from seq2seq_attn.runs.provenance import hardware


@pytest.mark.usefixtures("fused")
def test_the_recorded_hardware_is_what_the_run_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "the GPU")
    assert hardware("auto") == hardware("cuda") == f"the GPU; torch {torch.__version__}"
    assert "the GPU" not in hardware("cpu")
    assert f"{torch.get_num_threads()} threads of " in hardware("cpu")
    assert " compiled kernels" in hardware("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert hardware("auto") == hardware("cpu")
