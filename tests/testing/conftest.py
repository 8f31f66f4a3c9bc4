"""Modules of broken parts.

The process that distributes the tests reads this file too, and needs no torch: imports are inside the fixtures.
"""

import pytest


@pytest.fixture(scope="session")
def broken():
    """The module of broken scorers, which are not registered for other tests."""
    from seq2seq_attn.attention import scorer, scorer_classes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scorer._scorers, "_classes", scorer_classes())
        import broken_scorers
    return broken_scorers


@pytest.fixture(scope="session")
def broken_parts():
    """The module of broken normalizers, windows and contexts, which are not registered for other tests."""
    from seq2seq_attn.attention import normalizer, normalizer_classes, window, window_classes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normalizer._normalizers, "_classes", normalizer_classes())
        patch.setattr(window._windows, "_classes", window_classes())
        import broken_parts
    return broken_parts
