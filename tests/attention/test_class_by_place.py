"""A class of the user's own, named by the file or the module that it is in."""

import importlib
import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from seq2seq_attn.attention import normalizer_class, scorer_class, scorer_classes, window_class
from seq2seq_attn.attention.registry import config_name, list_file
from seq2seq_attn.attention.user_code import file_sources, load_file

PACKAGE = Path(importlib.import_module("seq2seq_attn").__file__).parent

SCORER = """
from seq2seq_attn.attention import Scorer


class Dot(Scorer):
    def prepare(self, keys):
        return keys

    def forward(self, query, prepared):
        return 2 * query @ prepared.transpose(1, 2)
"""
OTHERS = """
from seq2seq_attn.attention import Normalizer, Sigmoid, Window
from seq2seq_attn.attention.window import View


class Half(Normalizer):
    def normalize(self, scores):
        return scores.sigmoid() / 2


class Everything(Window):
    def forward(self, query, is_token, steps):
        return View(is_token, None)
"""


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_a_class_is_found_by_its_file_and_takes_no_name_of_the_catalog(write):
    path, known = write("mine.py", SCORER), scorer_classes()
    found = scorer_class(f"{path}:Dot")
    assert found.__name__ == "Dot"
    assert found is not known["dot"]
    assert scorer_classes() == known
    assert config_name(found) == f"{path.resolve()}:Dot"


def test_normalizers_and_windows_are_found_alike(write):
    path = write("others.py", OTHERS)
    assert normalizer_class(f"{path}:Half")()(torch.zeros(3)).tolist() == [0.25, 0.25, 0.25]
    assert window_class(f"{path}:Everything").__name__ == "Everything"


def test_a_class_of_an_importable_module_is_found():
    assert scorer_class("seq2seq_attn.attention.scorers.dot:Dot") is scorer_classes()["dot"]


def test_a_file_is_one_module_however_its_path_is_written_and_another_when_it_has_changed(write, tmp_path, monkeypatch):
    path = write("mine.py", SCORER)
    found = scorer_class(f"{path}:Dot")
    monkeypatch.chdir(tmp_path)
    assert scorer_class("mine.py:Dot") is found
    assert scorer_class(f"../{tmp_path.name}/mine.py:Dot") is found
    write("mine.py", SCORER.replace("2 *", "3 *"))
    changed = scorer_class("mine.py:Dot")
    assert changed(1, 1)(torch.ones(1, 1, 1), torch.ones(1, 1, 1)).item() == 3
    assert scorer_class("mine.py:Dot") is changed


def test_files_of_one_name_in_different_folders_are_different_modules(write):
    paths = [write(f"{folder}/mine.py", SCORER.replace("2 *", f"{folder} *")) for folder in "23"]
    scores = [scorer_class(f"{path}:Dot")(1, 1)(torch.ones(1, 1, 1), torch.ones(1, 1, 1)).item() for path in paths]
    assert scores == [2, 3]


def test_siblings_can_be_imported_and_belong_to_the_file(write):
    using = f"from helpers import FACTOR\n{SCORER.replace('2 *', 'FACTOR *')}"
    path_before = list(sys.path), list(sys.meta_path)
    for folder, factor in (("one", 5), ("two", 7)):
        write(f"{folder}/helpers.py", f"from deeper import FACTOR\nassert FACTOR == {factor}")
        write(f"{folder}/deeper.py", f"FACTOR = {factor}")
        path = write(f"{folder}/mine.py", using)
        found = scorer_class(f"{path}:Dot")
        assert found(1, 1)(torch.ones(1, 1, 1), torch.ones(1, 1, 1)).item() == factor
        assert file_sources(path).keys() == {"mine.py", "helpers.py", "deeper.py"}
    assert (sys.path, sys.meta_path) == path_before
    assert not list(path.parent.rglob("*.pyc"))


def test_a_sibling_that_was_imported_before_belongs_to_the_file_too(write, monkeypatch):
    write("known_before.py", "FACTOR = 5")
    monkeypatch.syspath_prepend(write("mine.py", f"import known_before\n{SCORER}").parent)
    importlib.import_module("known_before")
    path = write("mine.py", f"import known_before\n{SCORER}")
    load_file(path)
    assert file_sources(path).keys() == {"mine.py", "known_before.py"}
    del sys.modules["known_before"]


def test_a_sibling_does_not_shadow_the_standard_library(write):
    write("colorsys.py", "raise AssertionError('not that of the standard library')")
    path = write("mine.py", f"import colorsys\nassert colorsys.rgb_to_hsv\n{SCORER}")
    sys.modules.pop("colorsys", None)
    load_file(path)
    assert file_sources(path).keys() == {"mine.py"}


def test_a_package_beside_a_file_can_be_used_and_cannot_be_kept(write):
    write("tools_of_mine/__init__.py", "FACTOR = 2")
    path = write("mine.py", f"from tools_of_mine import FACTOR\n{SCORER}")
    load_file(path)
    with pytest.raises(ValueError, match=r"mine\.py: imports the package 'tools_of_mine' from its folder"):
        file_sources(path)


def test_its_scorer_is_pickled_by_a_name_that_another_process_gives_it_too(write):
    path = write("mine.py", SCORER)
    scorer = scorer_class(f"{path}:Dot")(3, 3)
    data = pickle.dumps(scorer)
    assert type(pickle.loads(data)) is type(scorer)
    program = (
        "import pickle, sys; from seq2seq_attn.attention import scorer_class; "
        f"found = scorer_class({f'{path}:Dot'!r}); "
        f"assert type(pickle.loads({data!r})) is found"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (None, "Dot", r"mine\.py: no such Python file$"),
        ("x = 1 +\n", "Dot", r"mine\.py, line 1: SyntaxError: "),
        ("import math\n\nmath.sqrt(-1)\n", "Dot", r"mine\.py, line 3: ValueError: "),
        ("raise SystemExit('no')\n", "Dot", r"mine\.py, line 1: SystemExit: no$"),
        ("import nowhere_at_all\n", "Dot", r"mine\.py, line 1: ModuleNotFoundError: .*nowhere_at_all"),
        (SCORER, "Dott", r"mine\.py: 'Dott' is not a class derived from Scorer; did you mean 'Dot'\?$"),
        (SCORER, "X", r"mine\.py: 'X' is not a class derived from Scorer; it has: Dot$"),
        (f"from seq2seq_attn.attention import HistoryScorer\n{SCORER}", "X", r"; it has: Dot$"),  # no abstract class
        (OTHERS, "Half", r"mine\.py: 'Half' is not a class derived from Scorer; it has: none$"),
    ],
)
def test_unusable_files_are_refused_in_one_line(write, tmp_path, text, name, message):
    if text is not None:
        write("mine.py", text)
    for _ in range(2):  # a second attempt finds nothing half imported
        with pytest.raises(ValueError, match=message) as error:
            scorer_class(f"{tmp_path / 'mine.py'}:{name}")
        assert "\n" not in str(error.value)


def test_a_file_can_be_corrected_after_its_import_failed(write):
    path = write("mine.py", "import helper_of_mine\n1 / 0\n")
    write("helper_of_mine.py", "")
    with pytest.raises(ValueError, match=r"line 2: ZeroDivisionError"):
        load_file(path)
    write("mine.py", SCORER)
    assert scorer_class(f"{path}:Dot")


def test_a_listed_file_gives_its_classes_their_names_also_if_it_was_imported_before(write, forget_parts):
    path = write("mine.py", SCORER.replace("class Dot", "class TwiceDot"))
    found = scorer_class(f"{path}:TwiceDot")
    assert "twice_dot" not in scorer_classes()
    assert list_file(path).TwiceDot is found
    assert scorer_class("twice_dot") is found
    assert config_name(found) == "twice_dot"


def test_a_file_in_the_folder_of_scorers_is_all_that_a_new_one_needs(tmp_path):
    package = tmp_path / "seq2seq_attn"
    shutil.copytree(PACKAGE / "attention", package / "attention", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__init__.py").write_text("")
    (package / "attention/scorers/twice_dot.py").write_text(SCORER.replace("class Dot", "class TwiceDot"))
    (package / "attention/windows/all_open.py").write_text(OTHERS)
    program = (
        "import json; from seq2seq_attn import attention; from seq2seq_attn.attention import TwiceDot, Half; "
        "assert attention.scorer_class('twice_dot') is TwiceDot; "
        "print(json.dumps([*attention.normalizer_classes(), *attention.window_classes()]))"
    )
    environment = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {"half", "everything"} <= set(json.loads(done.stdout))
