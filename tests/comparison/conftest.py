"""Comparisons write their reports without figures, which take most of the time and have tests of their own."""

import pytest

from seq2seq_attn.report import write


@pytest.fixture(scope="module", autouse=True)
def drawn():
    """What draws the figures, for a test that needs them."""
    real = write._figures
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "_figures", lambda *_: iter(()))
        yield real
