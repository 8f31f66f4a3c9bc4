"""Lines with several sentences, which are translated one by one."""

import json

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.cli import main

LINES = ["a b. C a! B", "", "c", "A. B. c b"]
SENTENCES = [["a b.", "C a!", "B"], [""], ["c"], ["A. B. c b"]]  # A. and B. are initials


def test_sentences_are_translated_alone_and_joined_again(model):
    found = model.translate(LINES, split_sentences=True)
    alone = model.translate([each for line in SENTENCES for each in line])
    assert [each.source for each in found] == LINES
    assert [[each.source for each in line.sentences] for line in found] == SENTENCES
    assert [each.candidates for line in found for each in line.sentences] == [each.candidates for each in alone]
    first = alone[:3]
    assert found.sentences[0] == " ".join(each.text for each in first)
    assert found[0].score == pytest.approx(sum(each.score for each in first))
    assert found[0].candidates[0].log_probability == pytest.approx(
        sum(each.candidates[0].log_probability for each in first)
    )
    assert found[0].unknown == tuple(word for each in first for word in each.unknown)
    assert (found.sentences[1], found[1].score) == ("", None)
    assert found.sentences[2] == model.translate(["c"]).sentences[0]


def test_progress_is_counted_in_lines(model):
    counts = []
    model.translate(LINES, split_sentences=True, progress=counts.append)
    assert sum(counts) == len(LINES)


def test_a_glossary_holds_for_the_sentence_that_has_the_phrase(model):
    (found,) = model.translate(["a b. C a"], split_sentences=True, glossary={"C": "c c"})
    phrases = [[each.phrase for each in one.candidates[0].constraints] for one in found.sentences]
    assert phrases == [[], ["c c"]]


@pytest.mark.parametrize("options", [{"n_best": 2}, {"weights": True}, {"prefixes": ["a"]}, {"constraints": [["a"]]}])
def test_what_belongs_to_one_sentence_is_refused(model, options):
    with pytest.raises(s2s.UserError, match="split_sentences"):
        model.translate(LINES[:1], split_sentences=True, **options)


def test_the_program_writes_a_line_for_every_line(model, tmp_path, capsys):
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in LINES))
    command = ["translate", str(model.folder), str(tmp_path / "source"), "--split-sentences"]
    with pytest.raises(SystemExit):
        main(command)
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == len(LINES) + 1
    assert [bool(line) for line in lines[:-1]] == [bool(line) for line in LINES]
    with pytest.raises(SystemExit):
        main([*command, "--json"])
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [[each["source"] for each in record["sentences"]] for record in records] == SENTENCES
