"""An export is a folder that is written completely or not at all, and replaces nothing but an earlier export."""

import json
import sys

import pytest

import seq2seq_attn as s2s
from seq2seq_attn import export
from seq2seq_attn.corpora.codec import load_codecs
from seq2seq_attn.errors import UserError
from seq2seq_attn.export import Exported, export_model

SMALL = {"embedding_size": 4, "encoder": {"hidden_size": 3}, "decoder": {"hidden_size": 5}}


@pytest.fixture
def one_file(monkeypatch):
    """In place of a target's writer: one that writes a file."""

    def write(model, folder):
        (folder / "model").write_text("model")
        return Exported({"answer": 42}, "Use it.")

    monkeypatch.setattr(export, "_writer", lambda to: write)


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_an_export_has_the_model_the_tokenizers_and_what_describes_them(untrained, tmp_path, one_file):
    model = untrained(SMALL)
    folder = export_model(model, "torch", tmp_path / "new" / "exported")
    sides = {f"{side}.{rest}" for side in ("source", "target") for rest in ("tokenizer.json", "vocabulary.txt")}
    assert names(folder) == {"model", "export.json", "README.md"} | sides
    assert names(tmp_path / "new") == {"exported"}
    source, target = load_codecs(folder)
    assert source.difference(model.source) is target.difference(model.target) is None
    description = json.loads((folder / "export.json").read_text())
    assert description["special_tokens"] == {"<unk>": 0, "<pad>": 1, "<s>": 2, "</s>": 3}
    assert set(description["files"]) == names(folder)
    assert (description["to"], description["seq2seq_attn"], description["answer"]) == ("torch", s2s.__version__, 42)
    assert "Use it." in (folder / "README.md").read_text()


def test_only_an_earlier_export_is_replaced_and_only_on_demand(untrained, tmp_path, one_file):
    model, folder = untrained(SMALL), tmp_path / "exported"
    export_model(model, "torch", folder)
    (folder / "left").write_text("over")
    with pytest.raises(UserError, match=r"exported: exists; .* --overwrite"):
        export_model(model, "onnx", folder)
    assert "left" in names(folder)
    with pytest.raises(UserError, match=r"left: is not a file of the export"):
        export_model(model, "onnx", folder, overwrite=True)
    assert "left" in names(folder)
    (folder / "left").unlink()
    export_model(model, "onnx", folder, overwrite=True)
    assert json.loads((folder / "export.json").read_text())["to"] == "onnx"
    assert names(tmp_path) == {"exported"}
    for content in ("", "{}", '{"format": "mine"}', "[1]"):
        (folder / "export.json").write_text(content)
        with pytest.raises(UserError, match="is not an earlier export"):
            export_model(model, "onnx", folder, overwrite=True)
    assert "model" in names(folder)


def test_a_failure_leaves_the_earlier_export_and_nothing_else(untrained, tmp_path, one_file, monkeypatch):
    model, folder = untrained(SMALL), tmp_path / "exported"
    export_model(model, "torch", folder)

    def fail(model, folder):
        (folder / "half").write_text("a")
        raise UserError("a part is unknown")

    monkeypatch.setattr(export, "_writer", lambda to: fail)
    with pytest.raises(UserError, match="a part is unknown"):
        export_model(model, "torch", folder, overwrite=True)
    assert names(tmp_path) == {"exported"}
    assert "model" in names(folder)


def test_a_folder_that_cannot_be_written_and_an_unknown_target_are_refused(untrained, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        export_model(untrained(SMALL), "torch", tmp_path / "file" / "exported")
    with pytest.raises(UserError, match="'keras' is not an export target; choose from torch, onnx, ctranslate2"):
        export_model(untrained(SMALL), "keras", tmp_path / "exported")


@pytest.mark.parametrize(("to", "package"), [("ctranslate2", "ctranslate2"), ("onnx", "onnx")])
def test_a_library_that_is_missing_is_named_with_the_way_to_install_it(untrained, tmp_path, monkeypatch, to, package):
    monkeypatch.setitem(sys.modules, package, None)
    model = untrained({"kind": "transformer", "embedding_size": 8})
    with pytest.raises(UserError, match=rf"needs {package} .*pip install 'seq2seq_attn\[export\]'"):
        export_model(model, to, tmp_path / "exported")
    assert names(tmp_path) == set()
