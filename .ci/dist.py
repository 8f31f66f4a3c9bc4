"""Build the sdist and the wheel from the committed files, and try both out.

    python .ci/dist.py [https://github.com/OWNER/NAME]

The address of the repository, by default that of the remote `origin`, makes the links of the README absolute, because a
package index shows the README without the files beside it; it also becomes the project's URLs in the metadata, and
links to notebooks open them where they can be run. Without one, links stay relative and the metadata has no URLs.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDED = ["tests/conftest.py", "data/tom-and-jerry/train.en.gz", "docs/index.md", "docs/conf.py", "examples/README.md"]
NEEDED += ["experiments/tom-and-jerry/results/results.json", "benchmarks/README.md", "CHANGELOG.md", "CITATION.cff"]
NEEDED += [
    "seq2seq_attn/demo_models/attention/model.safetensors",
    "constraints.txt",
    "Makefile",
    ".ci/run",
    "LICENSE",
    "data/LICENSE",
    "CONTRIBUTING.md",
]


def repository(arguments: list[str]) -> str:
    """The address that was given, else that of origin, else none."""
    if arguments:
        return arguments[0].removesuffix("/").removesuffix(".git")
    origin = subprocess.run(["git", "remote", "get-url", "origin"], cwd=ROOT, capture_output=True, text=True)
    address = re.sub(r"^git@([^:]+):", r"https://\1/", origin.stdout.strip()).removesuffix(".git")
    return address if address.startswith("https://") else ""


def absolute(text: str, url: str) -> str:
    """The page with links to files of the repository made absolute; pictures by their raw address."""
    raw = url.replace("https://github.com/", "https://raw.githubusercontent.com/")
    pictures = f"{raw}/main" if raw != url else f"{url}/raw/main"
    text = re.sub(r"(!\[[^\]]*\])\((?!https?:|#)", rf"\1({pictures}/", text)
    text = re.sub(r'((?:src|srcset)=")(?!https?:)', rf"\1{pictures}/", text)
    return re.sub(r"(?<=\]\()(?!https?:|#)", f"{url}/blob/main/", text)


def hosted(text: str, url: str) -> str:
    """The page with links to notebooks of a repository on GitHub opened by Colab, which runs them; else as it was."""
    colab = url.replace("https://github.com/", "https://colab.research.google.com/github/")
    if colab == url:
        return text
    return re.sub(r"\]\((?:\.\./)?(?:examples/)?(\w+\.ipynb)\)", rf"]({colab}/blob/main/examples/\1)", text)


def fill_in(tree: Path, url: str) -> None:
    """Fills the address of the repository into its pages and the metadata."""
    readme, setup = tree / "README.md", tree / "setup.cfg"
    for page in (*tree.glob("README*.md"), tree / "examples" / "README.md", *(tree / "docs").glob("*.md")):
        page.write_text(hosted(page.read_text(encoding="utf-8"), url), encoding="utf-8")
    readme.write_text(absolute(readme.read_text(encoding="utf-8"), url), encoding="utf-8")
    urls = f"url = {url}\nproject_urls =\n    Source = {url}\n    Issues = {url}/issues\n"
    urls += f"    Changelog = {url}/blob/main/CHANGELOG.md\nlicense = MIT\n"
    setup.write_text(setup.read_text(encoding="utf-8").replace("license = MIT\n", urls, 1), encoding="utf-8")


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive; the argument `filter` is in the last releases of Python 3.10 and 3.11 alone."""
    with tarfile.open(archive) as files:
        files.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def prepared(folder: Path, url: str) -> Path:
    """The committed files in this folder, with the address of the repository filled in."""
    archive = folder / "committed.tar"
    subprocess.run(["git", "archive", "--output", archive, "HEAD"], cwd=ROOT, check=True)
    tree = folder / "tree"
    unpack(archive, tree)
    if url:
        fill_in(tree, url)
    return tree


def check_contents(sdist: Path, wheel: Path) -> None:
    """Every file that was committed is in the sdist; every file of the package is in the wheel."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    # The package links the folders of its corpora, and a distribution has their files.
    links = {path for path in listed if (ROOT / path).is_symlink()}
    linked = {f"{link}/{path.name}" for link in links for path in (ROOT / link).iterdir()}
    committed = {*listed, *linked} - links
    with tarfile.open(sdist) as files:
        packed = {name.partition("/")[2] for name in files.getnames()}
    with zipfile.ZipFile(wheel) as files:
        installed = set(files.namelist())
    missing = {*committed, *NEEDED} - packed - {"pyproject.toml"}
    package = {path for path in committed if path.startswith("seq2seq_attn/")}
    sources = {path for path in package if path.startswith("seq2seq_attn/serve/frontend/")}  # shipped as serve/page
    missing |= package - sources - installed
    if extra := [path for path in installed if path.startswith("seq2seq_attn/serve/frontend/")]:
        sys.exit(f"the wheel has sources of the page: {', '.join(sorted(extra)[:5])}")
    if missing:
        sys.exit(f"missing from the distributions: {', '.join(sorted(missing))}")


def check_links(wheel: Path) -> None:
    """Every link of the README that an index shows is absolute."""
    with zipfile.ZipFile(wheel) as files:
        metadata = next(name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        text = files.read(metadata).decode()
    if relative := re.findall(r"\]\((?!https?:|#)([^)]*)\)", text):
        sys.exit(f"relative links in the metadata: {', '.join(relative)}")


def check_installation(folder: Path, sdist: Path) -> None:
    """From the unpacked sdist, with the packages of this environment: installed, run and tested."""
    unpack(sdist, folder / "unpacked")
    (tree,) = (folder / "unpacked").iterdir()
    environment = folder / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    paths = environment / "lib" / version / "site-packages" / "outer.pth"
    paths.write_text("".join(f"{path}\n" for path in sys.path if path.endswith("site-packages")), encoding="utf-8")
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-installed", tree]
    subprocess.run(install, check=True)
    alone = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    where = "import seq2seq_attn; assert 'site-packages' in seq2seq_attn.__file__, seq2seq_attn.__file__"
    subprocess.run([python, "-c", where], cwd=folder, env=alone, check=True)
    subprocess.run([environment / "bin" / "seq2seq-attn", "--version"], cwd=folder, env=alone, check=True)
    check_demo(environment / "bin" / "seq2seq-attn", folder / "empty", alone)
    subprocess.run([python, "-m", "pytest", "tests/attention"], cwd=tree, env=alone, check=True)


def check_demo(program: Path, empty: Path, environment: dict[str, str]) -> None:
    """From an empty folder, with an empty home: the models of the package translate, and are served."""
    empty.mkdir()
    alone = environment | {"HOME": str(empty / "home"), "XDG_CACHE_HOME": str(empty / "cache")}
    ask = [program, "translate", "demo"]
    done = subprocess.run(ask, input="Tom chases Jerry\n", cwd=empty, env=alone, capture_output=True, text=True)
    if done.stdout != "汤姆 追逐 杰瑞 。\n":
        sys.exit(f"translate demo: {done.stdout}{done.stderr}")
    with subprocess.Popen([program, "serve", "--port", "0"], cwd=empty, env=alone, stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        said = server.stderr.readline().decode()
        try:
            address = re.search(r"attention, distracted, transformer at (http://\S+)", said)
            if address is None:
                sys.exit(f"serve: {said}")
            with urllib.request.urlopen(f"{address[1]}v1/models", timeout=60) as answer:
                print(answer.read().decode())
        finally:
            server.terminate()


def main() -> None:
    url = repository(sys.argv[1:])
    print(f"repository: {url or 'unknown, so links stay relative; give its address'}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree = prepared(folder, url)
        built = folder / "built"
        subprocess.run([sys.executable, "-m", "build", "--outdir", built, tree], check=True)
        (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
        check_contents(sdist, wheel)
        if url:
            check_links(wheel)
        check_installation(folder, sdist)
        (ROOT / "dist").mkdir(exist_ok=True)
        for path in (sdist, wheel):
            (ROOT / "dist" / path.name).write_bytes(path.read_bytes())
            print(ROOT / "dist" / path.name)


if __name__ == "__main__":
    main()
