"""The settings of the C library, observed from outside in a process of its own; and garbage collection."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq_attn.ops.host import give_back_freed_memory

# `at_start`, `kept`: how many pages the system zeroed for each of a few tensors of 24 MB, allocated and freed in turn,
# before and after `keep_freed_memory`. `released`: by how many kB the process shrank in the end.
PROGRAM = """
import json, torch
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from seq2seq_attn.ops.host import give_back_freed_memory, keep_freed_memory

def zeroed_pages(tensors):
    counts = [getrusage(RUSAGE_SELF).ru_minflt]
    for _ in range(tensors):
        torch.ones(24 << 20, dtype=torch.uint8)
        counts.append(getrusage(RUSAGE_SELF).ru_minflt)
    return [after - before for before, after in zip(counts, counts[1:])]

def resident_kb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))

torch.ones(1)
at_start = zeroed_pages(2)  # later ones may be reused: glibc adapts its threshold to what was freed
keep_freed_memory()
kept = zeroed_pages(4)
cycle = [torch.ones(24 << 20, dtype=torch.uint8)]
cycle.append(cycle)  # as a trainer and its callbacks refer to each other: reference counting alone never frees it
above = torch.ones(1 << 20)
del cycle
before = resident_kb()
give_back_freed_memory()
print(json.dumps({"at_start": at_start, "kept": kept, "released": before - resident_kb()}))
"""
SMALL_PAGES = (24 << 20) // 4096
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.slow  # seconds; .ci/run includes it
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is configured")
def test_kept_memory_is_not_zeroed_again_comes_in_huge_pages_and_is_given_back_on_request():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True, text=True)
    seen = json.loads(run.stdout)
    assert min(seen["at_start"]) > 0.9 * SMALL_PAGES  # by default every page of every tensor is zeroed
    assert max(seen["kept"][1:]) < SMALL_PAGES / 5
    assert seen["released"] > 20 << 10
    if HUGE_PAGES.exists() and "[never]" not in HUGE_PAGES.read_text() and resource.getpagesize() == 4096:
        assert seen["kept"][0] < SMALL_PAGES / 2


class Interrupting:
    """A cycle during whose collection the user presses Ctrl-C."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_while_garbage_is_collected_is_not_lost():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        Interrupting()
        with pytest.raises(KeyboardInterrupt):
            give_back_freed_memory()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
