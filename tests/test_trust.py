"""What the package may do to the machine that it runs on, and what it may be installed with."""

import ast
import configparser
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "seq2seq_attn"

UNPICKLING = {"cloudpickle", "copyreg", "dill", "joblib", "jsonpickle", "marshal", "pickle", "shelve"}
NETWORK = {
    *("aiohttp", "asyncio", "ftplib", "http", "httpx", "requests", "smtplib", "socket", "socketserver", "ssl"),
    *("urllib.request", "urllib3", "webbrowser", "xmlrpc"),
}
SHELLS = {"bash", "cmd", "cmd.exe", "csh", "dash", "ksh", "powershell", "sh", "zsh"}
CALLS = re.compile(
    r"eval|exec|compile|__import__|os\.(system|popen|exec\w+|spawn\w+)|subprocess\.(getoutput|getstatusoutput)"
    r"|pickle\.\w+|torch\.(load|hub\.\w+|jit\.load)|runpy\.\w+|yaml\.(full_load|unsafe_load)(_all)?"
    r"|[\w.]+\.(exec_module|load_module)"
)

# Where these words have a reason; everything else of their kind is refused.
ALLOWED = {
    **{
        f"serve/{name}.py": {"import asyncio"}
        for name in ("app", "batches", "calls", "endpoints", "guard", "libretranslate")
    },
    "serve/connections.py": {"import asyncio", "import http", "import http.HTTPStatus"},  # the names of status codes
    "serve/server.py": {"import asyncio", "import socket"},  # listens where `serve` is told to
    "attention/user_code.py": {"spec.loader.exec_module(file.module)"},  # of a file that the user names
    "testing/calls.py": {"import pickle", "pickle.loads(pickle.dumps(part))", "pickle.dumps(part)"},  # its own bytes
    "corpora/vectors.py": {"torch.load(path, map_location='cpu', weights_only=True)"},  # a cache of torchtext
    "corpora/download.py": {"import http.client", "import urllib.request"},
    "training/processes.py": {"import socket"},  # whether the launcher's name of a machine is known
    "comparison/launchers/ray.py": {"import pickle", "pickle.dumps((work, run))", "pickle.loads(content)"},  # its own
}


def dotted(node):
    """`os.system` for the expression of this name; what is not a name is a question mark."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def dangers(source):
    """Imports, calls and classes that could execute what they read, start a shell or use the network."""
    tree = ast.parse(source)
    safe_loaders = {"yaml.SafeLoader", "yaml.CSafeLoader"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and safe_loaders & {ast.unparse(base) for base in node.bases}:
            safe_loaders.add(node.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            modules = (
                names if isinstance(node, ast.Import) else [node.module or "", *(f"{node.module}.{n}" for n in names)]
            )
            for module in modules:
                packages = {module, ".".join(module.split(".")[:2]), module.split(".")[0]}
                if packages & (UNPICKLING | NETWORK):
                    yield f"import {module}"
        elif isinstance(node, ast.ClassDef):
            for base in map(ast.unparse, node.bases):
                if base.split(".")[0] in UNPICKLING:
                    yield f"class {node.name}({base})"
        elif isinstance(node, ast.Call):
            called, options = dotted(node.func), {each.arg: each.value for each in node.keywords}
            is_pickled = "allow_pickle" in options and ast.unparse(options["allow_pickle"]) != "False"
            if CALLS.fullmatch(called) or "shell" in options or is_pickled:
                yield ast.unparse(node)
            if called in ("yaml.load", "yaml.load_all"):
                loader = options.get("Loader", node.args[1] if len(node.args) > 1 else node.func)
                if ast.unparse(loader) not in safe_loaders:
                    yield ast.unparse(node)
        elif isinstance(node, ast.List | ast.Tuple) and node.elts:
            program = getattr(node.elts[0], "value", None)
            if isinstance(program, str) and Path(program).name in SHELLS:
                yield ast.unparse(node)


def test_the_package_unpickles_nothing_starts_no_shell_and_uses_the_network_for_data_and_serve():
    found = {}
    for path in PACKAGE.rglob("*.py"):
        if dangerous := set(dangers(path.read_text(encoding="utf-8"))):
            found[path.relative_to(PACKAGE).as_posix()] = dangerous
    assert found == ALLOWED


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "from pickle import loads", "from torch import load, hub\nimport dill as d",
        "import urllib.request as r", "from urllib import request", "import http.client", "import socket, os",
        "eval(text)", "exec(text)", "__import__(name)", "os.system(c)", "os.popen(c)",
        "torch.load(p, weights_only=True)",
        "subprocess.run(c, shell=True)", "subprocess.run(c, shell=flag)", "subprocess.Popen(['sh', '-c', c])",
        "subprocess.run(('/bin/bash', c))", "np.load(p, allow_pickle=True)", "yaml.load(t)",
        "yaml.load(t, yaml.Loader)", "yaml.load(t, Loader=yaml.FullLoader)", "yaml.unsafe_load(t)", "runpy.run_path(p)",
    ],
)  # fmt: skip
def test_each_danger_is_seen(source):
    assert list(dangers(source))


@pytest.mark.parametrize(
    "source",
    [
        "model.eval()", "re.compile(p)", "torch.compile(f)", "yaml.safe_load(t)", "np.load(p, allow_pickle=False)",
        "subprocess.run([program, text])", "yaml.load(t, Loader=yaml.SafeLoader)", "['dog', 'sh']",
        "class L(yaml.SafeLoader): pass\nyaml.load(t, L)",
    ],
)  # fmt: skip
def test_what_only_looks_like_one_is_not(source):
    assert not list(dangers(source))


IMPORT_ALL = """
import importlib, pkgutil, sys
from importlib.util import find_spec
started = []
def watch(event, arguments):
    if event.split(".")[0] in ("socket", "urllib", "ftplib", "http") or event in (
        "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.startfile"
    ):
        started.append((event, arguments))
sys.addaudithook(watch)
import seq2seq_attn
for module in pkgutil.walk_packages(seq2seq_attn.__path__, "seq2seq_attn."):
    is_for_gpu = module.name.endswith("ops.native.gpu")  # needs Triton, which comes with CUDA builds of torch
    if not module.name.endswith("__main__") and not (is_for_gpu and find_spec("triton") is None):
        importlib.import_module(module.name)
print(len(sys.modules), started)
"""


@pytest.mark.slow  # seconds; .ci/run includes it
def test_importing_every_module_opens_no_socket_and_starts_no_program():
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith(" []\n")


def required():
    """What every installation needs."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return setup["options"]["install_requires"].strip().splitlines()


def requirements():
    for line in re.findall(r"^    ([\w-]+[=<>!].*)$", (ROOT / "setup.cfg").read_text(encoding="utf-8"), re.MULTILINE):
        yield Requirement(line)


def test_what_the_package_needs_has_a_lower_bound_and_one_before_the_next_major_release():
    unbounded = {"rich"}  # 13 to 15 changed nothing that is used
    for each in map(Requirement, required()):
        operators = {specifier.operator for specifier in each.specifier}
        assert ">=" in operators, each
        assert ("<" in operators) == (each.name not in unbounded), each


def test_the_pinned_releases_are_within_the_ranges():
    pinned = {canonicalize_name(each.name): each for each in pins()}
    for each in requirements():
        pin = pinned.get(canonicalize_name(each.name))
        if pin is not None and (each.marker is None or each.marker.evaluate()):
            (version,) = (specifier.version for specifier in pin.specifier)
            assert each.specifier.contains(version), each


def pins(environment=None):
    """The pins of constraints.txt for this Python, or for another one."""
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            pin = Requirement(line)
            if pin.marker is None or pin.marker.evaluate(environment):
                yield pin


def test_the_page_of_licenses_has_every_requirement_as_pinned_and_no_license_that_would_bind_the_package():
    page = (ROOT / "docs" / "licenses.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w.-]+) +\| ([^| ]+) +\| ([^|]*?) +\|", page, re.MULTILINE)
    stated = {canonicalize_name(name): (release, license) for name, release, license in rows}
    later = {"python_version": "3.11", "python_full_version": "3.11.9"}  # than the oldest that is supported
    pinned = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins(later)}
    for each in map(Requirement, required()):
        name = canonicalize_name(each.name)
        if each.marker is None or each.marker.evaluate(later):
            assert stated[name][0].partition("+")[0] == pinned[name], name
    assert [name for name, (_, license) in stated.items() if "UNKNOWN" in license] == ["huey", "sentencepiece", "skops"]
    assert [name for name, (_, license) in stated.items() if re.search(r"GPL|GNU General", license)] == ["eflomal"]


PIP_AUDIT = """#!/bin/sh
for file; do :; done
if grep -q jinja2==2.11.2 "$file"; then echo "$KNOWN"; else echo "pinned: $FOUND"; exit "$FOUND"; fi
"""


@pytest.mark.parametrize(
    ("known", "found", "code", "said"),
    [("PYSEC-2021-66", 0, 0, "pinned: 0"), ("PYSEC-2021-66", 1, 2, "pinned: 1"), ("none", 1, 0, "audit skipped")],
    ids=["nothing", "a vulnerability", "no data"],
)
def test_the_audit_fails_for_a_vulnerable_pin_and_says_where_there_are_no_data(tmp_path, known, found, code, said):
    """`make audit` with a stand-in for pip-audit, which exits with 1 for a vulnerability; make then exits with 2."""
    for name, script in {"pip-audit": PIP_AUDIT, "python": "#!/bin/sh\n"}.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    command = ["make", "--old-file", ".venv/ready", "audit", f"BIN={tmp_path}"]
    answers = os.environ | {"KNOWN": known, "FOUND": str(found)}
    done = subprocess.run(command, cwd=ROOT, env=answers, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert said in done.stdout


def test_the_soak_sees_a_slow_leak_and_takes_no_noise_for_one():
    soak = runpy.run_path(str(ROOT / "benchmarks" / "soak.py"))
    growth, state = soak["growth"], soak["State"]
    assert growth([state(481_000_000 + 150_000 * (i % 3), 7, 1) for i in range(40)]) == []
    assert growth([state(400_000_000 + 20_000_000 * min(i, 5), 7, 1) for i in range(40)]) == []  # warming up
    assert growth([state(481_000_000 + 200_000 * i, 7, 1) for i in range(40)]) == ["memory: 484 MB, then 488 MB"]
    assert growth([state(481_000_000, 7 + i // 20, 1) for i in range(40)]) == ["files: 7, then 8"]
