"""Run tests on other releases of Python and torch, each combination in a temporary environment.

    python .ci/matrix.py [--python 3.10 3.11 ...] [--torch 2.6.0 2.13.0 newest] [--others pinned oldest newest] [--cuda]

Pythons are those on the PATH and of pyenv. torch is installed as a CPU build (`torch==2.6.0+cpu`), from where pip finds
one: set PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS. PyPI has none for Linux, only builds that bring gigabytes of CUDA, which
run without a GPU as well: `--cuda` takes them where there is no CPU build. Without either, the rooms that need no torch
are tested: texts, scores and reports. `--others` are the releases of all other packages: those of constraints.txt, the
lower bounds of setup.cfg, or the newest. The last lines are a table of what was run; the exit code is 1 if any test
failed.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = ["pytest", "pytest-xdist", "hypothesis"]
TOOLS_WITH_TORCH = ["jaxtyping", "beartype", "tensorboard", "torchtext==0.6.0"]
WITH_TORCH = ["tests/attention", "tests/models", "tests/ops", "tests/search", "tests/training"]
WITH_TORCH += [
    "tests/cli/test_train_command.py",
    "tests/cli/test_translate_command.py",
    "tests/evaluation",
    "tests/text",
]
WITHOUT_TORCH = ["tests/evaluation", "tests/text", "tests/report"]
NEED_TORCH = ["tests/text/test_torchtext_import.py", "tests/text/test_word_vectors.py"]


def interpreter(release: str) -> str | None:
    """The program of a Python release, such as 3.12, if it runs."""
    candidates = [shutil.which(f"python{release}"), *Path.home().glob(f".pyenv/versions/{release}.*/bin/python")]
    for candidate in filter(None, map(str, candidates)):
        done = subprocess.run([candidate, "-c", "import venv"], capture_output=True, check=False)
        if done.returncode == 0:
            return candidate
    return None


def requirements(others: str, with_torch: bool) -> list[str]:
    """Arguments of pip for everything but torch."""
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    block = re.search(r"^install_requires =\n((?:    .+\n)+)", text, flags=re.MULTILINE)
    assert block is not None
    wanted = [line.strip() for line in block[1].splitlines() if not line.strip().startswith("torch>")]
    if others == "oldest":
        wanted = [re.sub(r">=([\w.]+)[^;]*", r"==\1", each, count=1) for each in wanted]
    pinned = ["--constraint", str(ROOT / "constraints.txt")] if others == "pinned" else []
    return [*pinned, *wanted, *TOOLS, *(TOOLS_WITH_TORCH if with_torch else [])]


class Environment:
    """A virtual environment in a folder."""

    def __init__(self, program: str, folder: Path) -> None:
        subprocess.run([program, "-m", "venv", folder], check=True)
        self.python = folder / "bin" / "python"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.python, "-m", *arguments], capture_output=True, text=True, cwd=ROOT, check=False)

    def install(self, *requirements: str) -> str | None:
        """Why pip failed; None if it did not."""
        done = self.run(
            "pip", "install", "--quiet", "--only-binary", ":all:", "--no-binary", "sacremoses", *requirements
        )
        return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]

    def newest_torch(self) -> str:
        """The newest release that pip finds for this Python, in any build."""
        found = re.search(r"Available versions: ([\d.]+)", self.run("pip", "index", "versions", "torch").stdout)
        return found[1] if found else "none"

    def test(self, *arguments: str) -> str:
        """The last line of pytest."""
        # The markers and paths of setup.cfg, without its parallel workers.
        done = self.run("pytest", "-n", "0", "-p", "no:cacheprovider", *arguments)
        last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1]
        if done.returncode != 0:
            print(done.stdout[-6000:], done.stderr[-2000:], file=sys.stderr)
        return re.sub(r" in [\d.]+s.*|=+", "", last).strip()


def with_torch(environment: Environment, torch: str, others: str, cuda: bool) -> str | None:
    """The outcome with this release of torch; None if there is no build of it that may be taken."""
    if environment.install(f"torch=={torch}+cpu") is not None and (
        not cuda or environment.install(f"torch=={torch}") is not None
    ):
        return None
    failure = environment.install(*requirements(others, with_torch=True))
    return f"failed: {failure}" if failure is not None else environment.test(*WITH_TORCH)


def without_torch(environment: Environment, others: str) -> str:
    if (failure := environment.install(*requirements(others, with_torch=False))) is not None:
        return f"failed: {failure}"
    ignored = [f"--ignore={path}" for path in NEED_TORCH]
    # The outermost conftest needs torch; each folder has its own, or none.
    outcomes = {path: environment.test(f"--confcutdir={path}", *ignored, path) for path in WITHOUT_TORCH}
    return "; ".join(f"{path}: {outcome}" for path, outcome in outcomes.items())


def rows(release: str, torches: list[str], others: str, cuda: bool, folder: Path) -> Iterator[str]:
    """The rows of a Python release."""
    program = interpreter(release)
    if program is None:
        yield f"| {release} | | {others} | not run: there is no such Python |"
        return
    environment, missing = Environment(program, folder), []
    for torch in torches:
        used = environment.newest_torch() if torch == "newest" else torch
        if (outcome := with_torch(environment, used, others, cuda)) is not None:
            yield f"| {release} | {used} | {others} | {outcome} |"
        else:
            missing.append(used)
    if missing:
        yield f"| {release} | {', '.join(missing)} | {others} | not run: no {'' if cuda else 'CPU '}build is at hand |"
    if len(missing) == len(torches):
        yield f"| {release} | none | {others} | {without_torch(environment, others)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run tests on other releases of Python and torch.")
    parser.add_argument("--python", nargs="+", default=["3.10", "3.11", "3.12", "3.13"])
    parser.add_argument("--torch", nargs="+", default=["2.6.0", "2.13.0", "newest"])
    parser.add_argument("--others", nargs="+", default=["pinned"], choices=["pinned", "oldest", "newest"])
    parser.add_argument("--cuda", action="store_true", help="take builds with CUDA where there is no CPU build")
    options = parser.parse_args()
    table = ["| Python | torch | other packages | tests |", "| --- | --- | --- | --- |"]
    for release, others in product(options.python, options.others):
        with tempfile.TemporaryDirectory() as folder:
            for row in rows(release, options.torch, others, options.cuda, Path(folder)):
                print(row, file=sys.stderr, flush=True)
                table.append(row)
    print("\n".join(table))
    return 1 if any("failed" in row or "error" in row for row in table) else 0


if __name__ == "__main__":
    sys.exit(main())
