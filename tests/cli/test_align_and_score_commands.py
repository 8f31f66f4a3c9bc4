"""`align` and `score`: word alignments and log-probabilities of given targets."""

import json

import pytest

from seq2seq_attn.analysis.word_alignment import eflomal_program


@pytest.fixture
def pairs(tmp_path):
    """Three pairs, the second with a blank side."""

    def write(sources, targets):
        (tmp_path / "source").write_text("".join(f"{line}\n" for line in sources))
        (tmp_path / "target").write_text("".join(f"{line}\n" for line in targets))
        return tmp_path / "source", tmp_path / "target"

    return write(["a b c", "d e", "d"], ["c b a", "", "e d"])


def parse(line):
    return [tuple(map(int, link.split("-"))) for link in line.split()]


def test_one_line_of_links_per_pair_and_a_blank_line_for_a_blank_side(program, trained, pairs):
    answer = program("align", trained, *pairs)
    first, blank, last = answer.out.removesuffix("\n").split("\n")
    assert (answer.code, answer.err) == (0, "")
    assert sorted(j for _, j in parse(first)) == [0, 1, 2]  # each target word has its link
    assert all(0 <= i < 3 for i, _ in parse(first))
    assert blank == ""
    assert parse(last) == [(0, 0), (0, 1)]  # of one source word


def test_pairs_without_links_are_no_sign_of_a_model_that_does_not_attend(program, trained, tmp_path):
    (tmp_path / "a").write_text("a b\n")
    (tmp_path / "b").write_text("\n")
    answer = program("align", trained, tmp_path / "a", tmp_path / "b")
    assert (answer.code, answer.out, answer.err) == (0, "\n", "")


def test_the_error_rate_against_gold_is_the_one_worked_by_hand(program, trained, pairs, tmp_path):
    found = [parse(line) for line in program("align", trained, *pairs).out.removesuffix("\n").split("\n")]
    # Gold: what was found, but for the first link of the first pair, in whose place there is another one.
    missed = next((i, j) for i in range(3) for j in range(3) if (i, j) not in found[0])
    gold = [[missed, *found[0][1:]], [], found[2]]
    (tmp_path / "gold").write_text("".join(" ".join(f"{i}-{j}" for i, j in line) + "\n" for line in gold))
    predicted, sure, both = 3 + 2, 3 + 2, 2 + 2
    aer, precision, recall = 1 - 2 * both / (predicted + sure), both / predicted, both / sure
    f1 = 2 * precision * recall / (precision + recall)

    answer = program("align", trained, *pairs, "--gold", tmp_path / "gold")
    # A resample with the first pair alone has an AER of 1/3, one with the last alone 0.
    rates = f"precision {precision:.4f}, recall {recall:.4f}, f1 {f1:.4f}"
    assert answer.err == f"aer {aer:.4f} [0.0000, {1 / 3:.4f}], {rates}\n"
    assert [parse(line) for line in answer.out.removesuffix("\n").split("\n")] == found

    values = json.loads(program("align", trained, *pairs, "--gold", tmp_path / "gold", "--json").out)
    assert [[tuple(link) for link in line] for line in values.pop("links")] == found
    assert values.pop("aer_interval") == pytest.approx([0, 1 / 3])
    assert values == pytest.approx({"aer": aer, "precision": precision, "recall": recall, "f1": f1})

    # `evaluate` gives the same rates for the links alone.
    (tmp_path / "links").write_text(answer.out)
    files = "--links", tmp_path / "links", "--gold", tmp_path / "gold"
    again = json.loads(program("evaluate", *files, "--json").out)
    assert again.pop("aer_interval") == pytest.approx([0, 1 / 3])
    assert again == pytest.approx(values)
    assert "95 % interval [0.000, 0.333]" in program("evaluate", *files).out
    assert f"AER                {aer:.3f}" in program("evaluate", *files).out


def links_of(program, trained, pairs, *options):
    values = json.loads(program("align", trained, *pairs, "--json", *options).out)
    return [{tuple(link) for link in pair} for pair in values["links"]]


def test_links_by_threshold_and_by_row_are_those_of_the_weights(program, trained, pairs):
    from seq2seq_attn.runs.model import TrainedModel

    (forced,) = TrainedModel.load(trained).force(["a b c"], ["c b a"])
    predicted, read = forced.weights[:3, :3].numpy(), forced.weights[1:, :3].numpy()
    found = links_of(program, trained, pairs, "--threshold", "0.2")[0]
    assert found == {(i, j) for j in range(3) for i in range(3) if predicted[j, i] >= 0.2}
    found = links_of(program, trained, pairs, "--row", "read")[0]
    assert found == {(int(row.argmax()), j) for j, row in enumerate(read)}


def test_two_directions_are_symmetrized(program, refused, trained, pairs):
    # The toy's two languages are one, so that its model can serve as its own reverse.
    source, target = pairs
    turned = target, source
    forward = links_of(program, trained, pairs)
    backward = [{(j, i) for i, j in pair} for pair in links_of(program, trained, turned)]
    assert forward != backward

    def joined(*options):
        return links_of(program, trained, pairs, "--reverse", trained, *options)

    assert joined("--symmetrize", "union") == [a | b for a, b in zip(forward, backward, strict=True)]
    assert joined("--symmetrize", "intersection") == [a & b for a, b in zip(forward, backward, strict=True)]
    assert joined() == joined("--symmetrize", "grow-diag-final-and")
    assert "--reverse RUN" in refused("align", trained, *pairs, "--symmetrize", "union")
    assert "grow-diag-final" in refused("align", trained, *pairs, "--reverse", trained, "--symmetrize", "final")


def test_eflomal_learns_from_the_pairs_of_the_run(program, trained, toy):
    if eflomal_program() is None:
        pytest.skip("eflomal is not installed")
    files = toy / "test.src", toy / "test.tgt", "--gold", toy / "test.align"
    answer = program("align", trained, *files, "--aligner", "eflomal", "--json")
    assert answer.code == 0
    assert len(json.loads(answer.out)["links"]) == 7
    assert json.loads(answer.out)["aer"] < 0.5


@pytest.fixture
def eflomal(monkeypatch, tmp_path):
    """A program in the place of eflomal, with the arguments --source FILE --target FILE and two files of links."""
    script = tmp_path / "bin" / "eflomal-align"
    script.parent.mkdir()

    def put(body):
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)
        monkeypatch.setattr("sysconfig.get_path", lambda name: str(script.parent))

    return put


def test_eflomal_is_a_program_that_reads_and_writes_files(program, eflomal, trained, toy):
    """The stand-in links the first words of each pair forwards, and none backwards."""
    eflomal('sed "s/.*/0-0/" "$2" > "$6"; sed "s/.*//" "$4" > "$8"')
    files = toy / "test.src", toy / "test.tgt"
    answer = program("align", trained, *files, "--aligner", "eflomal", "--symmetrize", "union")
    assert (answer.code, answer.out) == (0, "0-0\n" * 7)


def test_a_failing_eflomal_is_reported_in_one_line(program, eflomal, trained, toy):
    eflomal("echo first >&2; echo out of memory >&2; exit 1")
    answer = program("align", trained, toy / "test.src", toy / "test.tgt", "--aligner", "eflomal")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[-1].endswith("eflomal-align failed: out of memory")


def test_an_error_without_eflomal_says_how_to_install_it(refused, trained, pairs, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sysconfig.get_path", lambda name: "")
    assert "pip install 'seq2seq_attn[align]'" in refused("align", trained, *pairs, "--aligner", "eflomal")
    assert "uses no weights" in refused("align", trained, *pairs, "--aligner", "eflomal", "--threshold", "0.2")


def test_the_score_is_the_sum_over_the_tokens(program, trained, pairs):
    plain = program("score", trained, *pairs)
    first, blank, _ = plain.out.removesuffix("\n").split("\n")
    assert (plain.code, plain.err) == (0, "")
    assert blank == ""

    values = [json.loads(line) for line in program("score", trained, *pairs, "--json").out.splitlines()]
    assert (values[0]["source"], values[0]["target"]) == ("a b c", "c b a")
    assert values[0]["tokens"] == ["c", "b", "a", "</s>"]
    assert all(value < 0 for value in values[0]["log_probabilities"])
    assert sum(values[0]["log_probabilities"]) == pytest.approx(values[0]["log_probability"], abs=1e-5)
    assert float(first) == pytest.approx(values[0]["log_probability"], abs=1e-6)
    assert values[1] == {
        "source": "d e", "target": "", "log_probability": None, "tokens": None, "log_probabilities": None,
    }  # fmt: skip
