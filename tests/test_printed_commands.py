"""Every code block of README and docs, and every example of a help text, run as printed in an empty folder.

The README needs nothing but what its own blocks make, so it trains real models; the other pages speak of files of the
reader's, which are supplied here, and small. Slow: minutes. What cannot be run has a comment on its page that says why,
or is named here.
"""

import os
import subprocess
import sys

import pytest
from printed import READ, ROOT, blocks, help_examples, needs_files, provide
from warm import served

pytestmark = pytest.mark.slow

# Examples of the help that are not run, each with the reason.
LONG = {
    "seq2seq-attn demo": "four minutes on two idle cores",
    "seq2seq-attn demo --quick --output quick-demo": "docs/getting-started.md runs it",
    "seq2seq-attn data get multi30k-en-de": "downloads",
}
NEEDS = {
    "split bible": "a downloaded corpus",
    "data get sacrebleu:": "a network; tests/corpora/test_named.py has a folder in place of it",
    "data get mtdata:": "a program; tests/corpora/test_named.py has a stand-in",
    "--from-folder downloads": "a folder that others have filled",
    "my_package": "an installed package",
    "me/en-de": "a repository on the hub; tests/cli/test_hub.py has a stand-in",
    "--on slurm": "a Slurm; tests/cluster starts one",
    "--live": "the runs of a comparison; tests/export writes the page",
    "seq2seq-attn serve": "a server runs until it is stopped; tests/serve starts it",
}


@pytest.fixture(scope="session")
def shell(tmp_path_factory):
    """Runs lines of shell in a folder, with the program on the PATH, which need not import torch for each command."""
    programs = tmp_path_factory.mktemp("bin")
    modules = {"pytest": "-m pytest", "torchrun": "-m torch.distributed.run", "python": ""}
    for name, module in modules.items():
        path = programs / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        path.chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def run(text, folder):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"

    with served(programs, environment):
        yield run


@pytest.fixture(scope="session")
def model(tmp_path_factory, shell):
    """A trained run, small, that pages speak of as one of the reader's."""
    folder = tmp_path_factory.mktemp("model")
    provide(folder, "tiny.yaml", set(), folder)
    shell("seq2seq-attn train tiny.yaml --output run", folder)
    return folder / "run"


@pytest.mark.parametrize("page", [page for page in READ if any(block.reason is None for block in blocks(page))])
def test_the_blocks_of_a_page_run_one_after_the_other(page, tmp_path, shell, model):
    run = [block for block in blocks(page) if block.reason is None]
    if page != "README.md":  # which makes all that it reads
        commands = "\n".join(block.text for block in run if block.language not in ("json", "text"))
        provide(tmp_path, commands, {block.name for block in run if block.name}, model)
    for block in run:
        if block.name:
            (tmp_path / block.name).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            shell(block.text, tmp_path)
        elif block.language == "python" and needs_files(block):  # the others run in test_readme.py
            shell(f"python - <<'END'\n{block.text}\nEND", tmp_path)


@pytest.mark.parametrize("example", help_examples())
def test_an_example_of_the_help_runs(example, tmp_path, shell, model):
    reason = LONG.get(example) or next((why for word, why in NEEDS.items() if word in example), None)
    if reason:
        pytest.skip(reason)
    provide(tmp_path, example, set(), model)
    shell(example, tmp_path)
