"""What the tests of training share."""

import pytest

from seq2seq_attn.training import loop


@pytest.fixture
def always(monkeypatch):
    """A checkpoint after every step."""
    monkeypatch.setattr(loop, "INTERVAL", 0.0)
    monkeypatch.setattr(loop, "SHARE", 1e9)
