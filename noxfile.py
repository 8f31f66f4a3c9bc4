"""The tests on other releases of Python, of torch and of all other packages: `make matrix`, or `nox --list`.

Pythons are those that nox finds on the PATH; the others are skipped. torch comes as a CPU build from where pip finds
one (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS): PyPI has none for Linux, only builds that bring gigabytes of CUDA libraries.
"""

import configparser
import re

import nox

TOOLS = ["pytest", "pytest-xdist", "hypothesis", "jaxtyping", "beartype", "tensorboard", "torchtext==0.6.0"]
TOOLS += ["rouge-score"]
TESTS = ["attention", "corpora", "evaluation", "models", "ops", "search", "training"]
TESTS += ["cli/test_train_command.py", "cli/test_translate_command.py"]


def lower_bounds():
    """What setup.cfg requires, each package in the oldest release that it admits."""
    setup = configparser.ConfigParser()
    setup.read("setup.cfg")
    required = setup["options"]["install_requires"].split("\n")
    return [re.sub(r">=([\w.]+)[^;]*", r"==\1", each) for each in required if each and not each.startswith("torch")]


@nox.session(python=["3.10", "3.11", "3.12", "3.13"], venv_backend="venv")
@nox.parametrize("torch", ["2.6.0", "2.13.0"])
@nox.parametrize("others", ["pinned", "oldest"])
def tests(session, torch, others):
    """The rooms that depend on torch or on the data's libraries, and two commands."""
    session.install(f"torch=={torch}+cpu")
    wanted = lower_bounds() if others == "oldest" else ["--constraint", "constraints.txt"]
    session.install("--only-binary=:all:", "--no-binary=sacremoses,seq2seq_attn,rouge-score", *wanted, ".", *TOOLS)
    session.run("python", "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *(f"tests/{each}" for each in TESTS))
