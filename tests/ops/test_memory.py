"""What is asked of the C library, seen from outside: in a process of its own."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone is asked")

# How many pages the system cleared while a tensor of 24 MB was written to, and then a second one in its place.
PAGES = """
import resource, sys, torch
from seq2seq_attn.ops.host import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
torch.ones(1)
counts = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
for _ in range(2):
    torch.ones(24 << 20, dtype=torch.uint8)
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(counts[1] - counts[0], counts[2] - counts[1])
"""
SMALL_PAGES = (24 << 20) // 4096


def cleared(how):
    run = subprocess.run([sys.executable, "-c", PAGES, how], capture_output=True, check=True, text=True)
    return [int(count) for count in run.stdout.split()]


@linux
def test_memory_that_was_freed_is_not_cleared_again_for_the_next_tensor():
    assert cleared("keep")[1] < SMALL_PAGES / 10
    assert cleared("give back")[1] > SMALL_PAGES / 10


LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(
    not LARGE_PAGES.exists() or "[never]" in LARGE_PAGES.read_text() or resource.getpagesize() != 4096,
    reason="the system has no large pages to give",
)
def test_memory_comes_in_large_pages():
    assert cleared("keep")[0] < SMALL_PAGES / 2


RESIDENT = """
from pathlib import Path
import torch
from seq2seq_attn.ops.host import give_back_freed_memory, keep_freed_memory
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


@linux
def test_between_two_trainings_the_memory_of_the_first_is_given_back():
    run = subprocess.run([sys.executable, "-c", RESIDENT], capture_output=True, check=True, text=True)
    assert int(run.stdout) > 20 << 10  # kB
