"""A sitting of two rounds: two precisions, a peer, their floor, a profile, and a sweep over two lengths."""

import pytest
from hand_made_measurements import PEER, measurement

from benchmarks.records import OTHER, PARTS, Sitting


@pytest.fixture
def sitting():
    parts = {part: (10.0 * (number + 1),) * 2 for number, part in enumerate((*PARTS, OTHER))}
    swept = [
        measurement(what, 10 * rate, 10 * rate, sweep="length", batch=16, length=length, peak=length * 10_000_000)
        for length in (25, 400)
        for what, rate in (("training", 431.0 - length), ("products", 997.0), ("bytes", 1994.0))
    ]
    return Sitting(
        started="2026-01-02T03:04+00:00",
        version="0.1.0",
        commit=None,
        hardware="two cores",
        corpus="19 pairs",
        warm_up=3,
        batches=11,
        figures=[
            measurement("training", 4105.0, 3107.0, precision="fp32"),
            measurement("training", 7013.0, 6011.0),
            measurement("training", 1001.0, 1003.0, precision="fp32", system=PEER),
            measurement("products", 20000.0, 20000.0, parts={"encoder": (3.25, 3.35), "recurrence": (7.5, 7.5)}),
            measurement("bytes", 60000.0, 60000.0, parts={"optimizer": (2.75, 2.85)}),
            measurement("sentence-beam", 12.0, 13.0),
            measurement("sentence-beam", 75.0, 77.0, precision="fp32", system=PEER),
            measurement("profile", 450.0, 450.0, parts=parts),
            *swept,
        ],
    )
