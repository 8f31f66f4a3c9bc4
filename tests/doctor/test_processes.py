"""A process for each part: whatever one does to its own, the verdict on the next is not touched."""

import pytest

from seq2seq_attn.doctor import IsolatedPart, Request

PARTS = """
import os, time, torch
from seq2seq_attn.attention import ScaledDot

class EndsItsProcess(ScaledDot):
    def forward(self, query, prepared):
        if query.shape[1] == 1:
            os._exit(7)
        return super().forward(query, prepared)

class NeverEnds(ScaledDot):
    def forward(self, query, prepared):
        print("to stdout, where answers go")
        while query.shape[0] == 1:
            time.sleep(0.01)
        return super().forward(query, prepared)

class SpoilsTorch(ScaledDot):
    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        torch.equal = lambda one, other: True
        torch.Tensor.any = None
"""
LAWS = ["singleton_dims", "inputs"]


@pytest.fixture
def examined(tmp_path):
    """What laws say of a scorer of the file, or of the catalogue, by name."""
    (tmp_path / "parts.py").write_text(PARTS)

    def examined(name, laws=LAWS, timeout=None):
        patient = IsolatedPart(Request(f"{tmp_path / 'parts.py'}:{name}" if name[0].isupper() else name))
        patient._timeout = timeout or patient._timeout
        try:
            return patient.report(laws)
        finally:
            patient.close()

    return examined


def test_a_process_that_ends_is_a_broken_law_and_another_one_asks_the_next(examined):
    ended = examined("EndsItsProcess").findings
    assert ended["singleton_dims"] == ("wrong", "the process ended with exit code 7")
    assert ended["inputs"].verdict == "ok"


@pytest.mark.slow
def test_what_never_ends_is_a_broken_law(examined):
    found = examined("NeverEnds", ["singleton_dims"], timeout=5).findings
    assert found["singleton_dims"] == ("wrong", "the process gave no answer within 5 seconds")


def test_a_scorer_that_spoils_its_process_leaves_the_verdict_on_the_next_alone(examined):
    examined("SpoilsTorch")
    assert {finding.verdict for finding in examined("scaled_dot").findings.values()} == {"ok"}
