import pytest
import torch

from seq2seq_attn.ops import native


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def dtype(request):
    if not native.has_kernels(torch.empty(0, dtype=request.param)):
        pytest.skip("no compiler here")
    return request.param


@pytest.fixture
def close(dtype):
    """Equal up to the rounding of the results."""
    rtol, atol = (1e-5, 2e-6) if dtype == torch.float32 else (1e-2, 1e-2)

    def check(got, expected):
        torch.testing.assert_close(got.double(), expected, rtol=rtol, atol=atol)

    return check


@pytest.fixture
def no_kernels(monkeypatch):
    def disable():
        monkeypatch.setattr(native, "has_kernels", lambda tensor: False)

    return disable
