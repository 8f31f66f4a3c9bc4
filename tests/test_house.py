"""The house stays one that a newcomer can hold in mind."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "seq2seq_attn"
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def test_a_public_class_name_means_one_thing():
    places = defaultdict(list)
    for path in MODULES:
        for node in ast.parse((PACKAGE / path).read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_the_files_that_follow_a_sentence_are_there():
    guide = (
        (ROOT / "CONTRIBUTING.md")
        .read_text(encoding="utf-8")
        .partition("## Follow a sentence")[2]
        .partition("\n## ")[0]
    )
    named = re.findall(r"^\d+\. `([\w/]+\.py)`", guide, flags=re.MULTILINE)
    assert named
    assert [path for path in named if path not in MODULES] == []


def test_the_tests_that_the_matrix_runs_are_there():
    lists = re.findall(r"^TESTS \+?= (.+)$", (ROOT / "noxfile.py").read_text(), flags=re.MULTILINE)
    named = [path for each in lists for path in ast.literal_eval(each)]
    assert named
    assert [path for path in named if not (ROOT / "tests" / path).exists()] == []


def test_speed_is_behind_one_door():
    """Kernels, oneDNN's operators and branches on the device are in ops/."""
    words = re.compile(r"ops import native|ops\.native|mkldnn|onednn|device\.type *[!=]=|\.is_cuda|\.is_cpu")
    found = {
        path: lines
        for path in MODULES
        if not path.startswith("ops/")
        and (lines := [line for line in (PACKAGE / path).read_text().splitlines() if words.search(line)])
    }
    # `attention` stands alone: whether a mask can be looked at without waiting depends on where it is, and so does
    # whether there is float64.
    assert set(found) <= {"attention/checks.py", "attention/positions/sinusoidal.py"}
