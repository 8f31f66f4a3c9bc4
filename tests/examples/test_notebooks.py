"""The notebooks in examples/ run from their first cell to their last, and are committed as they ran."""

from pathlib import Path

import nbformat
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
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
