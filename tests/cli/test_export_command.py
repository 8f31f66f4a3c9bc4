"""`export`: the folder that it prints, and what it refuses; tests/export examines the targets."""

from seq2seq_attn import export
from seq2seq_attn.export import Exported


def test_the_folder_is_printed_and_replaced_only_on_demand(program, refused, trained, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_writer", lambda to: lambda model, folder: Exported({}, f"Use {to}."))
    command, output = ("export", trained, "--to", "onnx", "--output"), tmp_path / "exported"
    assert program(*command, output) == (0, f"{output}\n", "")
    assert "Use onnx." in (output / "README.md").read_text()
    assert "--overwrite" in refused(*command, output)
    assert program(*command, output, "--overwrite").code == 0
    assert "is not an earlier export" in refused(*command, trained, "--overwrite")


def test_a_model_that_the_other_program_does_not_know_is_refused(refused, trained, tmp_path):
    message = refused("export", trained, "--to", "ctranslate2", "--output", tmp_path / "exported")
    assert "model.kind=recurrent: CTranslate2 knows only transformer here" in message
    assert list(tmp_path.iterdir()) == []
