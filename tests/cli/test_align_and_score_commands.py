"""`align` and `score`: what a model makes of given translations."""

import json

import pytest


@pytest.fixture
def pairs(tmp_path):
    """Three pairs, the second with a blank side."""

    def write(sources, targets):
        (tmp_path / "source").write_text("".join(f"{line}\n" for line in sources))
        (tmp_path / "target").write_text("".join(f"{line}\n" for line in targets))
        return "--source", tmp_path / "source", "--target", tmp_path / "target"

    return write(["a b c", "d e", "d"], ["c b a", "", "e d"])


def parse(line):
    return [tuple(map(int, link.split("-"))) for link in line.split()]


def test_a_line_of_links_a_pair_and_a_blank_line_for_a_blank_side(program, trained, pairs):
    answer = program("align", trained, *pairs)
    first, blank, last = answer.out.removesuffix("\n").split("\n")
    assert (answer.code, answer.err) == (0, "")
    assert sorted(j for _, j in parse(first)) == [0, 1, 2]  # each target word has its link
    assert all(0 <= i < 3 for i, _ in parse(first))
    assert blank == ""
    assert parse(last) == [(0, 0), (0, 1)]  # of one source word


def test_links_are_those_of_the_weights(program, trained, pairs):
    from seq2seq_attn.lab.align import attend
    from seq2seq_attn.lab.trained import TrainedModel

    (words,) = attend(TrainedModel.load(trained), ["a b c"], ["c b a"])
    expected = [(int(row.argmax()), j) for j, row in enumerate(words.weights)]
    assert sorted(parse(program("align", trained, *pairs).out.split("\n")[0])) == sorted(expected)


def test_the_error_rate_against_gold_is_the_one_worked_by_hand(program, trained, pairs, tmp_path):
    found = [parse(line) for line in program("align", trained, *pairs).out.removesuffix("\n").split("\n")]
    # Gold: what was found in the first pair but its first link, which is wrong; in the last pair one link more.
    gold = [found[0][1:], [], [*found[2], (7, 7)]]
    (tmp_path / "gold").write_text("".join(" ".join(f"{i}-{j}" for i, j in line) + "\n" for line in gold))
    predicted, sure, both = 3 + 2, 2 + 3, 2 + 2
    aer, precision, recall = 1 - 2 * both / (predicted + sure), both / predicted, both / sure

    answer = program("align", trained, *pairs, "--gold", tmp_path / "gold")
    assert answer.err == f"aer {aer:.4f}, precision {precision:.4f}, recall {recall:.4f}\n"
    assert [parse(line) for line in answer.out.removesuffix("\n").split("\n")] == found

    values = json.loads(program("align", trained, *pairs, "--gold", tmp_path / "gold", "--json").out)
    assert [[tuple(link) for link in line] for line in values.pop("links")] == found
    assert values == pytest.approx({"aer": aer, "precision": precision, "recall": recall})


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


def test_the_score_of_a_translation_is_the_one_that_its_search_gave(program, trained, tmp_path):
    found = json.loads(program("translate", trained, "--json", stdin=b"a b c\n").out)["translations"][0]
    (tmp_path / "source").write_text("a b c\n")
    (tmp_path / "target").write_text(found["text"] + "\n")
    scored = program("score", trained, "--source", tmp_path / "source", "--target", tmp_path / "target").out
    assert float(scored) == pytest.approx(found["log_probability"], abs=1e-4)
