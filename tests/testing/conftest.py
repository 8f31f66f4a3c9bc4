"""Modules of broken parts."""

import pytest

from seq2seq_attn.attention import (
    normalizer,
    normalizer_classes,
    scorer,
    scorer_classes,
    window,
    window_classes,
)


@pytest.fixture(scope="session")
def broken():
    """The module of broken scorers, which are not registered for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scorer._scorers, "_classes", scorer_classes())
        import broken_scorers
    return broken_scorers


@pytest.fixture(scope="session")
def broken_parts():
    """The module of broken normalizers, windows and contexts, which are not registered for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normalizer._normalizers, "_classes", normalizer_classes())
        patch.setattr(window._windows, "_classes", window_classes())
        import broken_parts
    return broken_parts
