"""The notebooks in examples/ run from their first cell to their last, and are committed as they ran."""

import importlib.util
import runpy
import shutil
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

import seq2seq_attn as s2s
from seq2seq_attn.comparison.experiment import experiment_grid

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))


def read(name):
    return nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)


def outputs(notebook):
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def kinds(notebook):
    return {kind for output in outputs(notebook) for kind in output.get("data", {})}


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_committed_with_its_outputs(name):
    notebook = read(name)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert [output for output in outputs(notebook) if output.output_type == "error"] == []
    assert {"text/html", "image/png"} <= kinds(notebook)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_there", [True, False])
def test_the_first_cell_installs_the_package_where_it_is_missing(name, is_there, monkeypatch):
    """As in a hosted service, which has no more than the notebook."""
    ran = []

    class Shell:
        def run_line_magic(self, magic, line):
            ran.append((magic, line))

        def var_expand(self, line):
            return line.format(**names)

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda each: found(each) if is_there else None)
    names = {"get_ipython": Shell}
    first = next(cell for cell in read(name).cells if cell.cell_type == "code")
    exec(TransformerManager().transform_cell(first.source), names)
    assert names["package"] == "seq2seq_attn"
    assert ran == ([] if is_there else [("pip", "install --quiet {package}")])


def test_with_the_address_of_a_repository_links_to_notebooks_open_in_colab_and_pictures_are_found(tmp_path):
    fill_in = runpy.run_path(str(ROOT / ".ci/dist.py"))["fill_in"]
    pages = ["README.md", "README.zh.md", "examples/README.md", "docs/getting-started.md"]
    for each in (*pages, "setup.cfg"):
        (tmp_path / each).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / each, tmp_path / each)
    url = "https://github.com/someone/attention"
    fill_in(tmp_path, url)
    texts = {each: (tmp_path / each).read_text(encoding="utf-8") for each in pages}
    colab = "https://colab.research.google.com/github/someone/attention/blob/main/examples"
    for page, text in texts.items():
        names = NAMES if page == "examples/README.md" else ["lesson"]
        assert [name for name in names if f"]({colab}/{name}.ipynb)" not in text] == []
    raw = "https://raw.githubusercontent.com/someone/attention/main/"
    assert f'srcset="{raw}experiments/' in texts["README.md"]
    assert f"]({url}/blob/main/docs/commands.md)" in texts["README.md"]
    assert f"Source = {url}\n" in (tmp_path / "setup.cfg").read_text(encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(ROOT / "examples", elsewhere / "examples")
    for each in ("README.md", "setup.cfg"):
        shutil.copy(ROOT / each, elsewhere / each)
    fill_in(elsewhere, "https://git.example.org/someone/attention")
    assert "colab" not in (elsewhere / "examples/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["ablation", "own_scorer"])
def test_a_notebook_compares_what_can_be_compared(name, tmp_path, monkeypatch):
    """Its cells up to the comparison, without the training."""
    grids = []

    def compare(experiment, output=None, *, silent=False, **overrides):
        grids.append(experiment_grid(experiment, None, [f"{key}={value}" for key, value in overrides.items()]))

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for each in ("train", "check"):
        monkeypatch.setattr(s2s, each, lambda *_, **__: None)
    monkeypatch.setattr(s2s, "compare", compare)
    names = {}
    for cell in (cell for cell in read(name).cells if cell.cell_type == "code"):
        if cell.source.startswith("%%writefile "):
            file, _, content = cell.source.removeprefix("%%writefile ").partition("\n")
            (tmp_path / file).write_text(content)
        else:
            exec(TransformerManager().transform_cell(cell.source), names)
        if grids:
            break
    assert len({run.arm for run in grids[0].runs}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name, tmp_path):
    from nbclient import NotebookClient

    notebook = read(name)
    committed = kinds(notebook)
    NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert kinds(notebook) >= committed


def test_the_lesson_shows_the_matrix_of_every_model_inline():
    shown = [output["data"]["text/html"] for output in outputs(read("lesson")) if "text/html" in output.get("data", {})]
    assert sum('class="s2s-steps"' in each for each in shown) == 4
    assert "/tmp" not in "".join(cell.source for cell in read("lesson").cells)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sentence",
    ["Tom sleeps", "zebras chase Tom .", "although Peter chases a dog that saved Paul , Butch followed the boys ."],
)
def test_the_lesson_runs_with_the_sentence_that_a_reader_types(sentence, tmp_path):
    """Half a minute each."""
    from nbclient import NotebookClient

    notebook = read("lesson")
    (cell,) = (cell for cell in notebook.cells if cell.source.startswith("sentence = "))
    cell.source = f"sentence = {sentence!r}\n" + cell.source.partition("\n")[2]
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output["text"] for output in outputs(notebook) if output.output_type == "stream"]
    assert any("most probable words stay the same" in each for each in shown)
