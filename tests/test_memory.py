"""What `keep_freed_memory` asks of the C library, seen from outside: in a process of its own."""

import subprocess
import sys

import pytest

PAGE_FAULTS = """
import resource, sys, torch
from seq2seq_attn.memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def step():
    tensors = [torch.zeros(3 << 20, dtype=torch.uint8) for _ in range(10)]  # of 768 pages each
for _ in range(3):
    step()
before = faults()
for _ in range(10):
    step()
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone is asked")
def test_memory_that_was_freed_is_used_again_without_the_system():
    run = [sys.executable, "-c", PAGE_FAULTS]
    kept, given_back = (
        int(subprocess.run([*run, how], capture_output=True, check=True, text=True).stdout) for how in ("keep", "give")
    )
    assert kept < 1000  # and not 7,680 a step
    assert given_back > 10 * kept
