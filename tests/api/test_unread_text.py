"""Text that a model does not read, through everything that is done with a model."""

import copy
import json
from itertools import count, product

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.cli import main
from seq2seq_attn.serve.tasks import ServedModel

SOURCE, TARGET = "a 7001 8002", "8002 7001 a"  # numbers that training never had


@pytest.fixture(scope="module")
def model(backwards, tmp_path_factory):
    """Writes words backwards, in which every `c` is another number."""
    folder = tmp_path_factory.mktemp("numbers")
    numbers = count(100)
    words = [
        [str(next(numbers)) if letter == "c" else letter for letter in letters]
        for length in (1, 2, 3)
        for letters in product("abc", repeat=length)
    ]
    (folder / "source").write_text("".join(f"{' '.join(word)}\n" for word in words))
    (folder / "target").write_text("".join(f"{' '.join(word[::-1])}\n" for word in words))
    values = copy.deepcopy(backwards[1])
    files = {"source": str(folder / "source"), "target": str(folder / "target")}
    values["data"] = {"train": files, "validation": files, "test": files}
    values["text"]["placeholders"] = ["number"]
    values["training"]["monitor"], values["evaluation"]["metrics"] = "score", ["exact_match"]
    return s2s.train(values, folder / "run", silent=True)


def test_a_vocabulary_has_symbols_in_place_of_numbers(model):
    assert model.trained.source.size == 4 + 9 + 2
    assert not any(model.metrics["validation"].values())  # no word is unknown


def test_numbers_of_the_source_stand_in_the_translation_in_their_order(model):
    found = model.translate([SOURCE, "b", "5 b 5"], n_best=2)
    assert found.sentences == [TARGET, "b", "5 b 5"]
    assert [tuple(each)[1:] for each in found[0].candidates[0].placeholders] == [("7001", 1, 1), ("8002", 1, 1)]
    assert found[0].tokens == ("a", "⟨number1⟩", "⟨number2⟩", "</s>")
    first, second, third = (each.record["translations"][0].get("placeholders") for each in found)
    assert first[0] == {"symbol": "⟨number1⟩", "text": "7001", "in_source": 1, "in_translation": 1}
    assert second is None
    assert [each["in_translation"] for each in third] == [2]


def test_a_symbol_that_no_source_has_keeps_its_case(model):
    (found,) = model.translate(["A B"], prefixes=["⟨number3⟩"], casing="source")
    assert found.text.startswith("⟨number3⟩")  # not NUMBER


def test_validation_and_evaluation_compare_the_restored_text(model):
    assert model.metrics["training"]["best"] > 90
    assert model.evaluate()["exact_match"]["value"] > 90


def test_a_given_translation_is_read_with_the_numbers_of_its_source(model):
    best = model.translate([SOURCE])[0].candidates[0]
    right, wrong, other = model.score([(SOURCE, TARGET), (SOURCE, "7001 8002 a"), ("a 8002 7001", TARGET)])
    assert right.log_probability == pytest.approx(best.log_probability, abs=1e-4)
    assert right.tokens == ["⟨number2⟩", "⟨number1⟩", "a", "</s>"]
    assert other.tokens == ["⟨number1⟩", "⟨number2⟩", "a", "</s>"]
    assert wrong.log_probability < right.log_probability
    assert [target for _, target in model.align([(SOURCE, TARGET)])[0].words] == TARGET.split()
    assert model.attention(SOURCE, TARGET).target == ("⟨number2⟩", "⟨number1⟩", "a", "</s>")
    assert model.steps(SOURCE, beam_size=1).text == model.steps(SOURCE, TARGET).text == TARGET
    assert model.steps(["a", "⟨number1⟩", "⟨number2⟩"]).text == "⟨number2⟩ ⟨number1⟩ a"


def test_what_is_asked_of_a_translation_is_in_the_numbers_of_its_source(model):
    (found,) = model.translate([SOURCE], constraints=[["7001 7001"]], beam_size=4)
    assert "7001 7001" in found.text
    assert found.candidates[0].constraints[0].steps is not None
    assert found.candidates[0].placeholders[0].in_translation > 1
    assert model.translate([SOURCE], prefixes=["7001"]).sentences[0].startswith("7001")
    with pytest.raises(s2s.UserError, match="7001"):
        model.translate([SOURCE], avoid=["7001"])


def test_the_program_and_the_server_restore_and_count(model, tmp_path, capsys):
    (tmp_path / "source").write_text(f"{SOURCE}\nb\n")
    with pytest.raises(SystemExit):
        main(["translate", str(model.folder), str(tmp_path / "source"), "--json"])
    answer = capsys.readouterr()
    assert [json.loads(line)["translations"][0]["text"] for line in answer.out.splitlines()] == [TARGET, "b"]
    assert "placeholders: 2 of 2 " in answer.err
    assert ServedModel("x", model, "en", "en").text(SOURCE, ["⟨number2⟩", "a"]) == "8002 a"


def test_an_exported_folder_has_the_placeholders_and_a_page_without_a_server_is_refused(model, tmp_path):
    from seq2seq_attn.corpora.codec import load_codecs

    with pytest.raises(s2s.UserError, match="protected"):
        model.export("html", tmp_path / "page")
    source, target = load_codecs(model.folder)
    assert target.given(SOURCE).decode(source.encode(SOURCE)) == SOURCE


def test_a_source_that_is_not_text_has_no_placeholders(backwards, tmp_path):
    values = backwards[1] | {"source": {"kind": "examples/frames.py:FramesConfig", "features": 4}}
    values["model"] = values["model"] | {"encoder": {"kind": "examples/frames.py:JoinedFramesConfig", "state_size": 8}}
    with pytest.raises(s2s.UserError, match=r"text\.placeholders"):
        s2s.train(values, tmp_path / "run", silent=True, **{"text.placeholders": ["url"]})
