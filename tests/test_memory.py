"""What is asked of the C library, seen from outside: in a process of its own."""

import subprocess
import sys

import pytest

# mallinfo2 of glibc: the bytes that it holds of the system in its own heap, and in tensors that have a mapping each.
HELD = """
import ctypes, sys, torch
from seq2seq_attn.memory import keep_freed_memory
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd".split() + list("abcde")]
ask = ctypes.CDLL(None).mallinfo2
ask.restype = Info
if sys.argv[1] == "keep":
    keep_freed_memory()
before = ask()
tensor = torch.empty(24 << 20, dtype=torch.uint8)
during = ask()
del tensor
after = ask()
print(during.hblkhd - before.hblkhd, after.arena - before.arena)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone is asked")
@pytest.mark.parametrize(("how", "mapped", "kept"), [("keep", False, True), ("give back", True, False)])
def test_memory_that_was_freed_stays_in_the_heap_for_the_next_tensor(how, mapped, kept):
    run = subprocess.run([sys.executable, "-c", HELD, how], capture_output=True, check=True, text=True)
    of_its_own, in_the_heap = (int(bytes) > 20 << 20 for bytes in run.stdout.split())
    assert (of_its_own, in_the_heap) == (mapped, kept)


RESIDENT = """
from pathlib import Path
import torch
from seq2seq_attn.memory import give_back_freed_memory, keep_freed_memory
def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
keep_freed_memory()
cycle = [torch.ones(24 << 20, dtype=torch.uint8)]
cycle.append(cycle)  # as a trainer and its callbacks refer to each other: no count of references falls to 0
above = torch.ones(1 << 20)
del cycle
kept = resident()
give_back_freed_memory()
print(kept - resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone is asked")
def test_between_two_trainings_the_memory_of_the_first_is_given_back():
    run = subprocess.run([sys.executable, "-c", RESIDENT], capture_output=True, check=True, text=True)
    assert int(run.stdout) > 20 << 10  # kB
