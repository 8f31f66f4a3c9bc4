"""Pictures of the attention of a model that is being trained, which its loggers show."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seq2seq_attn.runs.model import TrainedModel


def draw_attention(model: TrainedModel, sources: Sequence[str], targets: Sequence[str]) -> list[NDArray[np.uint8]]:
    """Draws the weights with which a model predicts these targets, as `Model.attention(source, target).plot()` does.

    Args:
        model: A model with attention.
        sources: Lines with text.
        targets: Their translations, with text.

    Returns:
        A picture of each pair, (height, width, 3).
    """
    # Not before the first picture: workers of a comparison import this file.
    from matplotlib.image import imread

    from seq2seq_attn.api.attention_view import forced_view
    from seq2seq_attn.report.figures import render

    pictures = []
    for source, target, forced in zip(sources, targets, model.force(sources, targets), strict=True):
        assert forced is not None
        view = forced_view(model, source, target, [forced.weights[None]])
        shades = imread(io.BytesIO(render(view.plot(), "png")))[..., :3]  # 0 to 1
        pictures.append(np.rint(255 * shades).astype(np.uint8))
    return pictures
