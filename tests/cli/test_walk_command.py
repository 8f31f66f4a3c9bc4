"""`walk`: attention step by step, on the command line."""

import json
import re
from pathlib import Path

import pytest
import torch

from seq2seq_attn.attention import Additive, Attention
from seq2seq_attn.walkthrough import walk
from seq2seq_attn.walkthrough.self_attention import PARAMETERS


def column(text, heading):
    """The numbers at the end of the lines under a heading, up to the next blank line."""
    lines = text.partition(heading)[2].split("\n\n")[0].splitlines()
    return [match[1] for line in lines if (match := re.search(r"= +\[?([^]]+?)\]?$", line))]


def test_the_worked_example_is_the_default(program):
    answer = program("walk")
    assert (answer.code, answer.err) == (0, "")
    assert column(answer.out, "1. Score")[1:] == ["15", "60", "15", "35"]  # after the equation
    assert re.findall(r"^   \d  (\d.\d+) · ", answer.out, re.MULTILINE) == ["0.0000", "1.0000", "0.0000", "0.0000"]
    assert "10·5 + 5·0 + 10·1 =  60" in answer.out
    assert column(answer.out, "3. Sum")[-1].split() == ["5", "0", "1"]


def test_json_has_the_same_steps_in_full_precision(program):
    answer = json.loads(program("walk", "--json").out)
    (step,) = answer["steps"]
    assert step["scores"] == [15, 60, 15, 35]
    assert sum(step["exponentials"]) == pytest.approx(1 + 1.3887943864964021e-11)
    assert step["context"] == pytest.approx([5, 0, 1], abs=1e-9)
    assert answer["scorer"]["equation"] == "q · k"


def test_parameters_come_from_the_seed_and_numbers_equal_those_of_the_library(program):
    arguments = (
        "additive", "hidden_size=6", "--seed", 7, "--query", "1 -2; 0.5 3; 0 0",
        "--states", "0 1 1; 5 0 1; 1 1 0; 0 5 1", "--values", "1;2;3;4",
    )  # fmt: skip
    answer = json.loads(program("walk", *arguments, "--json").out)
    torch.manual_seed(7)
    attention = Attention(Additive(2, 3, hidden_size=6)).double()
    queries = torch.tensor([[[1, -2], [0.5, 3], [0, 0]]], dtype=torch.double)
    keys = torch.tensor([[[0, 1, 1], [5, 0, 1], [1, 1, 0], [0, 5, 1]]], dtype=torch.double)
    values = torch.tensor([[[1], [2], [3], [4]]], dtype=torch.double)
    contexts, weights = attention(queries, attention.prepare(keys, values))

    def printed(part):
        return torch.tensor([[step[part] for step in answer["steps"]]], dtype=torch.double)

    torch.testing.assert_close(printed("weights"), weights.detach())
    torch.testing.assert_close(printed("context"), contexts.detach())
    parameters = {name: torch.tensor(value, dtype=torch.double) for name, value in answer["parameters"].items()}
    torch.testing.assert_close(parameters, dict(attention.scorer.state_dict()))


def test_a_user_s_own_scorer_is_walked_through(program, forget_parts, monkeypatch):
    monkeypatch.setattr("seq2seq_attn.runs.plugin._loaded", [])
    own = Path(__file__).parents[2] / "examples" / "own_scorer.py"
    answer = program("walk", f"{own}:LowRank", "rank=2")
    assert (answer.code, answer.err) == (0, "")
    assert "e = (A q) · (B k) / √r" in answer.out
    assert "with rank = 2" in answer.out


def test_the_score_of_an_excluded_position_is_null_in_json(program):
    answer = program("walk", "location", "max_length=3", "--json")
    (step,) = json.loads(answer.out)["steps"]
    assert (step["scores"][3], step["weights"][3]) == (None, 0)


def test_self_attention_is_walked_through_with_vectors_and_words_of_one_s_own(program):
    assert program("walk", "self-attention").out == f"{walk('self-attention')}\n"
    states = [[1, 0, 0, 2], [0, 1.5, 0, 0], [-1, 0, 1, 0]]
    arguments = ("--states", "1 0 0 2; 0 1.5 0 0; -1 0 1 0", "--words", "Ann sees Bob")
    answer = program("walk", "self-attention", *arguments)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"{walk('self-attention', states=states, words='Ann sees Bob')}\n"


def test_self_attention_in_json_has_all_numbers_in_full_precision(program):
    answer = json.loads(program("walk", "self-attention", "--json").out)
    walked = walk("self-attention")
    assert answer["words"] == ["Tom", "chases", "Jerry"]
    assert answer["one_head"]["steps"][1]["scores"] == [2, 0, 1]
    assert answer["one_head"]["scorer"]["equation"] == "q · k / √d"
    weights = [[step["weights"] for step in head["steps"]] for head in answer["heads"]]
    assert weights == [[step.weights.tolist() for step in head.steps] for head in walked.heads]
    assert answer["parameters"] == {name: [*map(list, matrix)] for name, matrix in PARAMETERS.items()}
    for name, part in walked._asdict().items():
        assert name in answer or name == "layer"
        if isinstance(part, torch.Tensor):
            assert answer[name] == part.tolist()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--query", "1 0 1 0"], "takes states and words, not --query: "),
        (["--values", "1 0"], "takes states and words, not --values: "),
        (["--normalizer", "softmax"], "takes states and words, not --normalizer: "),
        (["--seed", "0"], "takes states and words, not --seed: "),
        (["--plugin", "mine.py"], "takes states and words, not --plugin: "),
        (["heads=3", "--seed", "2"], "takes states and words, not --seed, heads=3: "),
        (["--states", "1 0 1 0; 0 1 x 0"], "--states, row 2: 'x' is not a finite number"),
        (
            ["--states", "1 0; 0 1"],
            "states of 2 words with 2 numbers each; self-attention is shown with 3 words with 4",
        ),
        (["--words", "Tom"], "1 words; self-attention is shown with 3"),
        (["dot"], "give one scorer, not 2: self-attention dot"),
    ],
)
def test_what_self_attention_does_not_take_is_refused_in_one_line(refused, arguments, words):
    assert words in refused("walk", "self-attention", *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--query", "10 5 x"], ["--query, row 1: 'x' is not a finite number", '--query "1 0 0.5; 2 1 0"']),
        (["--states", "0 1 1; 5 nan 1"], ["--states, row 2: 'nan' is not a finite number"]),
        (["--values", "1; 2; 3; 1e999"], ["--values, row 4: '1e999' is not a finite number"]),
        (["--states", "0 1 1; 5 0"], ["--states, row 2: 2 numbers, where row 1 has 3"]),
        (["--states", "0 1 1;; 5 0 1"], ["--states, row 2: there are no numbers"]),
        (["--query", ""], ["--query, row 1: there are no numbers"]),
        (["--query", "1e200", "--states", "1e200; 1"], ["query 1: its scores or its context overflow"]),
        (
            ["negative_squared_distance", "--query=0 1e200 1"],
            ["query 1: its scores or its context overflow; give smaller numbers"],
        ),
        (["--seed", "99999999999999999999"], ["--seed"]),
        (["self_attention"], ["'self_attention' is not a scorer; give 'self-attention' in its place"]),
        (["dot", "general"], ["give one scorer, not 2: dot general"]),
        (["cosine", "temprature=1"], ["no option 'temprature'; did you mean 'temperature'?"]),
        (
            ["additive", "hidden_size=1000000000"],
            ["hidden_size=1000000000: a walk shows every number", "1,000 at most"],
        ),
        (["mlp", "hidden_sizes=[4, 1001]"], ["hidden_sizes=[4, 1001]: a walk shows every number"]),
        (["cosine", "temperature=-1"], ["Cosine needs temperature > 0, got -1.0"]),
        (["nowhere.py:Mine"], ["nowhere.py"]),
        (["--normalizer", "softmax temprature=2"], ["no option 'temprature'; did you mean 'temperature'?"]),
        (["--normalizer", ""], ["there is no normalizer ''"]),
        (["--normalizer", "softmx"], ["there is no normalizer 'softmx'; did you mean 'softmax'?"]),
    ],
)
def test_invalid_numbers_and_names_are_refused_in_one_line(refused, arguments, words):
    message = refused("walk", *arguments)
    for word in words:
        assert word in message
