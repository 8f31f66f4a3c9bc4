"""`check` examines each part in a process of its own: whatever one does to its process, the command says so."""

import pytest

from seq2seq_attn.errors import FailedError, UserError
from seq2seq_attn.testing.command import check_apart

PARTS = """
import ctypes, os, torch
from seq2seq_attn.attention import ScaledDot

class EndsItsProcess(ScaledDot):
    def forward(self, query, prepared):
        print("on stdout, which carries the answers")
        if len(query) == 4:
            os._exit(0)
        return super().forward(query, prepared)

class Crashes(ScaledDot):
    def forward(self, query, prepared):
        if len(query) == 4:
            ctypes.string_at(0)
        return super().forward(query, prepared)

class NeverEnds(ScaledDot):
    def forward(self, query, prepared):
        while query.shape[0] == 4:
            pass
        return super().forward(query, prepared)

class CrashesAtOnce(ScaledDot):
    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        ctypes.string_at(0)

class PatchesTorch(ScaledDot):
    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        torch.equal = lambda one, other: True
        torch.Tensor.any = None
"""


@pytest.fixture
def examined(tmp_path):
    """The outcomes of a scorer of the file, by law."""
    (tmp_path / "parts.py").write_text(PARTS)

    def examined(name, timeout=300):
        report = check_apart(f"{tmp_path / 'parts.py'}:{name}", timeout=timeout)
        return {each.law: (each.verdict, each.message) for each in report.outcomes}

    return examined


@pytest.mark.parametrize(
    ("name", "timeout", "reason"),
    [
        ("EndsItsProcess", 300, "its process ended"),
        pytest.param(
            "Crashes", 300, "parts.py, line 15: its process ended: Segmentation fault", marks=pytest.mark.slow
        ),
        pytest.param("NeverEnds", 30, "parts.py, line 20: it gave no answer within 30 seconds", marks=pytest.mark.slow),
    ],
)
def test_a_crash_or_a_hang_breaks_its_law_and_the_others_are_skipped(examined, name, timeout, reason):
    found = examined(name, timeout)
    assert found["shapes"] == ("broken", reason)
    assert found["determinism"] == ("skipped", f"{reason}, in the law `shapes`")


def test_a_constructor_that_crashes_is_one_line_and_exit_code_1(examined):
    with pytest.raises(FailedError) as error:
        examined("CrashesAtOnce")
    assert error.value.exit_code == 1
    assert "CrashesAtOnce: parts.py, line 27: its process ended: Segmentation fault while it was" in str(error.value)


def test_what_the_process_refuses_is_an_error_of_the_user(examined):
    with pytest.raises(UserError, match="did you mean 'Crashes'") as error:
        examined("Crashs")
    assert error.value.exit_code == 2


@pytest.mark.slow
def test_a_scorer_that_patches_torch_does_not_affect_the_next(examined):
    examined("PatchesTorch")
    assert {each.verdict for each in check_apart("scaled_dot").outcomes} == {"holds"}
