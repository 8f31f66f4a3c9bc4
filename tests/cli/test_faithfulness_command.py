"""`faithfulness`: the table and the record of what `Model.faithfulness` finds."""

import json

import pytest


@pytest.fixture
def pairs(tmp_path):
    (tmp_path / "source").write_text("a b c\nd e\ne d a b\n")
    (tmp_path / "target").write_text("c b a\ne d\nb a d e\n")
    return tmp_path / "source", tmp_path / "target"


def test_the_table_is_the_record_and_says_what_its_columns_mean(program, trained, pairs):
    record = json.loads(program("faithfulness", trained, *pairs, "--sentences", "2", "--json").out)
    answer = program("faithfulness", trained, *pairs, "--sentences", "2")
    assert (answer.code, answer.err) == (0, "")
    assert (record["seed"], record["tokens"], record["sentences"]) == (1, 4 + 3 + 5, 2)
    lines = {line[:26].strip(): line[26:].split() for line in answer.out.splitlines()}
    assert lines["unchanged"] == [f"{record['perplexity']:.3f}"]
    erased = record["interventions"]["most_read_erased"]
    assert lines["most read token erased"] == [
        f"{erased['log_probability']:+.3f}",
        f"{erased['perplexity']:,.3f}",
        *(f"{erased[name]:.3f}" for name in ("changed", "total_variation", "jensen_shannon", "moved")),
    ]
    (tau,) = (each for each in record["correlations"] if each["of"] == ["weights", "gradient"])
    assert lines["weights, gradient"] == [f"{tau['mean']:+.3f}", f"{tau['deviation']:.3f}", str(tau["rows"])]
    for column in lines["weights"]:
        assert f" {column}" in answer.out.partition("\n- ")[2] or column == "log"
    assert "docs/explanation.md" in answer.out


def test_a_seed_draws_the_same_again(program, trained, pairs):
    one, again, other = (program("faithfulness", trained, *pairs, "--seed", seed) for seed in (4, 4, 5))
    assert one == again != other


def test_a_model_without_weights_is_refused(refused, distracted, pairs):
    assert "model.context.kind: this model does not attend" in refused("faithfulness", distracted, *pairs)
