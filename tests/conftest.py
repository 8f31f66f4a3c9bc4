"""What holds while tests run, and only then: shapes are checked at every call of the attention package."""

import gc
import os
import shutil
import signal
import sys
from functools import cache

import pytest
import shape_checks
import typer
from hypothesis import HealthCheck, settings

# Before torch is loaded, and for the programs that tests start: threads gain nothing on small tensors, and wait for
# each other where cores are shared; the few that tests ask for wait without spinning.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Tests start dozens of programs, each of which would compile the package again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

shape_checks.install()

# What a test writes need not survive a power failure: it is written to memory where that has room, as a file of a disk
# that is replaced is waited for even without fsync. The suites write less than a gigabyte.
os.fsync = lambda descriptor: None
if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")

# The same examples in every run, and no limit on time: on a busy machine a test must not fail for being slow.
settings.register_profile(
    "suite", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

# As in a process of its own, the commands are built once; tests call the program hundreds of times.
typer.main.get_command = cache(typer.main.get_command)

pytest_plugins = ["toy_experiment", "chromium"]

# What a shell starts in the background ignores Ctrl-C, and so would the programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


# torch and thousands of collected tests stay alive until the end: no garbage collection need visit them.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def the_same_random_numbers_in_every_run():
    import torch

    torch.manual_seed(1)


@pytest.fixture(scope="session", autouse=True)
def what_stays_the_same_is_asked_once_and_memory_is_left_as_it_is():
    """What a run records of git and of the installed packages stays the same while tests run, as do YAML texts.

    Toys leave no memory, and the process is not the program's own. Of the time of a toy training, these are a third.
    """
    import torch

    from seq2seq_attn.files import plain
    from seq2seq_attn.ops import host
    from seq2seq_attn.runs import provenance, train

    with pytest.MonkeyPatch.context() as patch:
        for name in ("_git", "_version"):
            patch.setattr(provenance, name, cache(getattr(provenance, name)))
        patch.setattr(plain, "compose_yaml", cache(plain.compose_yaml))
        patch.setattr(host, "_glibc", lambda: None)
        if not torch.accelerator.is_available():  # torch would keep the stack of the call for each kind: 1 ms a test
            patch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
        patch.setattr(train, "give_back_freed_memory", lambda: None)
        yield


@pytest.fixture
def fused():
    """For tests of fused forms: skips the test under SEQ2SEQ_ATTN_FAST=0."""
    from seq2seq_attn import ops

    if ops.is_reference():
        pytest.skip("reference implementations are requested")


@pytest.fixture
def no_figures(monkeypatch):
    """Reports are written without their figures, which take most of the time and have tests of their own."""
    monkeypatch.setattr("seq2seq_attn.report.write._figures", lambda *_: iter(()))


@pytest.fixture
def forget_parts(monkeypatch):
    """The scorers and normalizers that a test registers are forgotten after it, and where it calls this."""
    from seq2seq_attn.attention import normalizer, scorer

    known = [(registry, registry.classes()) for registry in (scorer._scorers, normalizer._normalizers)]

    def forget():
        for registry, classes in known:
            monkeypatch.setattr(registry, "_classes", dict(classes))

    forget()
    return forget


@pytest.fixture
def only_laws(monkeypatch):
    """Keeps only these laws of every kind of part, and those that have to hold first."""
    from seq2seq_attn.testing.laws import LAWS

    def only(*laws):
        kept = {"shapes", "determinism", *laws}
        for kind, all_laws in LAWS.items():
            monkeypatch.setitem(LAWS, kind, {law: each for law, each in all_laws.items() if law in kept})

    return only


@pytest.fixture
def parts_in_this_process(monkeypatch):
    """`check` starts no process, and leaves out graphs: torch cannot trace the checks of shapes."""
    from seq2seq_attn.testing import command
    from seq2seq_attn.testing.construct import find_part, read_options
    from seq2seq_attn.testing.laws import LAWS, laws_of, report_on

    def check_here(name, options, timeout):
        part = find_part(name)
        return report_on(laws_of(part, **read_options(part, options)))

    monkeypatch.setattr(command, "check_apart", check_here)
    for kind, laws in LAWS.items():
        graphs = ("compiled", "exported")
        monkeypatch.setitem(LAWS, kind, {law: each for law, each in laws.items() if law not in graphs})


@pytest.fixture(params=["kernel", "torch"])
def kernel_or_torch(request, monkeypatch):
    """Runs a test once with compiled kernels and once with torch's operations."""
    import torch

    from seq2seq_attn.ops import native

    if request.param == "torch":
        monkeypatch.setattr(native, "has_kernels", lambda tensor: False)
    elif not native.has_kernels(torch.empty(0)):
        pytest.skip("no compiler here")
