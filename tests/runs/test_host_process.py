"""Using the package from Python does not change the calling process."""

import json
import os
import subprocess
import sys

import pytest

# Imported first, and torch's compiler used once: what other libraries change of themselves does not count.
SCRIPT = """
import json, logging, os, random, signal, sys, threading, warnings
from pathlib import Path

import matplotlib.pyplot, numpy as np, rich.style
import sacrebleu, sacremoses, tensorboard, torch
import torch.utils.tensorboard

torch.compile(torch.sin, backend="aot_eager")(torch.ones(2))
torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])  # the first optimizer imports torch's compiler
asked = []


def refuse():
    asked.append("mallopt")
    raise AssertionError("the allocator of the process is not ours to tune")


def state():
    loggers = {"": logging.getLogger()} | {
        name: logger for name, logger in logging.Logger.manager.loggerDict.items() if isinstance(logger, logging.Logger)
    }
    return {
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "running threads": sorted(thread.name for thread in threading.enumerate()),
        "warning filters": [str(entry) for entry in warnings.filters],
        "loggers": {name: [each.level, each.disabled, len(each.handlers)] for name, each in sorted(loggers.items())},
        "python": hash(random.getstate()),
        "numpy": [str(part) for part in np.random.get_state(legacy=True)],
        "torch": hash(tuple(torch.get_rng_state().tolist())),
        "torch options": [
            str(torch.get_default_dtype()), torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(),
            torch.get_float32_matmul_precision(), torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled(),
        ],
        "environment": dict(os.environ),
        "signals": {number: str(signal.getsignal(number)) for number in signal.valid_signals()},
        "folder": os.getcwd(),
        "hooks": [str(sys.excepthook), str(sys.displayhook), str(warnings.showwarning)],
    }


random.seed(3), np.random.seed(5), torch.manual_seed(7)
import seq2seq_attn.ops.host
seq2seq_attn.ops.host.keep_freed_memory = refuse  # before any module imports it by name
before = state()

import seq2seq_attn as s2s

folder = Path(sys.argv[1])
s2s.train(json.loads(sys.stdin.read()), folder)
model = s2s.load(folder)
model.translate(["a b", "", "c"] * 500)
model.score([("a b", "b a")])
model.align([("a b", "b a")])
model.attention("a b").plot()
model.evaluate()
s2s.scorers(query_size=5, key_size=7)
s2s.walk("additive")
s2s.walk("self-attention")
os.chdir(folder.parent)
s2s.data.get("reverse")
s2s.data.stats("reverse")
pairs = "data/reverse/test.source", "data/reverse/test.target"
s2s.data.split(pairs, "parts", validation=2, test=3, source_language="en", target_language="de")
s2s.check(s2s.attention.General, query_size=5, key_size=7)
os.chdir(before["folder"])
after = state()
for name, logger in dict(after["loggers"]).items():
    if name not in before["loggers"]:
        del after["loggers"][name]  # a logger that some module created, without a level of its own
        assert logger == [0, False, 0], (name, logger)
def changes(old, new):
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: [old.get(key), new.get(key)] for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    return [str(old), str(new)]


differ = {name: changes(before[name], after[name]) for name in before if before[name] != after[name]}
print(json.dumps({"differ": differ, "asked": asked}))
"""


INSTRUMENTS = SCRIPT[
    SCRIPT.index("os.chdir(folder.parent)") : SCRIPT.index('os.chdir(before["folder"])')
]  # slow: data, check
COMPILER = 'torch.compile(torch.sin, backend="aot_eager")(torch.ones(2))\n'  # used by check


@pytest.mark.slow  # seconds; .ci/run includes it
@pytest.mark.parametrize("script", ["models", "all of it"])
def test_what_the_front_door_offers_does_not_change_the_process(script, values, tmp_path):
    text = SCRIPT if script == "all of it" else SCRIPT.replace(INSTRUMENTS, "").replace(COMPILER, "")
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path / "run")],
        input=json.dumps(values["base"]),
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "2"},  # more than one, since decoding divides them among its workers
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"differ": {}, "asked": []}


def test_random_numbers_depend_on_the_seed_alone_and_continue_afterwards_even_after_an_error():
    import random

    import numpy as np
    import torch

    from seq2seq_attn.training.randomness import RandomStates, seeded

    def drawn():
        return random.gauss(0, 1), np.random.normal(), torch.rand(()).item()

    before = RandomStates.now()
    expected = drawn(), drawn()
    before.restore()
    assert drawn() == expected[0]
    found = []

    @seeded(5)
    def fail():
        found.append(drawn())
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail()
    assert found[0] == found[1]
    assert drawn() == expected[1]
