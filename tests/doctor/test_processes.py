"""Parts in processes of their own: whatever one does to its process does not affect the next."""

import subprocess

import pytest

from seq2seq_attn.doctor import IsolatedPart, Request
from seq2seq_attn.errors import UserError

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
        print("on stdout, which carries the answers")
        while query.shape[0] == 1:
            time.sleep(0.01)
        return super().forward(query, prepared)

class PatchesTorch(ScaledDot):
    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        torch.equal = lambda one, other: True
        torch.Tensor.any = None
"""
LAWS = ["singleton_dims", "inputs"]


@pytest.fixture
def checked(tmp_path):
    """Checks a scorer of the file or of the catalog, by name."""
    (tmp_path / "parts.py").write_text(PARTS)

    def checked(name, laws=LAWS, timeout=None):
        part = IsolatedPart(Request(f"{tmp_path / 'parts.py'}:{name}" if name[0].isupper() else name))
        part._timeout = timeout or part._timeout
        try:
            return part.report(laws)
        finally:
            part.close()

    return checked


def test_a_law_in_which_the_process_ends_is_broken_and_another_process_checks_the_next(checked):
    ended = checked("EndsItsProcess").findings
    assert ended["singleton_dims"] == ("wrong", "the process ended with exit code 7")
    assert ended["inputs"].verdict == "ok"


@pytest.mark.slow
def test_a_law_that_exceeds_the_time_limit_is_broken(checked):
    found = checked("NeverEnds", ["singleton_dims"], timeout=5).findings
    assert found["singleton_dims"] == ("wrong", "the process gave no answer within 5 seconds")


@pytest.mark.slow
def test_a_scorer_that_patches_torch_does_not_affect_the_next(checked):
    checked("PatchesTorch")
    assert {finding.verdict for finding in checked("scaled_dot").findings.values()} == {"ok"}


def test_a_process_that_does_not_start_in_time_is_ended(monkeypatch):
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    with pytest.raises(
        UserError, match=r"dot: its process gave no answer within 0\.01 seconds before any law was checked"
    ):
        IsolatedPart(Request("dot"), timeout=0.01)
    assert [process.poll() is None for process in started] == [False]
