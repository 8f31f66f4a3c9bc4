"""What new users type: unknown words are reported, and the demo reads other spellings as its corpus has them."""

import json

import pytest

READ = {  # as the corpus has it
    "Tom chases Jerry.": "Tom chases Jerry .",
    "TOM CHASES JERRY": "Tom chases Jerry",
    "tom chases jerry": "Tom chases Jerry",
    "The dog sleeps.": "the dog sleeps .",
    "DID TOM'S DOG KISS JERRY?": "did Tom 's dog kiss Jerry ?",
}


@pytest.mark.parametrize("typed", READ)
def test_the_demo_reads_a_sentence_as_its_corpus_has_it(program, typed):
    both = f"{typed}\n{READ[typed]}\n".encode()
    ours, corpus = map(json.loads, program("translate", "demo", "--json", stdin=both).out.splitlines())
    shown = [f"{word} (<unk>)" if word in corpus["unknown"] else word for word in READ[typed].split()]
    assert ours["tokens"] == corpus["tokens"] == [*shown, "</s>"]
    assert ours["translations"] == corpus["translations"]


@pytest.mark.parametrize(
    ("typed", "reported"),
    [
        ("I love you", "line 1: 3 of 3 words are unknown to this model: I, love, you\n"),
        ("Hello world!", "line 1: 2 of 2 words are unknown to this model: Hello, world!\n"),
        ("Tom chases Jerry.", ""),
        ("TOM CHASES JERRY", ""),
        ("tom chases jerry", ""),
    ],
)
def test_the_unknown_words_of_what_new_users_type_are_reported(program, typed, reported):
    answer = program("translate", "demo", stdin=typed.encode())
    assert answer.err == reported
    assert answer.code == 0
    (record,) = map(json.loads, program("translate", "demo", "--json", stdin=typed.encode()).out.splitlines())
    assert record["unknown"] == reported.rpartition(": ")[2].rstrip("\n").split(", ") * bool(reported)


@pytest.mark.parametrize("command", ["translate", "score", "align"])
def test_the_unknown_words_of_a_file_are_summarized(program, trained, tmp_path, command):
    (tmp_path / "text").write_text("a b\na x\n" * 20)
    files = [tmp_path / "text"] * (1 if command == "translate" else 2)
    answer = program(command, trained, *files)
    assert (answer.code, answer.out.count("\n")) == (0, 40)
    lines = answer.err.splitlines()
    assert lines[0] == "line 2: 1 of 2 words is unknown to this model: x"
    assert lines[-1] == "in all, 20 of 80 words (25.00 %) are unknown to this model, in 20 of 40 lines"
    assert len(lines) == 6
