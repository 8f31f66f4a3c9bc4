"""One run: its folder, its data, its training, and its trained model."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], object]  # how a function that may take long reports what it does, one line per call
